"""Writes the program of pending tensors, or an exported one, to a file."""

from __future__ import annotations

from collections.abc import Sequence
import logging
import os
from typing import Any, Optional, Union

import torch
from torch.utils import _pytree as pytree
import torch_xla
from torch_xla import runtime

from . import clean, dialects, forms, from_hlo, printed, to_sdy, to_v2
from .. import preview, switch
from ..compile.record import ProgramRecord
from ..hlo.compile_options import CompileOptions, Partitioner
from ..mode import current_mode, Mode
from ..sdy.attributes import SdyError
from ..sdy.mesh_axes import InexpressibleError
from ..sdy.planner import is_partitioned
from .forms import Form

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
  module, options = _module_of(source)
  _lower(module, options, Form(form))
  data = dialects.text(module).encode() if is_text else dialects.write(
      module, target)
  with open(path, 'wb') as file:
    file.write(data)


def _version(text: Optional[str], is_text: bool) -> dialects.Version:
  if text is None:
    return dialects.cautious_version()
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


def _module_of(source: Source) -> tuple[Any, CompileOptions]:
  """The program as torch_xla has it, annotations in it, and its spread."""
  if isinstance(source, ProgramRecord):
    if source.sent is None:
      raise ValueError('the record has no program: torch_xla.shardy.record() '
                       'keeps programs, torch_xla.shardy.programs() does not')
    if dialects.artifact_version(source.sent) is not None:
      return dialects.read(source.sent), source.options
    return from_hlo.convert(source.sent), source.options
  if isinstance(source, torch.export.ExportedProgram):
    source = _results_of(source)
  elif isinstance(source, torch.Tensor):
    source = [source]
  _check_tensors(source)
  roots = [*preview.pending(source), *switch.route(current_mode()).companions()]
  count = runtime.global_runtime_device_count() if runtime.is_spmd() else 1
  return (dialects.read(printed.with_calls(roots)),
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


def _lower(module: Any, options: CompileOptions, form: Form) -> None:
  """Lowers a module as it came, in place."""
  taken = clean.take(module)
  _drop_runtime_attributes(module)
  if not is_partitioned(options) or form is Form.PLAIN:
    forms.remove_shardings(module)
  elif current_mode() is not Mode.SHARDY:
    to_v2.lower(module, taken)
  else:
    try:
      meshes = switch.route(Mode.SHARDY).planner.meshes()
      to_sdy.lower(module, taken, options.num_partitions, meshes)
    except (InexpressibleError, SdyError) as e:
      logger.warning(
          'Shardy cannot be told of %s: the program is exported with '
          'mhlo.sharding, and without priorities', e)
      to_v2.lower(module, taken)
    else:
      forms.write(module, form)


def _drop_runtime_attributes(module: Any) -> None:
  """Of the module: tools that know Shardy need not know MHLO."""
  attributes = module.operation.attributes
  # Older bindings list names with what they stand for.
  for name in [getattr(one, 'name', one) for one in attributes]:
    if name.startswith('mhlo.') and name != forms.FRONTEND_ATTRIBUTES:
      del attributes[name]


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
