"""The attempts at one program in StableHLO.

In Shardy's terms, in V2, or plain; for backends that report their layouts, and
with every result pinned for those that do not.
"""

from __future__ import annotations

from collections.abc import (Callable, Collection, Iterable, Iterator, Mapping,
                             Sequence)
import dataclasses
import functools
import logging
from typing import Any, NamedTuple, Optional

from . import answer, conversion, dialects, forms, pins, propagation_probe
from ..annotate.annotation import UserMesh
from ..compile.attempt import hlo_answer, Attempt, Outcome
from ..compile.plan import Plan
from ..compile.record import TensorRecord
from ..hlo import array_shape, messages, op_sharding
from ..hlo.array_shape import ArrayShape
from ..hlo.compile_options import Partitioner
from ..hlo.compiled_program import CompiledProgram
from ..hlo.editor import entry_of, instructions_of
from ..hlo.protos import HloModuleProto
from ..rewrite import extract, planner, untuple
from ..rewrite.extract import NamesOf
from ..rewrite.padding import Padded
from ..sdy import free_results
from ..sdy.constraints import SdyProgram, Tensor
from ..sdy.free_results import Dims, CandidateAttempt
from ..sdy.manual import MANUAL_TARGETS
from ..sdy.promise import LayoutPromise
from ..sdy.tensor_records import records
from ..sharding.hlo_sharding import HloSharding, REPLICATED
from ..sharding.partition_spec import uneven_dims
from ..sharding.tile_assignment import ShardingError
from ..v2 import to_v2
from ..v2.to_v2 import ShardingCounts
from .forms import Form
from .mlir import ir

logger = logging.getLogger(__name__)

FORMAT = 'mlir'
_V2_FORM = 'mhlo.sharding'
_NOT_CHECKED = ('layouts are not checked: the plugin does not report them, and '
                'is assumed to keep the shardings that it is given')
_PLAIN_NOTE = 'the plugin takes no shardings: it gets plain StableHLO'


class _Lowered(NamedTuple):
  """A program in Shardy's terms: an HloModuleProto message, and what it says.

  Attributes:
    note: what else was changed.
  """
  module: HloModuleProto
  annotations: extract.Annotations
  sdy: SdyProgram
  padded: Padded
  note: str


class _V2(NamedTuple):
  """A program in V2, likewise.

  Attributes:
    is_changed: whether that is another than came.
  """
  module: HloModuleProto
  annotations: extract.Annotations
  shardings: ShardingCounts
  note: str
  is_changed: bool


@dataclasses.dataclass(frozen=True)
class Attempts:
  """One program, and the plans for it.

  Each attempt starts from the program anew: only the first is made as a rule.

  Attributes:
    program: a serialised HloModuleProto.
    original: the artifact, if it came as one.
    form: what the plugin reads.
    version: to write artifacts in.
    names_of: the users' names of a binding's operands.
    meshes: what the process has, as for `constraints.decide`.
    oldest: the oldest version that the plugin reads.
    disabled_rewrites: as for `choice.apply`.
    rewrites: whether operations are rewritten, besides the shardings.
  """
  program: bytes
  original: Optional[bytes]
  form: Form
  version: dialects.Version
  names_of: NamesOf = lambda target: ()
  meshes: Callable[[], Iterable[UserMesh]] = tuple
  oldest: dialects.Version = ()
  disabled_rewrites: Collection[str] = ()
  rewrites: bool = True

  def converted_to_hlo(self) -> Attempts:
    """Converts a program in MLIR. Raises ProgramTextError: HLO lacks it."""
    program = conversion.to_hlo(dialects.read(self.program))
    return dataclasses.replace(self, program=program, original=self.program)

  def sdy(self, num_devices: int) -> Plan:
    """The plan by which Shardy partitions.

    Raises:
      InexpressibleError, SdyError: Shardy's terms do not say it all.
    """

    name, note = '', ''

    def make(tiles: Optional[Mapping[int, Dims]]) -> CandidateAttempt:
      nonlocal name, note
      name, candidate, note = self._sdy_attempt(
          num_devices, reports=True, tiles=tiles)
      return candidate

    attempts = free_results.attempts(make)
    first = next(attempts)

    def in_attributes(reports: bool) -> Attempt:
      # A plugin may not know the dialect in spite of its version, or not how
      # this jaxlib writes it (constraints on float8: 0.10.2).
      job = dataclasses.replace(self, form=Form.ATTRIBUTES)
      return dataclasses.replace(
          job._sdy_attempt(num_devices, reports)[1].attempt,
          requires_refusal=True,
          fallback_description='Shardy is told in frontend attributes')

    def later() -> Iterator[Attempt]:
      yield from attempts
      if self.form is Form.SDY:
        yield in_attributes(reports=True)
      yield self._sdy_attempt(num_devices, reports=False)[1].attempt
      if self.form is Form.SDY:
        yield in_attributes(reports=False)
      for gspmd in (self._v2_attempt(reports=True)[1], *self._pinned_v2()):
        # What was asked for, whoever partitions.
        yield dataclasses.replace(gspmd, tensors=first.tensors)

    return Plan(name, (first,), note=note, later=later)

  def v2(self, reason: str = '') -> Plan:
    """The plan by which GSPMD partitions, from V2 shardings.

    `reason` is as in `Plan`.
    """
    name, attempt, note = self._v2_attempt(reports=True)
    return Plan(name, (attempt,), reason, note, later=self._pinned_v2)

  def plain(self) -> Plan:
    """The plan for a plugin that takes no shardings."""
    module = self._read()
    annotations = extract.extract_annotations(module)
    names = annotations.names(self.names_of)
    promise = LayoutPromise(
        _stored(module, annotations), {}, names, 'the plugin')
    kinds = _result_arrays(module)
    attempt = functools.partial(
        _attempt,
        self._write(module, Form.PLAIN),
        Partitioner.GSPMD,
        records(promise.parameters, names),
        form=Form.PLAIN.value,
        arrays=kinds)
    if any(t.placement != REPLICATED for t in promise.parameters):
      alone = dataclasses.replace(attempt(promise), requires_layout_report=None)
      return Plan(module.name, (alone,), note=_PLAIN_NOTE)
    # Results that no one splits need no report of the plugin's.
    trusting = dataclasses.replace(promise, trusts=True)
    whole = dict.fromkeys(range(len(kinds)), REPLICATED)
    return Plan(
        module.name, (attempt(promise), attempt(trusting, pinned=whole)),
        note=_PLAIN_NOTE)

  def unpartitioned(self) -> Plan:
    """The plan for one device: no bindings or tags, and nothing is split."""
    v2 = self._to_v2()
    kinds = _result_arrays(v2.module)
    is_plain = self.form is Form.PLAIN
    attempt = Attempt(
        self._write(v2.module, Form.PLAIN) if is_plain else self._write_v2(v2),
        Partitioner.GSPMD,
        v2.shardings,
        program_format=FORMAT,
        read=answer.read,
        answer=lambda outcome: hlo_answer(outcome) or _answer(len(kinds), None),
        form=Form.PLAIN.value if is_plain else _V2_FORM)
    return Plan(v2.module.name, (attempt,))

  def _sdy_attempt(
      self,
      num_devices: int,
      reports: bool,
      tiles: Optional[Mapping[int, Dims]] = {}
  ) -> tuple[str, CandidateAttempt, str]:
    """The module's name, the attempt, and a note.

    Args:
      tiles: as for `padding.pad`; None: a probe of Shardy's finds them.
    """
    lowered = self._lowered(num_devices, tiles or {})
    if tiles is None and (unplaced := lowered.padded.unplaced_results):
      whole = {n: (num_devices,) * len(dims) for n, dims in unplaced.items()}
      try:
        tiles = propagation_probe.tiles(
            self._to_mlir(self._lowered(num_devices, whole).module, Form.SDY),
            unplaced, lowered.sdy.mesh)
      except dialects.ProgramTextError as e:
        logger.debug('results that nobody placed are not padded: %s', e)
      lowered = self._lowered(num_devices, tiles or {})
    module, annotations, program, padded, note = lowered
    names = annotations.names(self.names_of)
    pinned = None if reports else pins.pin_sdy(module, program)
    promise = dataclasses.replace(
        LayoutPromise.make(program, names), trusts=True)
    attempt = _attempt(
        self._write(module, self.form),
        Partitioner.SHARDY,
        records(program.tensors, names),
        promise,
        form=self.form.value,
        arrays=_result_arrays(module),
        pinned=pinned,
        sdy_program=program)
    return module.name, CandidateAttempt(
        attempt, padded=padded.padded_unplaced), note

  def _lowered(self, num_devices: int, tiles: Mapping[int, Dims]) -> _Lowered:
    v2 = self._to_v2()
    annotations = v2.annotations.without_unused()
    lowered = planner.lower(v2.module, annotations, num_devices, tiles,
                            self.meshes(), self.disabled_rewrites,
                            self.rewrites)
    return _Lowered(v2.module, annotations, *lowered, v2.note)

  def _v2_attempt(self, reports: bool) -> tuple[str, Attempt, str]:
    v2 = self._to_v2()
    names = v2.annotations.names(self.names_of)
    stored = _stored(v2.module, v2.annotations)
    tensors = (
        *records(stored, names),
        *(t for t in planner.requested_records(v2.module, v2.annotations, names)
          if t.parameter is None))
    pinned = None
    if not reports:
      pinned = pins.pin_v2(v2.module)
      v2 = v2._replace(is_changed=True)
    return v2.module.name, _attempt(
        self._write_v2(v2),
        Partitioner.GSPMD,
        tensors,
        LayoutPromise(stored, {}, names, 'the plugin', trusts=True),
        form=_V2_FORM,
        arrays=_result_arrays(v2.module),
        pinned=pinned,
        shardings=v2.shardings), v2.note

  def _pinned_v2(self) -> Iterator[Attempt]:
    """The V2 attempt with pinned results; none if manual: XLA would abort."""
    if not any(
        i.custom_call_target in MANUAL_TARGETS
        for i in instructions_of(self._read())):
      yield self._v2_attempt(reports=False)[1]

  def _read(self) -> HloModuleProto:
    """The program's message, without what it may be wrapped in."""
    module = messages.parse(HloModuleProto, self.program)
    untuple.unwrap(module)
    return module

  def _to_v2(self) -> _V2:
    module = self._read()
    annotations = extract.extract_annotations(module)
    is_changed, shardings, note = to_v2.emit_in_place(module, self.rewrites)
    return _V2(module, annotations, shardings, note, is_changed or
               annotations.has_calls)

  def _write_v2(self, v2: _V2) -> bytes:
    if self.original is not None and not v2.is_changed:
      version = dialects.artifact_version(self.original)
      if version is not None and self.oldest <= version <= self.version:
        return self.original
    return self._write(v2.module)

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
    return converted


def _result_arrays(module: HloModuleProto) -> list[Optional[ArrayShape]]:
  entry = entry_of(module)
  shape = next(i.shape for i in entry.instructions if i.id == entry.root_id)
  shapes = [shape]
  if array_shape.is_tuple(shape):
    shapes = array_shape.elements_of(shape)
  return [array_shape.array_of(element) for element in shapes]


def _stored(module: HloModuleProto,
            annotations: extract.Annotations) -> tuple[Tensor, ...]:
  """The parameters of a module and how they are stored, where that is said."""
  tensors = {}
  for i in entry_of(module).instructions:
    if i.opcode != 'parameter' or (array := array_shape.array_of(
        i.shape)) is None:
      continue
    try:
      placement = op_sharding.from_bytes(i.sharding).canonical()
    except ShardingError:
      continue
    number = i.parameter_number
    tensors[number] = Tensor(number, i.name, array, placement,
                             annotations.parameters.get(number), '',
                             (i.name, i.opcode))
  return tuple(tensors[number] for number in sorted(tensors))


def _answer(count: int,
            results: Optional[Sequence[HloSharding]]) -> tuple[bytes, str]:
  """The text of the results' layouts, for the runtime, and its format."""
  return answer.text_of(count, results).encode(), FORMAT


def _attempt(
    program: bytes,
    partitioner: Partitioner,
    tensors: tuple[TensorRecord, ...],
    promise: LayoutPromise,
    *,
    form: str,
    arrays: Sequence[Optional[ArrayShape]],
    pinned: Optional[Mapping[int, HloSharding]] = None,
    sdy_program: Optional[SdyProgram] = None,
    shardings: ShardingCounts = ShardingCounts()
) -> Attempt:
  """An attempt for backends that report the results' layouts, or do not.

  Args:
    arrays: the arrays that the program's results are.
    pinned: the layouts of all of these, for the latter.
    sdy_program: the program in Shardy's terms, if Shardy partitions.
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
      shardings,
      tensors,
      broken_by,
      program_format=FORMAT,
      read=read,
      answer=runtime_answer,
      requires_layout_report=pinned is None,
      note_of=note_of,
      form=form)
