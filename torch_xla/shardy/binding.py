"""Ties annotations to tensors, and to the programs that use them.

`xs.mark_sharding` comes through `annotate`. An intermediate tensor gets a mark
into its graph, right away and for good. For a tensor with data the annotation
is kept here, as long as the tensor lives; each `torch_xla.sync()` and each
graph that `torch.compile` extracts gets one binding that names these tensors
as its operands. `annotation` says what bindings and marks are.

An operand is the data that the pending graph starts from, as `annotated` holds
it. Where a read has executed part of the graph since, it counts only if the
tensor's alias id names it, by which the runtime, too, knows what an update
started from.

All annotated tensors that live are operands, whether a graph uses them or not:
nothing tells which it uses. They are parameters of the program, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import logging
import re
from typing import Any, Optional
import weakref

import torch
import torch_xla

from . import annotation, names, switch
from .annotated import Annotated, AnnotatedTensors, inner_of, tensor_of
from .annotation import Annotation, Priority, UserMesh
from .mode import Mode

logger = logging.getLogger(__name__)

_tensors = AnnotatedTensors()
_syncing: list[Annotated] = []  # All as a sync began, while it runs.
# Not a local variable of the sync, which the exception of a failed one keeps.
_binding_of_sync: Optional[torch.Tensor] = None
_bound_last: list[weakref.ref[torch.Tensor]] = []
_target: tuple[list[Annotation], str] = ([], '')
_partial_syncs_before: tuple[Optional[int], Optional[int]] = (None, None)
_living = 0  # Of `_tensors`, after the last sync.
_growth = 0  # Syncs in a row that found more annotated tensors.
_GROWTH_TO_WARN = 8
_said: set[str] = set()


def annotate(annotate_func: Callable, t: torch.Tensor, op_sharding: Any,
             mesh: Any, partition_spec: Sequence[Any],
             priority: Optional[Priority]) -> None:
  """Gives `t` its placement, by `annotate_func`, and remembers the rest.

  Args:
    annotate_func: `_xla_mark_sharding`, or `_xla_annotate_custom_sharding`,
      which only constrains, also a tensor with data.
    t: the global tensor.
    mesh: an `xs.Mesh`.
    partition_spec: mesh axes by index.
    priority: as `annotation.check_priority` gives it.
  """
  if switch.current_mode() is not Mode.SHARDY:
    if priority is not None:
      _say_once('mark_sharding(priority=...) has no effect: Shardy is off. Set '
                'XLA_USE_SHARDY=1 before torch_xla is imported, or call '
                'torch_xla.runtime.use_shardy() before the first XLA tensor')
    annotate_func(t, op_sharding)
    return
  said = Annotation.of(
      UserMesh.of(mesh.mesh_shape, mesh.axis_names, mesh.device_ids),
      partition_spec, priority)
  only_constrains = annotate_func is (
      torch_xla._XLAC._xla_annotate_custom_sharding)
  if only_constrains or _is_pending(t):
    _mark(t, said)
    annotate_func(t, op_sharding)
    return
  annotate_func(t, op_sharding)
  is_new = annotation_of(t) is None
  if is_new and _tensors.is_drop_worthwhile() and not _anything_pending():
    _tensors.drop_dead()
  _tensors.annotate(t, said)


def forget(t: torch.Tensor) -> None:
  """Drops the annotation of `t`; graphs traced with it keep it."""
  _tensors.forget(t)


def annotation_of(t: torch.Tensor) -> Optional[Annotation]:
  """What was said of a tensor with data; None if nothing was."""
  one = _tensors.find(t)
  return None if one is None else one.annotation


def warn_placed_only() -> None:
  """Says that a loader takes no priority.

  What it loads ahead would be part of programs that it is not for: as many
  tensors as there happen to be.
  """
  _say_once(
      'input_sharding of a loader places what it loads, and its priority '
      'has no effect: call mark_sharding(priority=...) on the batch where '
      'it is used')


def pending_binding() -> Optional[torch.Tensor]:
  """A binding for what is pending now; None if it needs none.

  It needs none when nothing is pending: an idle sync executes nothing.
  """
  if not _tensors or torch_xla._XLAC._get_use_eager_mode():
    return None
  return _binding(_tensors.all(), _anything_pending)


def before_sync() -> None:
  """Binds what is pending: while the binding lives, the sync computes it too."""
  global _binding_of_sync, _syncing
  # Of a sync that failed: no other would get past it.
  _binding_of_sync = None
  # Made now: malloc consolidates its heap at the first large block after a graph
  # is gone, which took 2 ms of each step when after_sync made this.
  _syncing = _tensors.all()
  _binding_of_sync = pending_binding()


def after_sync() -> None:
  """Takes the data that graphs will start from until the next sync."""
  global _binding_of_sync, _growth, _living, _partial_syncs_before, _syncing
  _binding_of_sync = None
  synced, _syncing = _syncing, []
  if not _tensors:
    return
  _partial_syncs_before = _partial_syncs()
  for one in synced:
    one.fresh = False
    if (t := tensor_of(one.ref)) is not None:
      one.hold(t)
  _tensors.drop_dead()
  living = len(_tensors)
  _growth = _growth + 1 if living > _living > 0 else 0
  _living = living
  if _growth == _GROWTH_TO_WARN:
    _say_once(
        f'{living} annotated tensors are alive, more at each of '
        f'{_GROWTH_TO_WARN} syncs. Each is a parameter of every program, so '
        'each sync compiles anew: let go of tensors that you no longer need, '
        'or clear_sharding() them')


def of_graph(arguments: Iterable[torch.Tensor],
             outputs: Sequence[torch.Tensor]) -> Optional[torch.Tensor]:
  """A binding for a graph that was just traced from `arguments`.

  None if no argument is annotated, or if there is nothing to compute.
  """
  unique = {id(t): t for t in arguments}.values()
  annotated = [one for t in unique if (one := _tensors.find(t)) is not None]
  if not annotated or not any(
      torch_xla._XLAC._check_tensor_need_materialization(list(outputs))):
    return None
  return _binding(annotated)


class TracedAnnotations:
  """What was said of a compiled graph's arguments when it was traced."""

  def __init__(self, arguments: Sequence[torch.Tensor]):
    self._annotations = _tensors.annotations(arguments)

  def changed(self, arguments: Sequence[torch.Tensor]) -> bool:
    """Whether the graph has to be traced again for these arguments."""
    return self._annotations != _tensors.annotations(arguments)


def binding_names() -> tuple[str, ...]:
  """Names of the operands of the binding made last, empty where unknown."""
  tensors = map(tensor_of, _bound_last)
  return tuple('' if t is None else names.name_of(t) for t in tensors)


def _binding(
    candidates: Iterable[Annotated],
    is_needed: Callable[[], bool] = lambda: True) -> Optional[torch.Tensor]:
  global _bound_last, _target
  xlac = torch_xla._XLAC
  found = _operands([(one, t)
                     for one in candidates
                     if (t := tensor_of(one.ref)) is not None or
                     one.fresh and one.inner is not None], is_needed)
  # Shardy refuses programs that have an uneven parameter, even an unused one;
  # those that use it are found by their placements.
  found = [pair for pair in found if pair[0].even] or found
  if not found:
    return None
  annotations = [one.annotation for one, _ in found]
  if _target[0] != annotations:
    _target = annotations, annotation.binding_target(annotations)
  _bound_last = [one.ref for one, _ in found]
  binding, = xlac._xla_custom_call([t for _, t in found], _target[1], [[]],
                                   [torch.float32], False, '', 1, {})
  return binding


def _operands(
    candidates: Sequence[tuple[Annotated, Optional[torch.Tensor]]],
    is_needed: Callable[[], bool]) -> list[tuple[Annotated, torch.Tensor]]:
  """The data that a pending graph would start from, where it is known.

  Empty if nothing is pending; `is_needed` is asked only if no candidate is.
  """
  xlac = torch_xla._XLAC
  current = [one.inner if t is None else inner_of(t) for one, t in candidates]
  pending = xlac._check_tensor_need_materialization(current)
  if not any(pending) and not is_needed():
    return []
  read = _partial_syncs() != _partial_syncs_before
  found = []
  for (one, _), operand, is_pending in zip(candidates, current, pending):
    if is_pending:
      # Updated in place, so it started from what is held, unless what it
      # started from was itself computed since, by a read, or is the very tensor
      # that was updated.
      unknown = one.inner is None or operand is one.inner or (
          read and _alias_id(operand) != xlac._xla_get_tensor_id(one.inner))
      if unknown:
        _say_once('an annotated tensor was updated in place so that the data '
                  'it had before is not known: its priority does not count in '
                  'this program')
        continue
      operand = one.inner
    elif xlac._get_buffer_donation(operand):
      continue  # A compiled graph may have taken its data.
    found.append((one, operand))
  return found


def _partial_syncs() -> tuple[Optional[int], Optional[int]]:
  """Grows with each graph that is executed outside of `torch_xla.sync()`."""
  value = torch_xla._XLAC._xla_counter_value
  return value('CachedCompile'), value('UncachedCompile')


def _alias_id(t: torch.Tensor) -> int:
  """The id of the data that an updated tensor started from. Slow."""
  text = torch_xla._XLAC._get_xla_tensor_debug_info(t)
  found = re.search(r'^AliasID: (\d+)$', text, re.MULTILINE)
  return int(found[1]) if found else -1


def _mark(t: torch.Tensor, said: Annotation) -> None:
  marked, = torch_xla._XLAC._xla_custom_call([t], annotation.mark_target(said),
                                             [list(t.shape)], [t.dtype], False,
                                             '', 1, {})
  if torch._is_functional_tensor(t):
    torch._functionalize_replace(t, inner_of(marked))
  else:
    torch_xla._XLAC._replace_xla_tensor(t, marked)


def _anything_pending() -> bool:
  try:
    return any(torch_xla._XLAC._check_device_tensor_need_materialization(''))
  except RuntimeError:
    # It refuses tensors in states that a sync takes.
    return True


def _is_pending(t: torch.Tensor) -> bool:
  return torch_xla._XLAC._check_tensor_need_materialization([t])[0]


def _say_once(message: str) -> None:
  kind = message[:20].lstrip('0123456789')
  if kind not in _said:
    _said.add(kind)
    logger.warning('%s', message)
