"""The result of the backend's own Shardy for a script, as XLA shows it.

XLA writes the program before and after its pass `shardy-xla` where it is told
to by XLA_FLAGS, which it reads when its runtime starts.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
import contextlib
import ctypes
import glob
import os

import torch

from . import reader, text
from ..stablehlo import dialects
from ..stablehlo.mlir import ir
from .propagation import Origin, Propagation

_BEFORE, _AFTER = '01.before_propagation.mlir', '02.after_propagation.mlir'
# No whole module is written, as none has that name.
_FLAGS = ('--xla_dump_to={} --xla_dump_hlo_pass_re=shardy.* '
          '--xla_dump_hlo_module_re=^none$')
# What XLA_IR_DEBUG sets, which torch_xla reads as it is imported.
_TORCH, _LINES = 'lib/libtorch_cpu.so', 'FLAGS_torch_lazy_ir_debug'
# A whole propagation, as XLA runs it.
_PIPELINE = 'builtin.module(sdy-propagation-pipeline)'


def show(environment: MutableMapping[str, str], folder: str) -> None:
  """Has XLA write there, and torch_xla say which line made an operation."""
  flags = environment.get('XLA_FLAGS', '')
  if '--xla_dump_to' not in flags:
    environment['XLA_FLAGS'] = f'{flags} {_FLAGS.format(folder)}'
  with contextlib.suppress(OSError, ValueError):  # A torch without it.
    library = ctypes.CDLL(os.path.join(torch.__path__[0], _TORCH))
    ctypes.c_bool.in_dll(library, _LINES).value = True


def compared(folder: str, name: str, propagation: Propagation) -> str:
  """Tests whether the backend's Shardy split all so; if not, the first.

  XLA simplifies a program before: its tensors are others, all but the
  arguments. So its program is propagated by the installed Shardy, too.

  Args:
    name: the module's.
    propagation: what the installed Shardy makes of the program as handed on.
  """
  shown = os.path.join(folder, 'shardy', f'module_*.{glob.escape(name)}')
  for one in sorted(glob.glob(shown), reverse=True):
    before, after = (dialects.read(_data(one, n)) for n in (_BEFORE, _AFTER))
    if _by_tensor(reader.origins_of(before)) == _by_tensor(propagation.origins):
      dialects.run(_PIPELINE, before, 'cannot propagate')
      return _compared(propagation, before, after)
  return 'The backend does not show what its own Shardy chose: not compared'


def _compared(propagation: Propagation, before: ir.Module,
              after: ir.Module) -> str:
  ours, theirs = (reader.as_it_is(m, is_named=False) for m in (before, after))
  names = [t.name for t in theirs]
  if [t.name for t in ours] != names:
    return ("The backend's Shardy has another program after its propagation: "
            'not compared')
  arguments = sum(name.startswith('argument ') for name in names)
  chosen = (*ours, *propagation.tensors[:arguments])
  differences = [
      (tensor, number % len(theirs))
      for number, tensor in enumerate(chosen)
      if text.spec_text(tensor) != text.spec_text(theirs[number % len(theirs)])
  ]
  if not differences:
    return (f"The backend's own Shardy chose the same for all {len(names):,} "
            'tensors of the program as XLA simplified it')
  ours_of_it, number = differences[0]
  other = reader.as_it_is(after, is_named=True)[number]
  return (f"The backend's own Shardy chose otherwise for {len(differences)} of "
          f'{len(names):,} tensors, first {other.name} {other.shape}: '
          f'{text.spec_text(other)}, and not {text.spec_text(ours_of_it)}')


def _by_tensor(origins: Mapping[str, Origin]) -> dict[str, tuple[object, ...]]:
  return {
      key: (origin.shape, origin.dims)
      for key, origin in origins.items()
      if origin.argument is not None
  }


def _data(folder: str, name: str) -> bytes:
  with open(os.path.join(folder, name), 'rb') as file:
    return file.read()
