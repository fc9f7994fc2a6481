"""The two ends of the ladder of attempts in StableHLO.

In Shardy's terms, in V2, or plain; for backends that report their layouts, and
with every result pinned for those that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import logging
from typing import Any, Optional

from . import answer, conversion, dialects, forms, pins, propagation_probe
from ..compile.attempt import Attempt, Failure, hlo_answer, Outcome
from ..compile.plan import Plan, plan_of, Step, Tiles
from ..compile.record import TensorRecord
from ..hlo import array_shape, dump, op_sharding
from ..hlo.array_shape import ArrayShape
from ..hlo.compile_options import Partitioner
from ..hlo.compiled_program import CompiledProgram
from ..hlo.editor import entry_of, instructions_of
from ..hlo.protos import HloModuleProto
from ..rewrite.extract import NamesOf
from ..rewrite.pipeline import Program
from ..rewrite.hlo_codec import Lower, requested_records
from ..sdy.constraints import record_of, SdyProgram
from ..sdy.manual import MANUAL_TARGETS
from ..sdy.promise import LayoutPromise
from ..sharding.hlo_sharding import HloSharding, REPLICATED
from ..sharding.partition_spec import uneven_dims
from ..sharding.tile_assignment import ShardingError
from .forms import Form
from .mlir import ir

logger = logging.getLogger(__name__)

FORMAT = 'mlir'
_V2_FORM = 'mhlo.sharding'
_NOT_CHECKED = ('layouts are not checked: the plugin does not report them, and '
                'is assumed to keep the shardings that it is given')
_PLAIN_NOTE = 'the plugin takes no shardings: it gets plain StableHLO'


@dataclasses.dataclass(frozen=True)
class StableHloCodec:
  """Programs that leave as StableHLO, from one that is lowered to V2.

  Attributes:
    v2: the program in V2.
    form: what the plugin reads.
    version: to write artifacts in.
    names_of: the users' names of a binding's operands.
    original: the program as it came.
    oldest: the oldest version that the plugin reads.
    reports: the condition of Shardy's first attempts, as in `Step`.
  """
  v2: Program
  form: Form
  version: dialects.Version
  names_of: NamesOf
  original: bytes = b''
  oldest: dialects.Version = ()
  reports: Optional[bool] = True

  def shardy(self, program: Program, pin: bool = False) -> Attempt:
    """The attempt in Shardy's terms; `pin`: for backends that report nothing."""
    sdy = program.sdy
    pinned = pins.pin_sdy(program.module, sdy) if pin else None
    return _attempt(
        self._write(program.module, self.form),
        Partitioner.SHARDY,
        sdy.tensors,
        LayoutPromise(sdy.parameters, sdy.results, trusts=True, is_padded=True),
        form=self.form.value,
        arrays=_result_arrays(program.module),
        pinned=pinned,
        sdy_program=sdy,
        padded=program.padded.padded_unplaced)

  def probe(self, program: Program, lower: Lower) -> tuple[None, Tiles]:
    """The tiles that jaxlib's Shardy finds: it needs no backend."""
    unplaced = program.padded.unplaced_results
    whole = lower({
        n: (program.num_devices,) * len(dims) for n, dims in unplaced.items()
    })
    try:
      return None, propagation_probe.tiles(
          self._to_mlir(whole.module, Form.SDY), unplaced, program.sdy.mesh)
    except dialects.ProgramTextError as e:
      logger.debug('results that nobody placed are not padded: %s', e)
      return None, {}

  def other_shardy_steps(self, lower: Lower) -> tuple[Step, ...]:
    """Steps with all results pinned, and each in frontend attributes.

    A plugin may not know the dialect in spite of its version, or not how this
    jaxlib writes it (constraints on float8: 0.10.2).
    """
    in_attributes = dataclasses.replace(self, form=Form.ATTRIBUTES)

    def steps(pin: bool) -> Iterator[Step]:
      if pin:
        yield Step(lambda _: self.shardy(lower({}), pin), reports=False)
      if self.form is Form.SDY:
        yield Step(lambda _: in_attributes.shardy(lower({}), pin), not pin,
                   Failure.REFUSED, 'Shardy is told in frontend attributes')

    return (*steps(pin=False), *steps(pin=True))

  def gspmd_steps(self, tensors: tuple[TensorRecord, ...]) -> tuple[Step, ...]:
    """The steps from V2; with results pinned not if manual: XLA would abort."""
    steps = [Step(lambda _: self._gspmd(tensors), reports=True)]
    if not any(
        i.custom_call_target in MANUAL_TARGETS
        for i in instructions_of(self.v2.module)):
      steps.append(Step(lambda _: self._gspmd(tensors, pin=True), False))
    return tuple(steps)

  def _gspmd(self,
             tensors: tuple[TensorRecord, ...],
             pin: bool = False) -> Attempt:
    program = self.v2.copy() if pin else self.v2
    pinned = pins.pin_v2(program.module) if pin else None
    return _attempt(
        self._write(program.module) if pin else self._write_v2(),
        Partitioner.GSPMD,
        tensors,
        LayoutPromise(self._stored(program), {}, 'the plugin', trusts=True),
        form=_V2_FORM,
        arrays=_result_arrays(program.module),
        pinned=pinned,
        shardings=program.shardings)

  def v2_tensors(self) -> tuple[TensorRecord, ...]:
    return (*self._stored(self.v2),
            *(t for t in requested_records(self.v2, self.names_of)
              if t.parameter is None))

  def _stored(self, program: Program) -> tuple[TensorRecord, ...]:
    """The parameters and how they are stored, where that is said."""
    names, tensors = program.annotations.names(self.names_of), {}
    for i in entry_of(program.module).instructions:
      if i.opcode == 'parameter' and array_shape.array_of(i.shape) is not None:
        number = i.parameter_number
        with contextlib.suppress(ShardingError):
          tensors[number] = record_of(
              i,
              op_sharding.from_bytes(i.sharding).canonical(),
              program.annotations.parameters.get(number),
              number=number,
              name=names.get(number, ''))
    return tuple(tensors[number] for number in sorted(tensors))

  def plain(self) -> Plan:
    """The plan for a plugin that takes no shardings: `v2` has calls extracted."""
    module = self.v2.module
    promise = LayoutPromise(self._stored(self.v2), {}, 'the plugin')
    tensors = promise.parameters
    kinds = _result_arrays(module)
    attempt = functools.partial(
        _attempt,
        self._write(module, Form.PLAIN),
        Partitioner.GSPMD,
        tensors,
        form=Form.PLAIN.value,
        arrays=kinds)
    steps = [Step(lambda _: attempt(promise))]
    if all(t.layout == REPLICATED for t in tensors):
      # Results that no one splits need no report of the plugin's.
      trusting = dataclasses.replace(promise, trusts=True)
      whole = dict.fromkeys(range(len(kinds)), REPLICATED)
      steps = [
          steps[0]._replace(reports=True),
          Step(lambda _: attempt(trusting, pinned=whole), reports=False)
      ]
    return Plan(module.name, tuple(steps), tensors, note=_PLAIN_NOTE)

  def unpartitioned(self) -> Plan:
    """The plan for one device: no bindings or tags, and nothing is split."""
    module = self.v2.module
    kinds = _result_arrays(module)
    is_plain = self.form is Form.PLAIN
    attempt = Attempt(
        self._write(module, Form.PLAIN) if is_plain else self._write_v2(),
        Partitioner.GSPMD,
        self.v2.shardings,
        program_format=FORMAT,
        read=answer.read,
        answer=lambda outcome: hlo_answer(outcome) or _answer(len(kinds), None),
        form=Form.PLAIN.value if is_plain else _V2_FORM)
    return plan_of(module.name, attempt)

  def _write_v2(self) -> bytes:
    if not self.v2.is_changed:
      version = dialects.artifact_version(self.original)
      if version is not None and self.oldest <= version <= self.version:
        return self.original
    return self._write(self.v2.module)

  def _write(self,
             module: HloModuleProto,
             form: Optional[Form] = None) -> bytes:
    return dialects.write(self._to_mlir(module, form), self.version)

  def _to_mlir(self,
               module: HloModuleProto,
               form: Optional[Form] = None) -> ir.Module:
    """A lowered program in MLIR; without a form, in V2."""
    converted = conversion.from_hlo(module)
    if form is not None:
      forms.write(converted, form)
    dump.stage('stablehlo', lambda: dialects.text(converted), FORMAT)
    return converted


def _result_arrays(module: HloModuleProto) -> list[Optional[ArrayShape]]:
  entry = entry_of(module)
  shape = next(i.shape for i in entry.instructions if i.id == entry.root_id)
  shapes = [shape]
  if array_shape.is_tuple(shape):
    shapes = array_shape.elements_of(shape)
  return [array_shape.array_of(element) for element in shapes]


def _answer(count: int,
            results: Optional[Sequence[HloSharding]]) -> tuple[bytes, str]:
  """The text of the results' layouts, for the runtime, and its format."""
  return answer.text_of(count, results).encode(), FORMAT


def _attempt(program: bytes,
             partitioner: Partitioner,
             tensors: tuple[TensorRecord, ...],
             promise: LayoutPromise,
             *,
             form: str,
             arrays: Sequence[Optional[ArrayShape]],
             pinned: Optional[Mapping[int, HloSharding]] = None,
             sdy_program: Optional[SdyProgram] = None,
             **fields: Any) -> Attempt:
  """An attempt for backends that report the results' layouts, or do not.

  Args:
    arrays: the arrays that the program's results are.
    pinned: the layouts of all of these, for the latter.
    sdy_program: the program in Shardy's terms, if Shardy partitions.
    fields: more of `Attempt`.
  """
  has_manual = sdy_program is not None and bool(sdy_program.manual_results)
  mark_manual: Callable[[Sequence[HloSharding]], tuple[HloSharding, ...]] = (
      tuple if sdy_program is None else sdy_program.mark_manual_results)

  def broken_by(outcome: Outcome) -> Optional[str]:
    results = outcome.results
    if results is not None:
      if len(results) != len(arrays):
        return (
            f'the backend reports the layouts of {len(results)} results, of '
            f'{len(arrays)}')
      for number, placement in (pinned or {}).items():
        if results[number] != placement:
          return (f'result {number} is to be laid out as {placement} and the '
                  f'plugin gives {results[number]}')
    elif outcome.error is None:
      for number, placement in (pinned or {}).items():
        kind = arrays[number]
        if (kind is not None and placement.tiles is not None and
            uneven_dims(kind.dims, placement.tiles.dims)):
          return (f'result {number}, {kind}, is to be laid out as '
                  f'{placement}, which does not divide evenly, and the backend '
                  'does not report the layouts of results')
    return promise.broken_by(outcome)

  def read(compiled: bytes, *more: Any) -> Optional[CompiledProgram]:
    # Some give back what they got, which says nothing of what they made of it.
    return None if compiled == program else answer.read(compiled, *more)

  def runtime_answer(outcome: Outcome) -> tuple[bytes, str]:
    if pinned is not None:
      return _answer(len(arrays), mark_manual(list(pinned.values())))
    if has_manual or (read_as := hlo_answer(outcome)) is None:
      return _answer(len(arrays), mark_manual(outcome.results or ()))
    return read_as

  def note_of(outcome: Outcome) -> str:
    is_checked = outcome.compiled is not None and (
        outcome.compiled.parameters is not None or not promise.parameters)
    if is_checked and (pinned is None or outcome.results is not None):
      return ''
    if outcome.unreadable:
      return (
          'layouts are not checked: what the plugin tells of them cannot be '
          f'read ({outcome.unreadable})')
    return _NOT_CHECKED

  return Attempt(
      program,
      partitioner,
      tensors=tensors,
      promise=broken_by,
      program_format=FORMAT,
      read=read,
      answer=runtime_answer,
      note_of=note_of,
      form=form,
      **fields)
