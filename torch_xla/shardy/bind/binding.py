"""Ties annotations to tensors, and to the programs that use them.

`xs.mark_sharding` comes through `annotate`. An intermediate tensor gets a tag
into its graph, right away and for good. For a tensor with data the annotation
is kept here, as long as the tensor lives; each `torch_xla.sync()` and each
graph that `torch.compile` extracts gets a binding that names as its operands
those that it starts from, and so does what a read computes (`reads`).
`annotate.call_target` says what bindings and tags are, `usage` how it is known
what a graph starts from.

Operands that a graph does not start from are parameters of its program, no
more. A sync has some: what was used by results that died before it, or by
graphs that reads executed since the last sync; and what a compiled graph has
updated since. A read has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
import contextlib
import logging
import threading
from typing import Any, Optional

import torch
import torch_xla

from ..annotate import call_target
from ..annotate.annotation import Annotation, user_mesh
from ..annotate.constraint_words import (check_propagate, check_unreduced,
                                         UnreducedError)
from ..annotate.priority import Priority
from ..mode import current_mode, Mode
from ..tensor_refs import TensorRef
from ..warn_once import WarnOnce
from . import names, placing, printed, reads, registry, updates, usage
from .copies import Copies
from .graph_data import graph_data, GraphDataError
from .graph_inputs import (anything_pending, are_pending, collect_operands,
                           GraphInputs, Operand, operands_below,
                           ActivitySinceSync, with_distinct_nodes)
from .meshes import Meshes
from .pending_marks import PendingMarks
from .registry import Annotated, AnnotatedTensors
from .updates import Updates

logger = logging.getLogger(__name__)

_KEPT_TARGETS = 4
# By which the runtime moves data.
_OWN_PROGRAMS = ('ReplicateShardedData', 'ReshardData')
# Tensors with data that are annotated without a sync, until it is worth while
# to ask whether any graph can need them: the question walks all that live, and
# where nothing ran since, each waits for twice as many, up to so many times.
_ANNOTATED_TO_ASK, _BYTES_TO_ASK, _LONGEST_WAIT = 8, 2**20, 64


class Binder:
  """The annotated tensors of a process and the bindings of its programs.

  Attributes:
    meshes: those that the process has made.
    names: what records call the operands of the latest bindings.
  """

  def __init__(self) -> None:
    self.meshes = Meshes()
    self.names = names.BoundNames()
    self._tensors = AnnotatedTensors()
    self._pending_marks = PendingMarks()
    # Held by whoever syncs while tensors are annotated, or annotates a tensor: a
    # sync looks at all that live, without Python's lock, and fails where it
    # finds one on its way from a node to data (`usage`).
    self._turn = threading.RLock()
    self._copies = Copies(self._tensors, self._pending_marks, self._note_lost)
    self._updates = Updates(self._tensors, self._pending_marks, self._turn)
    # Held, from before the turn, by whoever has a binding computed: no other is
    # to compute it. A read waits for devices, and only that holds up.
    self._execution = threading.RLock()
    self._is_in_sync = self._is_in_known_read = False
    self._is_hooked = False
    self._warnings = WarnOnce(logger)
    self._syncing = GraphInputs()  # What a sync began with, while it runs.
    # Not a local variable of the sync, which the exception of a failed one
    # keeps.
    self._binding_of_sync: Optional[torch.Tensor] = None
    # Texts of the last bindings: one takes longer to make than to compare.
    self._lost: list[str] = []  # What the latest binding goes without.
    self._targets: tuple[tuple[tuple[str, list[Annotation]], str], ...] = ()
    self._since = ActivitySinceSync()
    # Since the last sync.
    self._annotated_since, self._bytes_since, self._wait = 0, 0, 1
    self._door_checked = False

  def annotate(self,
               annotate_func: Callable[..., None],
               t: torch.Tensor,
               op_sharding: Any,
               mesh: Any,
               partition_spec: Sequence[Any],
               priority: Optional[Priority],
               propagate: Any = None,
               unreduced: Any = None) -> None:
    """Gives `t` its placement, by `annotate_func`, and remembers the rest.

    Args:
      annotate_func: `_xla_mark_sharding`, or `_xla_annotate_custom_sharding`,
        which only constrains, also a tensor with data.
      t: the global tensor.
      mesh: an `xs.Mesh`.
      partition_spec: mesh axes by index.
      priority: as `check_priority` gives it.
      propagate: as the user gave it, as `mark_sharding` takes it.
      unreduced: likewise.

    Raises:
      PropagateError, UnreducedError: `propagate` or `unreduced` does not fit,
        or `t` has data, which is no part of a sum.
      DoorError: a mode is on, and the runtime came up without the door.
    """
    propagate = check_propagate(propagate, partition_spec, priority)
    unreduced = check_unreduced(unreduced, mesh.axis_names,
                                len(mesh.mesh_shape), partition_spec)
    given = {
        'priority': priority is not None,
        'propagate': propagate is not None,
        'unreduced': bool(unreduced)
    }
    if not self._is_enabled([word for word, is_set in given.items() if is_set]):
      annotate_func(t, op_sharding)
      return
    if not self._is_hooked:
      reads.hook_executions(self)
      self._is_hooked = True
    annotation = Annotation.from_spec(
        user_mesh(mesh), partition_spec, priority, propagate, unreduced)
    only_constrains = annotate_func is (
        torch_xla._XLAC._xla_annotate_custom_sharding)
    is_pending = are_pending([t])[0]
    if unreduced and not is_pending:
      raise UnreducedError(
          'unreduced= on a tensor that has data, which is no part of a sum: '
          'mark a product or a sum before torch_xla.sync() computes it')
    if only_constrains or is_pending:
      _tag(t, annotation)
      annotate_func(t, op_sharding)
      self._pending_marks.add(t, annotation.without_unreduced)
      return
    spec_of = torch_xla._XLAC._get_xla_sharding_spec
    spec = spec_of(t) if usage.is_used(t) else None
    annotate_func(t, op_sharding)
    # If not, it was placed so before, and used or cloned before.
    is_unused = spec is None or spec != spec_of(t)
    with self._turn:
      if not is_unused and usage.probe_shared(registry.inner_of(t)):
        self._warnings.warning(
            'a clone was marked, and laid out so before: until a sync gives it '
            'data of its own, what was said of the tensor that it was cloned '
            'from counts')
      self._pending_marks.forget(t)
      if self._tensors.find_or_orphan(t) is None:
        self._drop_dead_if_nothing_pending(t)
      self._tensors.annotate(t, annotation, is_unused)

  def forget(self, t: torch.Tensor) -> None:
    """Drops the annotation of `t`; graphs traced with it keep it."""
    self._tensors.forget(t)
    self._pending_marks.forget(t)

  def annotation_of(self, t: torch.Tensor) -> Optional[Annotation]:
    """The annotation of a tensor with data; None without one."""
    if self._pending_marks.get(t):
      self._promote()
    annotated = self._tensors.find_or_orphan(t)
    return None if annotated is None else annotated.annotation

  def follow_copies(self) -> None:
    """Makes annotations follow where torch takes a tensor's placement."""
    printed.replace_printer()
    self._copies.patch_torch()
    self._updates.register_kernels()

  def warn_placed_only(self) -> None:
    """Says that a loader takes no priority.

    What it loads ahead would be part of programs that it is not for: as many
    tensors as there happen to be.
    """
    self._warnings.warning(
        'input_sharding of a loader places what it loads, and its priority '
        'has no effect: call mark_sharding(priority=...) on the batch where '
        'it is used')

  def pending_bindings(self) -> list[torch.Tensor]:
    """The binding for what is pending now, if any: of the next sync."""
    self._promote()
    inputs = self._collect_operands(self._tensors.all())
    return [self._bind(inputs.operands)] if self._is_bound(inputs) else []

  @contextlib.contextmanager
  def sync(self) -> Iterator[None]:
    """Makes the sync in the block compute a binding of pending graphs."""
    is_needed = self._tensors or self._pending_marks
    with contextlib.ExitStack() as locks:
      if is_needed:
        locks.enter_context(self._execution)
        locks.enter_context(self._turn)
      if self._is_in_sync:
        yield
        return
      self._is_in_sync = bool(is_needed)
      locks.callback(setattr, self, '_is_in_sync', False)
      self._before_sync()
      try:
        yield
      except KeyboardInterrupt:  # Mostly as the runtime is back.
        if not self._syncing.is_pending():
          self._after_sync()
        raise
      self._after_sync()

  @contextlib.contextmanager
  def read(self,
           tensors: Sequence[torch.Tensor],
           may_take_data: bool = False) -> Iterator[list[torch.Tensor]]:
    """Gives the block, which computes `tensors` alone, a binding as well.

    It gives none where nothing is pending or nothing annotated is used.

    Args:
      may_take_data: whether the block may donate what was updated in place.
    """
    if not (self._tensors or self._pending_marks
           ) or not _pending(tensors) or torch_xla._XLAC._get_use_eager_mode():
      yield []
      return
    with self._execution:
      with self._turn:
        # Another thread may have computed some, for which this one waited.
        pending = _pending(tensors)
        bindings = self._binding_of_read(pending) if pending else []
        ids = set(map(torch_xla._XLAC._xla_get_tensor_id, pending))
        updated = self._tensors.current_among(ids)
        self._since.called = True
        self._since.updated |= may_take_data
      try:
        yield bindings
      finally:
        self._is_in_known_read = False
      with self._turn:
        self._after_read(updated)

  def _binding_of_read(self,
                       pending: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    self._promote()
    try:
      data = graph_data()
    except GraphDataError as e:
      self._warnings.warning(
          f'what a read computes has no priority here ({e}): call '
          'torch_xla.sync() before it')
      return []
    # All that the block starts from is looked through.
    self._is_in_known_read = True
    operands, label = operands_below(self._tensors.all(), pending, data,
                                     self._note_shadowed)
    return [self._bind(operands, label)] if operands else []

  def _after_read(self, updated: Sequence[Operand]) -> None:
    for annotated, now in updated:
      if not are_pending([now])[0]:
        annotated.read(now)
    if updated and not anything_pending():
      self._tensors.forget_earlier()

  def _before_sync(self) -> None:
    # Of a sync that failed: no other would get past them.
    self._binding_of_sync = None
    failed, self._syncing = self._syncing, GraphInputs()
    for annotated in failed.overwritten:
      if (t := annotated.ref()) is None:
        self._tensors.drop(annotated)
      else:
        annotated.hold(annotated.current_of(t), is_own=False)
    self._promote()
    if not self._tensors:
      return
    for entry in self._tensors.all():  # Updates through views.
      if (t := entry.ref()) is not None and torch._is_functional_tensor(t):
        torch._sync(t)
    self._syncing = inputs = self._collect_operands(self._tensors.all())
    placing.reconstrain_updated_views(inputs)
    if self._is_bound(inputs):
      self._binding_of_sync = self._bind(
          with_distinct_nodes(inputs.operands, self._note_shadowed))
    usage.forget_use(annotated.inner
                     for annotated in inputs.used_tensors
                     if annotated.is_own)
    self._tensors.drop_dead()

  def _after_sync(self) -> None:
    """Takes the data that graphs will start from until the next sync."""
    self._binding_of_sync = None
    synced, self._syncing = self._syncing, GraphInputs()
    self._updates.forget_ids()
    self._since = ActivitySinceSync()
    self._tensors.forget_earlier()
    self._annotated_since, self._bytes_since, self._wait = 0, 0, 1
    self._promote(is_unused=True)
    for annotated in synced.used_tensors:
      annotated.is_own = True
    for annotated, inner in synced.updated:
      annotated.hold(inner, is_own=True)
      annotated.rank = self._tensors.next_rank()
    for annotated in synced.overwritten:
      annotated.is_own = True
    registry.hold_aliases(synced.overwritten)

  def before_trace(self, arguments: Iterable[torch.Tensor]) -> None:
    """Takes the data that a graph will start from that is to be traced.

    A compiled one that updated an argument gave other data to `inner` itself.

    Args:
      arguments: just synced.
    """
    registry.hold_aliases([
        annotated for annotated in self._annotated(arguments)
        if annotated.alias is not None and annotated.probe_owns_data()
    ])

  def of_graph(self, arguments: Iterable[torch.Tensor],
               outputs: Sequence[torch.Tensor],
               ids: Iterable[int]) -> Optional[torch.Tensor]:
    """A binding for a graph that was just traced from `arguments`.

    None if it starts from no annotated argument, or if there is nothing to
    compute.

    Args:
      ids: of the data that the graph starts from.
    """
    annotated = self._annotated(arguments)
    if not annotated or not any(are_pending(outputs)):
      return None
    ids, get_id = set(ids), torch_xla._XLAC._xla_get_tensor_id
    operands = [(entry, t)
                for entry, t in self._collect_operands(annotated).operands
                if get_id(entry.inner if t is entry.alias else t) in ids]
    return self._bind(with_distinct_nodes(
        operands, self._note_shadowed)) if operands else None

  def traced(self, arguments: Sequence[torch.Tensor]) -> TracedAnnotations:
    """The annotations of a compiled graph's arguments as it is traced."""
    annotated = self._annotated(arguments)
    # The bridge used all of them, and no pending graph will.
    usage.forget_use_now([entry.inner for entry in annotated if entry.is_own])
    living = [t for entry in annotated if (t := entry.ref()) is not None]
    return TracedAnnotations(self, self._tensors.annotations(arguments),
                             any(are_pending(living)))

  def note_call(self, arguments: Sequence[torch.Tensor],
                updates: bool) -> list[Optional[Annotation]]:
    """Notes a compiled graph's call; the annotations of its arguments."""
    annotations = self._tensors.annotations(arguments)
    if any(annotations):
      self._since.called = True
      self._since.updated |= updates
    return annotations

  def _is_enabled(self, options: Sequence[str]) -> bool:
    """Tests whether programs carry annotations; warns once if they do not.

    Args:
      options: those given besides the placement.
    """
    listed = ', '.join(f'{word}=...' for word in options)
    if current_mode() is not Mode.OFF and not self._door_checked:
      from .. import door
      door.check_runtime()
      self._door_checked = torch_xla._XLAC._xla_runtime_is_initialized()
    if current_mode() is not Mode.SHARDY:
      if options:
        self._warnings.warning(
            f'mark_sharding({listed}) has no effect: Shardy is off. Set '
            'XLA_USE_SHARDY=1 before torch_xla is imported, or call '
            'torch_xla.runtime.use_shardy() before the first XLA tensor')
      return False
    if options and torch_xla._XLAC._get_use_eager_mode():
      self._warnings.warning(
          'in eager mode each operation is a program of its own, in which '
          f'{listed} has no effect: it counts in functions that '
          'torch_xla.compile compiles, and with eager mode off')
    return True

  def _promote(self, is_unused: bool = False) -> None:
    """Promotes marks of what is no longer pending; begins a binding."""
    self._lost = []
    lost = self._pending_marks.promote(self._tensors, is_unused)
    if lost:
      self._note_lost(
          names.names_of(lost), 'in the place of an annotated tensor',
          *names.MOVED)

  def _annotated(self, tensors: Iterable[torch.Tensor]) -> list[Annotated]:
    """The entries of tensors, or of those whose data they have."""
    self._promote()
    distinct = {id(t): t for t in tensors if t.is_xla}.values()
    entries = {t: self._tensors.find_or_orphan(t) for t in distinct}
    get_id = torch_xla._XLAC._xla_get_tensor_id
    others = {get_id(t) for t, entry in entries.items() if entry is None}
    return [
        *filter(None, entries.values()),
        *(entry for entry, _ in self._tensors.current_among(others))
    ]

  def _drop_dead_if_nothing_pending(self, t: torch.Tensor) -> None:
    """Drops dead inputs in a loop that never syncs, if nothing is pending.

    Must be deterministic across hosts: neither the time of the check nor its
    effect may depend on garbage collection.
    """
    self._annotated_since += 1
    self._bytes_since += t.nbytes
    if self._since.called:
      self._wait = 1
    if (self._annotated_since < self._wait * _ANNOTATED_TO_ASK and
        self._bytes_since < self._wait * _BYTES_TO_ASK) or anything_pending():
      return
    self._annotated_since = self._bytes_since = 0
    self._wait = min(2 * self._wait, _LONGEST_WAIT)
    self._tensors.drop_dead()
    inputs = self._collect_operands(self._tensors.all())
    usage.forget_use_now(
        [entry.inner for entry in inputs.used_tensors if entry.is_own])

  def _is_bound(self, inputs: GraphInputs) -> bool:
    """Tests whether to bind; an idle sync, with nothing pending, does not."""
    return bool(
        inputs.operands) and not (torch_xla._XLAC._get_use_eager_mode()) and (
            inputs.any_pending or anything_pending())

  def _bind(self, operands: Sequence[Operand], label: str = '') -> torch.Tensor:
    key = label, [entry.annotation for entry, _ in operands]
    target = next((text for known, text in self._targets if known == key), None)
    if target is None:
      target = call_target.binding_target(key[1], label)
      self._targets = ((key, target), *self._targets[:_KEPT_TARGETS - 1])
    bound = [(entry.ref, entry.annotation, TensorRef(data))
             for entry, data in operands]  # It keeps none of them alive.
    self.names.remember(target,
                        lambda: names.names_of_bound(bound, self._note_lost))
    binding, = torch_xla._XLAC._xla_custom_call([t for _, t in operands],
                                                target, [[]], [torch.float32],
                                                False, '', 1, {})
    return binding

  def _collect_operands(self, entries: Iterable[Annotated]) -> GraphInputs:
    inputs = collect_operands(entries, self._since)
    self._note_lost(
        names.names_of_living(inputs.unknown), 'updated in place',
        'and the data before is not known', 'call torch_xla.sync() before')
    return inputs

  def _note_shadowed(self, entry: Annotated) -> None:
    self._note_lost(
        names.names_of_living([entry]), 'shares its data',
        'with another marked tensor, which counts', 'mark both alike')

  def _note_lost(self, lost: Sequence[str], *why: str) -> None:
    if not lost:
      return
    self._lost += lost
    self._warnings.warning(names.lost_text(lost, *why))

  def lost(self, name: str, tensors: Sequence[Any]) -> list[str]:
    """The names of tensors whose annotations a program goes without.

    Where its parameters have none at all, those that may be meant: annotated
    with priorities or open dimensions, asked for since the last sync, and laid
    out as one of its parameters.

    Args:
      name: the program's.
      tensors: what Shardy is told of its tensors, a `TensorRecord` each.
    """
    parameters = [t for t in tensors if t.parameter is not None]
    if any(t.spec for t in parameters):
      return self._lost
    if self._is_in_sync:
      return self._lost
    if name.startswith(_OWN_PROGRAMS):
      return []
    if self._is_in_known_read:
      return self._lost
    placed = {(str(t.shape.dims), t.placement) for t in parameters}
    meant = [
        a for a in self._tensors.all() if a.annotation.is_decisive and
        (a.shape_text,
         str(a.annotation.sharding)) in placed and usage.is_used(a.inner)
    ]
    lost = names.names_of_living(meant)
    if lost:
      self._warnings.warning(
          names.lost_text(
              lost, f'program {name}', 'compiled outside of a '
              'sync, goes without what was said of them',
              'call torch_xla.sync() before'))
    return lost


class TracedAnnotations:
  """The annotations of a compiled graph's arguments when it was traced."""

  def __init__(self, binder: Binder, annotations: list[Optional[Annotation]],
               updates: bool):
    self._binder = binder
    self._annotations = annotations
    self._updates = updates

  def changed(self, arguments: Sequence[torch.Tensor]) -> bool:
    """Tests whether to trace again for these arguments; notes the call."""
    return self._annotations != self._binder.note_call(arguments, self._updates)


def _pending(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
  return [
      t for t, is_pending in zip(tensors, are_pending(tensors), strict=True)
      if is_pending
  ]


def _tag(t: torch.Tensor, annotation: Annotation) -> None:
  """Puts a tag between the value of `t` and all that share it.

  A reference to the untagged value would be computed whole, and twice.
  """
  tagged = updates.tagged(t, call_target.tag_target(annotation))
  if torch._is_functional_tensor(t) and not are_pending([t])[0]:
    # What is said of its data stays: it is a parameter, and no result.
    torch._functionalize_replace(t, tagged)
  else:
    usage.twin_of(registry.inner_of(t)).copy_(tagged)
