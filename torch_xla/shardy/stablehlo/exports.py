"""Writes the program of pending tensors, or an exported one, to a file."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import logging
import os
from typing import Any, Optional, Union

import torch
from torch.utils import _pytree as pytree
import torch_xla
from torch_xla import runtime

from . import calls, conversion, dialects, forms, printed
from .. import preview, switch
from ..compile.record import ProgramRecord
from ..hlo.compile_options import CompileOptions, Partitioner
from ..mode import current_mode
from .attempts import Attempts
from .forms import Form
from .planner import plan_of

Source = Union[Sequence[torch.Tensor], torch.export.ExportedProgram,
               ProgramRecord]

logger = logging.getLogger(__name__)

_TEXT, _BYTECODE = ('.mlir',), ('.mlirbc', '.bc')


def export_stablehlo(source: Source,
                     path: Union[str, os.PathLike],
                     form: str = Form.SDY.value,
                     version: Optional[str] = None) -> None:
  """See `torch_xla.shardy.export_stablehlo`."""
  path = os.fsdecode(path)
  is_text = path.endswith(_TEXT)
  if not is_text and not path.endswith(_BYTECODE):
    raise ValueError(
        f'{path!r}: the suffix says in what to write: {", ".join(_TEXT)} for '
        f'text, {" or ".join(_BYTECODE)} for a portable artifact')
  if form not in [f.value for f in Form]:
    raise ValueError(f'form={form!r} is none of ' +
                     ', '.join(repr(f.value) for f in Form))
  switch.check_door()
  dialects.check_installed('export_stablehlo writes StableHLO')
  target = _version(version, is_text)
  data = _lowered(*_program_of(source), Form(form), target)
  if is_text:
    data = dialects.text(dialects.read(data)).encode()
  with open(path, 'wb') as file:
    file.write(data)


def _version(text: Optional[str], is_text: bool) -> dialects.Version:
  if text is None:
    return (dialects.current_version()
            if is_text else dialects.cautious_version())
  if is_text:
    raise ValueError(f'version={text!r} is for portable artifacts, '
                     f'{" and ".join(_BYTECODE)}: text has no version')
  oldest, newest = dialects.oldest_version(), dialects.current_version()
  try:
    version = dialects.parse_version(text)
  except ValueError:
    version = ()
  if len(version) != 3 or not oldest <= version <= newest:
    raise ValueError(
        f'version={text!r} is no version from {dialects.version_text(oldest)} to '
        f'{dialects.version_text(newest)}, which the installed jaxlib writes')
  return version


def _program_of(source: Source) -> tuple[bytes, CompileOptions]:
  """The program as torch_xla has it, annotations in it, and its spread."""
  if isinstance(source, ProgramRecord):
    if source.sent is None:
      raise ValueError('the record has no program: torch_xla.shardy.record() '
                       'keeps programs, torch_xla.shardy.programs() does not')
    return source.sent, source.options
  if isinstance(source, torch.export.ExportedProgram):
    source = _results_of(source)
  elif isinstance(source, torch.Tensor):
    source = [source]
  _check_tensors(source)
  roots = [*preview.pending(source), *switch.route(current_mode()).companions()]
  count = runtime.global_runtime_device_count() if runtime.is_spmd() else 1
  return (calls.trimmed(printed.with_calls(roots)),
          CompileOptions(Partitioner.GSPMD, 1, count))


def _check_tensors(tensors: Any) -> None:
  if not isinstance(tensors, (list, tuple)) or not all(
      isinstance(t, torch.Tensor) for t in tensors):
    raise TypeError(
        f'export_stablehlo takes a list of tensors, an ExportedProgram or a '
        f'ProgramRecord, and this is a {type(tensors).__name__}')
  for t in tensors:
    if t.device.type != 'xla':
      raise ValueError(f'a tensor on {t.device} is no part of a program: '
                       "export tensors on the device 'xla'")


def _lowered(program: bytes, options: CompileOptions, form: Form,
             version: dialects.Version) -> bytes:
  """What a plugin gets that reads this form and version."""
  mode = current_mode()
  job = Attempts(program, None, form, version, meshes=switch.route(mode).meshes)
  if dialects.artifact_version(program) is None:
    plan = plan_of(job, mode, options)
  else:
    try:
      plan = plan_of(
          dataclasses.replace(
              job,
              program=conversion.to_hlo(dialects.read(program)),
              original=program), mode, options)
    except dialects.ProgramTextError as e:
      logger.warning('the program is exported as torch_xla has it: %s', e)
      module = dialects.read(calls.without(program))
      if form is Form.PLAIN:
        forms.write(module, form)
      return dialects.write(module, version)
  if plan.reason:
    logger.warning(
        '%s: the program is exported with mhlo.sharding, and without '
        'priorities', plan.reason)
  return plan.attempts[0].program


def _results_of(exported: torch.export.ExportedProgram) -> list[torch.Tensor]:
  """What the program gives, pending, from its own example inputs.

  Tensors of it that are on the device already, and annotated, are used as they
  are; the others are moved there.
  """
  from torch_xla import stablehlo as exporter
  if exported.example_inputs is None:
    raise ValueError('the exported program has no example inputs')
  exported = exporter._run_decompositions(exported)
  arguments, keywords = exported.example_inputs
  device = torch_xla.device()
  flat = pytree.tree_map_only(
      torch.Tensor, lambda t: t.to(device),
      exported._graph_module_flat_inputs(arguments, keywords))
  inputs = [t for t in pytree.tree_leaves(flat) if isinstance(t, torch.Tensor)]
  # Only these: what else is pending is not this program's.
  torch_xla._XLAC._xla_sync_multi(inputs, [], True, True)
  interpreter = exporter.XLAExportInterpreter(exported.graph_module, device,
                                              set(), None)
  # Numbers stay in the program; as arguments they would have no names.
  torch_xla._XLAC._set_xla_all_numbers_special_scalars(True)
  try:
    with torch.no_grad():
      results = interpreter.run(*flat, enable_io_processing=False)
  finally:
    torch_xla._XLAC._set_xla_all_numbers_special_scalars(False)
  signature = exported.graph_signature
  mutated = len(signature.buffers_to_mutate) + len(
      signature.user_inputs_to_mutate)
  return [t for t in results[mutated:] if isinstance(t, torch.Tensor)]
