"""The attempts at one program in StableHLO.

In Shardy's terms, in V2, or plain; for backends that tell how they lay tensors
out, and with every result pinned for those that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
import logging
from typing import Any, Optional

from . import (answer, batch_norm, convolutions, dialects, dot_dims, extract,
               forms, index_dims, padding, question, scatter_indices, to_sdy,
               to_v2, wrapper)
from ..annotate.annotation import UserMesh
from ..compile.attempt import as_read, Attempt, Outcome
from ..compile.plan import Plan
from ..compile.record import TensorRecord
from ..hlo.array_shape import ArrayShape
from ..hlo.compile_options import Partitioner
from ..hlo.compiled_program import CompiledProgram
from ..lower.to_v2 import ShardingCounts
from ..sdy import free_results
from ..sdy.free_results import Dims, Made
from ..sdy.lowering import SdyProgram, Tensor
from ..sdy.manual import MANUAL_TARGETS
from ..sdy.mesh_axes import InexpressibleError
from ..sdy.promise import LayoutPromise
from ..sdy.tensor_records import (in_brackets, names_of_parameters, NamesOf,
                                  records)
from ..sharding.hlo_sharding import HloSharding, REPLICATED
from ..sharding.partition_spec import uneven_dims
from .forms import Form
from .functions import (ARGUMENTS, array_of, attributes_of, constraint_name,
                        main_of, name_of, RESULTS, types_of)

logger = logging.getLogger(__name__)

FORMAT = 'mlir'
_V2_FORM = 'mhlo.sharding'
_NOT_CHECKED = ('layouts are not checked: the plugin does not tell how it lays '
                'tensors out, and is taken to keep what it is told')
_PLAIN_NOTE = 'the plugin takes no shardings: it gets plain StableHLO'


@dataclasses.dataclass(frozen=True)
class Attempts:
  """One program, and the plans for it.

  Each attempt starts from the program anew: only the first is made as a rule.

  Attributes:
    come: gives the module as it came.
    original: the artifact, if it came as one.
    form: what the plugin reads.
    version: to write artifacts in.
    names_of: the users' names of a binding's operands.
    meshes: what the process has, as for `lowering.lower`.
  """
  come: Callable[[], Any]
  original: Optional[bytes]
  form: Form
  version: dialects.Version
  names_of: NamesOf
  meshes: Callable[[], Iterable[UserMesh]] = tuple

  def read(self) -> Any:
    """The module, without what it may be wrapped in."""
    module = self.come()
    wrapper.unwrap(module)
    return module

  def sdy(self, num_devices: int) -> Plan:
    """For Shardy.

    Raises:
      InexpressibleError, SdyError: Shardy's terms do not say it all.
    """

    name, note = '', ''

    def make(tiles: Optional[Mapping[int, Dims]]) -> Made:
      nonlocal name, note
      name, made, note = self._sdy_attempt(
          num_devices, is_told=True, tiles=tiles)
      return made

    told = free_results.attempts(make)
    first = next(told)

    def in_text(is_told: bool) -> Attempt:
      # A plugin may not know the dialect in spite of its version, or not how
      # this jaxlib writes it (constraints on float8: 0.10.2).
      job = dataclasses.replace(self, form=Form.ATTRIBUTES)
      return dataclasses.replace(
          job._sdy_attempt(num_devices, is_told)[1].attempt,
          made_if_refused=True,
          instead='Shardy is told in frontend attributes')

    def later() -> Iterator[Attempt]:
      yield from told
      if self.form is Form.SDY:
        yield in_text(is_told=True)
      yield self._sdy_attempt(num_devices, is_told=False)[1].attempt
      if self.form is Form.SDY:
        yield in_text(is_told=False)
      for gspmd in (self._v2_attempt(is_told=True)[1], *self._untold_v2()):
        # What was asked for, whoever partitions.
        yield dataclasses.replace(gspmd, tensors=first.tensors)

    return Plan(name, (first,), note=note, later=later)

  def said_of(self, error: ValueError) -> str:
    """The tensor that Shardy cannot be told of, where it is one."""
    if (site := getattr(error, 'site', None)) is None:
      return ''
    kind, number = site
    if kind != to_sdy.ARGUMENT:
      return f', which {kind} {number} has'
    bindings = extract.take(self.read()).bindings
    name = names_of_parameters(bindings, self.names_of).get(number)
    return f', which parameter {number}{in_brackets(name)} has'

  def v2(self, reason: str = '') -> Plan:
    """For GSPMD, from V2 shardings; `reason` as in `Plan`."""
    name, attempt, note = self._v2_attempt(is_told=True)
    return Plan(name, (attempt,), reason, note, later=self._untold_v2)

  def plain(self) -> Plan:
    """For a plugin that takes no shardings."""
    module = self.read()
    taken = extract.take(module)
    names = names_of_parameters(taken.bindings, self.names_of)
    promise = LayoutPromise(_stored(module, taken), {}, names, 'the plugin')
    forms.remove_shardings(module)
    name, kinds = name_of(module), _result_arrays(module)
    attempt = functools.partial(
        _attempt,
        dialects.write(module, self.version),
        Partitioner.GSPMD,
        records(promise.parameters, names),
        form=Form.PLAIN.value,
        kinds=kinds)
    if any(t.placement != REPLICATED for t in promise.parameters):
      alone = dataclasses.replace(attempt(promise), made_if_told=None)
      return Plan(name, (alone,), note=_PLAIN_NOTE)
    # What is not split either way needs no word of the plugin's.
    trusting = dataclasses.replace(promise, trusts=True)
    whole = dict.fromkeys(range(len(kinds)), REPLICATED)
    return Plan(
        name, (attempt(promise), attempt(trusting, pinned=whole)),
        note=_PLAIN_NOTE)

  def unpartitioned(self) -> Plan:
    """For one device: bindings and tags go."""
    module, counts, is_changed, taken, _ = self._to_v2()
    del taken  # Nothing is split.
    if self.form is Form.PLAIN:
      forms.remove_shardings(module)
      is_changed = True
    name, kinds = name_of(module), _result_arrays(module)
    attempt = Attempt(
        self._write_v2(module, is_changed),
        Partitioner.GSPMD,
        counts,
        program_format=FORMAT,
        read=answer.read,
        answer=lambda outcome: as_read(outcome) or _told(len(kinds), None),
        form=Form.PLAIN.value if self.form is Form.PLAIN else _V2_FORM)
    return Plan(name, (attempt,))

  def _sdy_attempt(
      self,
      num_devices: int,
      is_told: bool,
      tiles: Optional[Mapping[int, Dims]] = {}) -> tuple[str, Made, str]:
    """The module's name, the attempt, and a note.

    Args:
      tiles: as for `padding.pad`; None: Shardy is asked.
    """
    module, taken, padded, told, note = self._lowered(num_devices, tiles or {})
    if tiles is None and padded.in_question:
      try:
        tiles = question.tiles(module, padded.in_question, told.mesh)
      except dialects.ProgramTextError as e:
        logger.debug('results that nobody placed are not padded: %s', e)
      module, taken, padded, told, _ = self._lowered(num_devices, tiles or {})
    names = names_of_parameters(taken.bindings, self.names_of)
    pinned = None if is_told else to_sdy.pin_results(module, told)
    forms.write(module, self.form)
    name, kinds = name_of(module), _result_arrays(module)
    promise = dataclasses.replace(LayoutPromise.of(told, names), trusts=True)
    attempt = _attempt(
        dialects.write(module, self.version),
        Partitioner.SHARDY,
        records(told.tensors, names),
        promise,
        form=self.form.value,
        kinds=kinds,
        pinned=pinned,
        told=told)
    return name, Made(attempt, padded=padded.free), note

  def _lowered(
      self, num_devices: int, tiles: Mapping[int, Dims]
  ) -> tuple[Any, extract.Taken, padding.Padded, SdyProgram, str]:
    """The module, what it said and says, and a note of what else was changed.
    """
    module = self.read()
    for rewrite in (batch_norm.expand, dot_dims.unmerge, index_dims.batch,
                    scatter_indices.narrow):
      rewrite(module)
    note = convolutions.make_partitionable(module)
    taken = extract.take(module).of_used()
    taken, padded = padding.pad(module, taken, num_devices, tiles)
    told = to_sdy.lower(module, taken, num_devices, self.meshes())
    return module, taken, padded, padded.as_users_know(told), note

  def _v2_attempt(self, is_told: bool) -> tuple[str, Attempt, str]:
    module, counts, is_changed, taken, note = self._to_v2()
    names = names_of_parameters(taken.bindings, self.names_of)
    stored = _stored(module, taken)
    # Writing uses the module up.
    noted = records((*stored, *_constrained(taken)), names)
    pinned = None if is_told else to_v2.pin_results(module)
    name, kinds = name_of(module), _result_arrays(module)
    return name, _attempt(
        self._write_v2(module, is_changed or not is_told),
        Partitioner.GSPMD,
        noted,
        LayoutPromise(stored, {}, names, 'the plugin', trusts=True),
        form=_V2_FORM,
        kinds=kinds,
        pinned=pinned,
        shardings=counts), note

  def _untold_v2(self) -> Iterator[Attempt]:
    """None for manual sharding: XLA aborts on results of it that are pinned."""
    if not extract.take(self.read()).calls & set(MANUAL_TARGETS):
      yield self._v2_attempt(is_told=False)[1]

  def _to_v2(self) -> tuple[Any, ShardingCounts, bool, extract.Taken, str]:
    """The module with V2 shardings, and whether that is another than came.

    What was taken from it, and a note of what else was changed, follow.
    """
    module = self.read()
    narrowed = scatter_indices.narrow(module)
    note = convolutions.make_partitionable(module)
    taken = extract.take(module)
    counts = to_v2.lower(module, taken)
    is_changed = taken.found or bool(counts.v2 or narrowed or note)
    return module, counts, is_changed, taken, note

  def _write_v2(self, module: Any, is_changed: bool) -> bytes:
    if self.original is not None and not is_changed:
      came_in = dialects.artifact_version(self.original)
      if came_in is not None and came_in <= self.version:
        return self.original
    return dialects.write(module, self.version)


def _result_arrays(module: Any) -> list[Optional[ArrayShape]]:
  return [array_of(kind) for kind in types_of(main_of(module), RESULTS)]


def _stored(module: Any, taken: extract.Taken) -> tuple[Tensor, ...]:
  """The parameters of a module and how they are stored, where that is said."""
  main = main_of(module)
  tensors = []
  for number, (given, kind) in enumerate(
      zip(attributes_of(main, ARGUMENTS), types_of(main, ARGUMENTS))):
    array = array_of(kind)
    try:
      placement = to_sdy.placement_of(given) or REPLICATED
    except InexpressibleError:
      array = None
    if array is not None:
      name = f'arg{number}'
      tensors.append(
          Tensor(number, name, array, placement, taken.parameters.get(number),
                 '', (name, 'parameter')))
  return tuple(tensors)


def _constrained(taken: extract.Taken) -> tuple[Tensor, ...]:
  """The intermediate tensors that users marked."""
  tensors = []
  for number, said in sorted(taken.constraints.items()):
    array = array_of(taken.sharding_calls[number].results[0].type)
    if array is not None:
      name = constraint_name(number)
      tensors.append(
          Tensor(None, name, array, said.sharding, said, '',
                 (name, 'sharding_constraint')))
  return tuple(tensors)


def _told(count: int,
          results: Optional[Sequence[HloSharding]]) -> tuple[bytes, str]:
  """`answer.text_of` for the runtime."""
  return answer.text_of(count, results).encode(), FORMAT


def _attempt(
    program: bytes,
    partitioner: Partitioner,
    tensors: tuple[TensorRecord, ...],
    promise: LayoutPromise,
    *,
    form: str,
    kinds: Sequence[Optional[ArrayShape]],
    pinned: Optional[Mapping[int, HloSharding]] = None,
    told: Optional[SdyProgram] = None,
    shardings: ShardingCounts = ShardingCounts()
) -> Attempt:
  """An attempt for backends that tell of results, or that do not.

  Args:
    kinds: of the program's results.
    pinned: the layouts of all of these, for the latter.
    told: what Shardy is told.
  """
  has_manual = told is not None and bool(told.manual_results)
  as_known = tuple if told is None else told.as_known

  def broken_by(outcome: Outcome) -> Optional[str]:
    if outcome.tells:
      made = outcome.compiled.results
      if len(made) != len(kinds):
        return (f'the backend tells the layouts of {len(made)} results, and '
                f'there are {len(kinds)}')
      for number, placement in (pinned or {}).items():
        if made[number] != placement:
          return (f'result {number} is to be laid out as {placement} and the '
                  f'plugin gives {made[number]}')
    elif outcome.error is None:
      for number, placement in (pinned or {}).items():
        if placement.tiles is not None and uneven_dims(kinds[number].dims,
                                                       placement.tiles.dims):
          return (f'result {number}, {kinds[number]}, is to be laid out as '
                  f'{placement}, which does not divide evenly, and the backend '
                  'does not tell how it lays out the results')
    return promise.broken_by(outcome)

  def read(made: bytes, *more: Any) -> Optional[CompiledProgram]:
    # Some give back what they got, which says nothing of what they made of it.
    return None if made == program else answer.read(made, *more)

  def read_by_xlac(outcome: Outcome) -> tuple[bytes, str]:
    if pinned is not None:
      return _told(len(kinds), as_known(list(pinned.values())))
    if has_manual or (read_as := as_read(outcome)) is None:
      return _told(len(kinds), as_known(outcome.compiled.results))
    return read_as

  def note_of(outcome: Outcome) -> str:
    is_checked = outcome.compiled is not None and (
        outcome.compiled.parameters is not None or not promise.parameters)
    if is_checked and (pinned is None or outcome.tells):
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
      answer=read_by_xlac,
      made_if_told=pinned is None,
      note_of=note_of,
      form=form)
