"""The program of pending tensors, or an exported one: lowered, and in a file."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import json
import logging
import os
from typing import Any, NamedTuple, Optional, Union

import torch
from torch.utils import _pytree as pytree
import torch_xla
from torch_xla import runtime
from torch_xla.distributed.spmd import xla_sharding

from . import calls, dialects, for_plugin, forms, printed
from .. import door, tensor_names
from ..bind import binder
from ..compile.record import ProgramRecord, TensorRecord
from ..hlo.compile_options import CompileOptions, Partitioner
from ..mode import current_mode
from .attempts import FORMAT
from .forms import Form
from .planner import Planner
from .signature import Signature
from .target import Target

Source = Union[Sequence[torch.Tensor], torch.export.ExportedProgram,
               ProgramRecord]

logger = logging.getLogger(__name__)

_TEXT, _BYTECODE = ('.mlir',), ('.mlirbc', '.bc')

# And not shells of tensors, nor fake ones.
_PLAIN = (torch.Tensor, torch.nn.Parameter)

Named = tuple[torch.Tensor, str]


class _Traced(NamedTuple):
  """A program as torch_xla has it, how it is spread, and what is what in it."""
  program: bytes
  options: CompileOptions
  signature: Signature


def export_stablehlo(source: Source,
                     path: Union[str, os.PathLike[str]],
                     form: str = Form.SDY.value,
                     version: Optional[str] = None) -> None:
  """Does the work of `torch_xla.shardy.export_stablehlo`."""
  path = os.fsdecode(path)
  is_text = path.endswith(_TEXT)
  if not is_text and not path.endswith(_BYTECODE):
    raise ValueError(
        f'{path!r}: the suffix says in what to write: {", ".join(_TEXT)} for '
        f'text, {" or ".join(_BYTECODE)} for a portable artifact')
  if form not in [f.value for f in Form]:
    raise ValueError(f'form={form!r} is none of ' +
                     ', '.join(repr(f.value) for f in Form))
  door.check_door()
  target = version_of(version, is_text)
  traced = _program_of(source)
  data, tensors = _lowered(traced.program, traced.options, Form(form), target)
  if not isinstance(source, ProgramRecord):  # That stays what the plugin got.
    module = dialects.read(data)
    traced.signature.write(module)
    data = dialects.write(module, target)
  module = dialects.read(data)
  if is_text:
    data = dialects.text(module).encode()
  description = traced.signature.describe(module, Form(form), tensors)
  with open(path, 'wb') as file:
    file.write(data)
  with open(f'{path}.json', 'w', encoding='utf-8') as file:
    json.dump(description, file, indent=1)


def shardy_program(source: Source) -> tuple[str, bytes, dict[int, str]]:
  """A name, what a plugin gets in Shardy's dialect, and arguments' names.

  Raises:
    DoorError, ValueError: as of `export_stablehlo`.
  """
  door.check_door()
  dialects.check_installed('a program is explained in StableHLO')
  traced = _program_of(source)
  data, _ = _lowered(traced.program, traced.options, Form.SDY,
                     dialects.current_version())
  name = source.name if isinstance(source, ProgramRecord) else 'program'
  return name, data, dict(traced.signature.arguments)


def version_of(text: Optional[str], is_text: bool) -> dialects.Version:
  """The version to write.

  Raises:
    DoorError: jaxlib is missing.
    ValueError: `text` is none that the installed jaxlib writes.
  """
  dialects.check_installed('export_stablehlo writes StableHLO')
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


def _program_of(source: Source) -> _Traced:
  """The program as torch_xla has it, annotations in it, and its spread."""
  if isinstance(source, ProgramRecord):
    if source.sent is None:
      raise ValueError('the record has no program: torch_xla.shardy.record() '
                       'keeps programs, torch_xla.shardy.programs() does not')
    names = dict(source.arguments) | {
        t.parameter: t.name
        for t in source.tensors
        if t.name and t.parameter is not None
    }
    return _Traced(source.sent, source.options, Signature(names, {}))
  if isinstance(source, torch.export.ExportedProgram):
    named, named_inputs = _traced(source)
  else:
    tensors = [source] if isinstance(source, torch.Tensor) else source
    _check_tensors(tensors)
    named = list(zip(tensors, tensor_names.names_of(tensors), strict=True))
    # Of others nothing asked, and to ask would make the next sync another.
    named_inputs = [
        (t, name)
        for t, name in tensor_names.living_names()
        if type(t) in _PLAIN and t.device.type == 'xla' and _starts_a_graph(t)
    ]
  roots = _pending_roots([t for t, _ in named])
  first = len(roots)
  roots += [t for t, _ in named_inputs]
  program, arguments = calls.trim_program(
      printed.artifact_with_calls(roots), {
          n: name for n, (_, name) in enumerate(named_inputs, first)
      }, binder.names.get)
  return _Traced(
      program, _options(runtime.is_spmd()),
      Signature(arguments, {
          n: name for n, (_, name) in enumerate(named) if name
      }))


def lowered_hlo(tensors: Sequence[torch.Tensor]) -> bytes:
  """The program that a backend would get for pending tensors, in HLO.

  Raises:
    ValueError: none of the tensors has anything pending.
  """
  program = torch_xla._XLAC._get_xla_tensors_hlo_proto(_pending_roots(tensors))
  planner = Planner(current_mode(), for_plugin.surroundings())
  return planner(program, 'hlo', _options(True)).attempt().program


def _pending_roots(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
  """The global tensors behind these, and the binding of the next sync."""
  tensors = [xla_sharding.unwrap_sharded_tensor(t) for t in tensors]
  if not any(torch_xla._XLAC._check_tensor_need_materialization(tensors)):
    raise ValueError('none of the tensors has anything pending: there is no '
                     'program to show. Ask before torch_xla.sync()')
  return [*tensors, *binder.pending_bindings()]


def _options(is_spmd: bool) -> CompileOptions:
  count = runtime.global_runtime_device_count() if is_spmd else 1
  return CompileOptions(Partitioner.GSPMD, 1, count)


def _starts_a_graph(t: torch.Tensor) -> bool:
  return ',' in torch_xla._XLAC._unique_id_for_ir_and_data(
      t) and not torch_xla._XLAC._check_tensor_need_materialization([t])[0]


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


def _lowered(
    program: bytes, options: CompileOptions, form: Form,
    version: dialects.Version) -> tuple[bytes, tuple[TensorRecord, ...]]:
  """The program in this form and version, and its tensors."""
  planner = Planner(
      current_mode(),
      dataclasses.replace(
          for_plugin.surroundings(), names_of=lambda target: ()), lambda: True,
      lambda: Target(form, version, ''))
  is_hlo = dialects.artifact_version(program) is None
  plan = planner(program, 'hlo' if is_hlo else FORMAT, options)
  attempt = plan.attempt()
  if attempt.program_format is None:
    logger.warning('the program is exported as torch_xla has it: %s',
                   plan.reason)
    module = dialects.read(attempt.program)
    if form is Form.PLAIN:
      forms.write(module, form)
    return dialects.write(module, version), ()
  if plan.reason:
    logger.warning(
        '%s: the program is exported with mhlo.sharding, and without '
        'priorities', plan.reason)
  return attempt.program, plan.tensors


def _traced(
    exported: torch.export.ExportedProgram) -> tuple[list[Named], list[Named]]:
  """The program's pending results and its own example inputs, by names.

  What it mutates comes first, as in its signature. Tensors of it that are on
  the device already, and annotated, are used as they are; the others are moved
  there.
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
  signature = exported.graph_signature
  named_inputs = [(t, spec.target or spec.arg.name)
                  for t, spec in zip(flat, signature.input_specs, strict=True)
                  if isinstance(t, torch.Tensor)]
  # Only these: what else is pending is not this program's.
  torch_xla._XLAC._xla_sync_multi([t for t, _ in named_inputs], [], True, True)
  interpreter = exporter.XLAExportInterpreter(exported.graph_module, device,
                                              set(), None)
  # Numbers stay in the program; as arguments they would have no names.
  torch_xla._XLAC._set_xla_all_numbers_special_scalars(True)
  try:
    with torch.no_grad():
      results = interpreter.run(*flat, enable_io_processing=False)
  finally:
    torch_xla._XLAC._set_xla_all_numbers_special_scalars(False)
  for t, _ in named_inputs:
    t + 0  # One that nothing asks for could be no result.
  return [(t, spec.target or spec.arg.name)
          for t, spec in zip(results, signature.output_specs, strict=True)
          if isinstance(t, torch.Tensor)], named_inputs
