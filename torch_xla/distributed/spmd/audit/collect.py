"""Gathers what is known of a model's tensors, from policy to compiled program.

Nothing is run and no data is read. Where something cannot be known, the row
says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import functools
import math
from typing import Optional

import torch
import torch_xla
from torch_xla.shardy.annotate.annotation import Annotation, user_mesh
from torch_xla.shardy.bind import binder
from torch_xla.shardy.compile.causes import causes
from torch_xla.shardy.compile.record import ProgramRecord, TensorRecord
from torch_xla.shardy.hlo.compiled_program import Collective
from torch_xla.shardy.hlo.compile_options import Partitioner
from torch_xla.shardy.layers import group_of
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.sharding.text import parse_sharding

from .. import policy as spmd_policy, xla_sharding
from ..policy import (applied as policy_applied, captured, claims as
                      policy_claims, rules)
from . import placement
from .report import (Activation, BoundaryRow, CollectiveRow, GRADIENT, Held,
                     ProgramRow, Seen, TensorRow, UNMARKED)
from .baseline import Standard
from .device_memory import held, Occupancy

NO_DOOR = ('the mode is off, and only with XLA_USE_SHARDY=1 are compiled '
           'programs seen')
NO_BINDING = ('in mode v2 a program does not say which of its parameters is '
              'which tensor; XLA_USE_SHARDY=1 does')
NO_PROGRAM = ('no program of those that this audit is about used it by this '
              'name')
NOT_NAMED = 'programs name marked tensors alone'
NOT_KEPT = 'only with XLA_USE_SHARDY=1 are marks known that no policy made'
NOT_CLAIMED = 'the policy does not say'


class Collector:
  """Gathers the rows of one audit."""

  def __init__(self, model: torch.nn.Module, standard: Standard):
    self._model = model
    self._standard = standard
    self._policy = standard.policy
    self._mesh = standard.mesh
    self._axes = spmd_policy.axes(standard.mesh)
    self._mode = torch_xla.shardy.current_mode()
    self._records = torch_xla.shardy.programs()[standard.start.programs:]
    self.occupancy = Occupancy(model)
    self._by_name: dict[str, list[tuple[str, TensorRecord, ProgramRecord]]] = {}
    for record in self._records:
      for tensor in record.tensors:
        if tensor.parameter is not None and tensor.name:
          self._by_name.setdefault(tensor.name, []).append(
              (record.name, tensor, record))

  def tensors(
      self) -> tuple[tuple[TensorRow, ...], tuple[policy_claims.Problem, ...]]:
    """A row per tensor, and where the policy does not fit the model."""
    claims, problems = self._policy.claims(self._model, self._mesh)
    parameters = {id(p) for p in self._model.parameters()}
    rows = tuple(
        self._tensor(names, t, claims.get(names[0]), 'parameter' if id(t) in
                     parameters else 'buffer')
        for names, t in spmd_policy.owned(self._model))
    return rows, problems

  def held(self, rows: Sequence[TensorRow]) -> tuple[Held, ...]:
    """Sums of what lives on the device, by sort; the model's `rows` first."""
    return held([
        *((f'{row.kind}s', row.nbytes, row.local_nbytes) for row in rows),
        *((f'{beside.role}s' if beside.role == GRADIENT else
           f'optimizer state {beside.role}', beside.nbytes, beside.local_nbytes)
          for row in rows
          for beside in row.beside),
        *((other.role, other.nbytes, other.local_nbytes)
          for other in self.occupancy.others
          for _ in range(other.count))
    ])

  def boundaries(
      self) -> tuple[tuple[BoundaryRow, ...], list[policy_claims.Problem]]:
    """A row per module that the policy names, and where it does not fit."""
    modules, problems = policy_claims.claim_modules(
        self._policy.boundaries, list(spmd_policy.modules_of(self._model)),
        self._axes)
    hooks = {(h.module, h.boundary): h for h in self._standard.hooks}
    rows = []
    for name, boundary in modules:
      if all(
          a in self._axes
          for entry in boundary.spec
          for a in rules.axes_of(entry)):
        rows.append(self._boundary(name, boundary, hooks.get((name, boundary))))
    return tuple(rows), problems

  def programs(self) -> Optional[tuple[ProgramRow, ...]]:
    """A row per program compiled since; None where nobody sees programs."""
    if self._mode is Mode.OFF:
      return None
    return tuple(map(self._program, self._records))

  def counts(self) -> dict[str, Optional[int]]:
    """How often what was compiled or traced since; None if not known."""
    start, now = self._standard.start, policy_applied.Counts.now()
    since = {'compiles': now.compiles - start.compiles}
    for name in policy_applied.COUNTERS:
      since[name] = now.counters[name] - start.counters[name]
    # A counter that was cleared meanwhile says less than nothing.
    return {n: None if c < 0 else c for n, c in since.items()}

  def _tensor(self, names: Sequence[str], t: torch.Tensor,
              claim: Optional[policy_claims.Claim], kind: str) -> TensorRow:
    marked = self._annotation(t)
    is_unmarked = self._standard.origin == 'captured' and marked == UNMARKED
    if is_unmarked:  # A captured policy has no rule for it.
      claim = None
    annotation = claim and policy_applied.annotation_for(self._mesh, claim)
    unclaimed = UNMARKED if is_unmarked else Seen(unknown=NOT_CLAIMED)
    policy = _seen(annotation) if annotation else unclaimed
    stored = placement.stored(t)
    layout = stored.sharding or policy.sharding
    form, why_not = self._form(policy.sharding or stored.sharding)
    shape = tuple(t.shape)
    local = placement.local_shape(layout, shape)
    size = t.element_size()
    devices = math.prod(self._axes.values())
    records = self._by_name.get(
        self._standard.record_names.get(names[0], names[0]), [])
    return TensorRow(
        name=names[0],
        aliases=tuple(names[1:]),
        kind=kind,
        rule=''
        if claim is None else 'default' if claim.rule is None else claim.rule,
        spec='' if annotation is None else annotation.spec_text,
        shape=shape,
        dtype=placement.element_type(t),
        nbytes=math.prod(shape) * size,
        local_shape=local,
        local_nbytes=math.prod(local) * size,
        replicated_nbytes=max(0,
                              devices * math.prod(local) - math.prod(shape)) *
        size,
        policy=policy,
        annotation=marked,
        stored=stored,
        compiled=(Seen(unknown=NOT_NAMED),)
        if is_unmarked and not records else self._compiled(records),
        form=form,
        why_not_v2=why_not,
        partitioners=_unique(r.partitioner.value for _, _, r in records),
        fallbacks=_unique(
            r.note for _, _, r in records if self._is_fallback(r)),
        unused_axes=self._unused(annotation, stored, len(shape)),
        beside=self.occupancy.rows_beside(t))

  def _annotation(self, t: torch.Tensor) -> Seen:
    t = xla_sharding.unwrap_sharded_tensor(t)
    said = (
        binder.annotation_of(t)
        if self._mode is Mode.SHARDY else self._standard.annotations.get(t))
    return _seen(said) if said is not None else (
        UNMARKED if self._mode is Mode.SHARDY else Seen(unknown=NOT_KEPT))

  def _compiled(
      self, records: Sequence[tuple[str, TensorRecord, ProgramRecord]]
  ) -> tuple[Seen, ...]:
    if self._mode is not Mode.SHARDY:
      return (Seen(unknown=NO_DOOR if self._mode is Mode.OFF else NO_BINDING),)
    if not records:
      return (Seen(unknown=NO_PROGRAM),)
    programs_by_layout: dict[tuple, list[str]] = {}
    for program, tensor, _ in records:
      sharding = tensor.compiled and placement.canonical(tensor.compiled)
      programs_by_layout.setdefault((sharding, tensor.priority),
                                    []).append(program)
    return tuple(
        Seen(
            sharding,
            priority,
            unknown='' if sharding else 'the backend does not tell',
            programs=_unique(programs))
        for (sharding, priority), programs in programs_by_layout.items())

  def _form(self, sharding: Optional[str]) -> tuple[str, str]:
    if self._mode is Mode.OFF:
      return 'V1', 'the mode is off'
    if sharding is None:
      return '', 'its sharding is not known'
    reason = parse_sharding(sharding).v1_reason
    return ('V1', reason) if reason else ('V2', '')

  def _unused(self, annotation: Optional[Annotation], stored: Seen,
              rank: int) -> tuple[str, ...]:
    """The axes that do not split a tensor, as it was marked or else lies."""
    spec: Optional[Iterable[tuple[int, ...]]] = ()
    if annotation is not None:
      spec = annotation.partition_spec
    elif stored.sharding:
      spec = next(
          captured.specs_of(
              parse_sharding(stored.sharding), rank, user_mesh(self._mesh)),
          None)
    if spec is None:
      return ()
    used = {axis for entry in spec for axis in entry}
    return tuple(name for i, (name, size) in enumerate(self._axes.items())
                 if size > 1 and i not in used)

  def _is_fallback(self, record: ProgramRecord) -> bool:
    """Whether Shardy should have partitioned this program and did not."""
    return (self._mode is Mode.SHARDY and
            record.partitioner is Partitioner.GSPMD and
            record.options.num_partitions > 1 and
            bool(record.tensors or record.format != 'hlo'))

  def _program(self, record: ProgramRecord) -> ProgramRow:
    collectives = record.collectives
    words = causes(record)
    return ProgramRow(
        name=record.name or '(StableHLO)',
        partitioner=record.partitioner.value,
        partitions=record.options.num_partitions,
        v2=record.shardings.v2,
        v1=record.shardings.v1,
        why_not_v2=record.shardings.unconverted,
        note=record.note,
        fallback=self._is_fallback(record),
        lost=record.lost,
        collectives=None if collectives is None else tuple(
            CollectiveRow(c.kind, c.count, c.nbytes, c.smallest,
                          _caused(c, words)) for c in collectives),
        memory=record.memory)

  def _boundary(self, name: str, boundary: rules.Boundary,
                hook: Optional[policy_applied.BoundaryHook]) -> BoundaryRow:
    annotation = policy_applied.annotation_for(self._mesh, boundary)
    activations = []
    if hook is not None:
      sharding = str(annotation.sharding)
      for shape, size in hook.shapes.items():
        local = placement.local_shape(sharding, shape)
        activations.append(
            Activation(shape, local,
                       math.prod(local) * size,
                       tuple(rules.uneven(shape, boundary.spec, self._axes)),
                       self._constrained(annotation, shape)))
      if hook.compiled:
        activations.append(
            Activation(None, None, None, (),
                       self._constrained(annotation, None)))
    return BoundaryRow(name, boundary.output, annotation.spec_text,
                       boundary.priority, hook is not None, tuple(activations))

  def _constrained(self, annotation: Annotation,
                   shape: Optional[tuple[int, ...]]) -> Optional[int]:
    if self._mode is not Mode.SHARDY:
      return None
    return sum(
        t.parameter is None and t.spec == annotation.spec_text and
        t.priority == annotation.priority and shape in (None, t.shape.dims)
        for r in self._records
        for t in r.tensors)


@functools.lru_cache(maxsize=4096)
def _seen(said: Annotation) -> Seen:
  return Seen(str(said.sharding.canonical()), said.priority)


def _caused(made: Collective,
            words: Mapping[str, str]) -> tuple[tuple[str, int, int], ...]:
  """Merges sources that read the same into one."""
  sums_by_cause: dict[str, tuple[int, int]] = {}
  for source, count, nbytes in made.sources:
    cause = group_of(words[source])
    so_far = sums_by_cause.get(cause, (0, 0))
    sums_by_cause[cause] = so_far[0] + count, so_far[1] + nbytes
  return tuple(
      sorted(((text, *sums) for text, sums in sums_by_cause.items()),
             key=lambda c: (c[2], c[0])))


def _unique(values: Iterable[str]) -> tuple[str, ...]:
  return tuple(dict.fromkeys(values))
