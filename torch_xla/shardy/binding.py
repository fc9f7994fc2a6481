"""Ties annotations to tensors, and to the programs that use them.

`xs.mark_sharding` comes through `annotate`. An intermediate tensor gets a mark
into its graph, right away and for good. For a tensor with data the annotation
is kept here, as long as the tensor lives; each `torch_xla.sync()` and each
graph that `torch.compile` extracts gets bindings that name these tensors as
their operands: a sync one for weights, which `armed` makes ahead, and one for
all others. `annotation` says what bindings and marks are.

All annotated tensors that live are operands, whether a graph uses them or not:
nothing tells which it uses. They are parameters of the program, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import logging
from typing import Any, Optional
import weakref

import torch
import torch_xla

from . import annotation, names, switch
from .annotated import Annotated, AnnotatedTensors, inner_of, tensor_of
from .annotation import Annotation, Priority, user_mesh
from .armed import Armed
from .mode import Mode
from .operands import anything_pending, are_pending, even_first
from .operands import find_operands, Operand, partial_syncs

logger = logging.getLogger(__name__)

_armed = Armed()
_tensors = AnnotatedTensors(_armed.let_go)
_syncing: list[Annotated] = []  # All as a sync began, while it runs.
# Not a local variable of the sync, which the exception of a failed one keeps.
_bindings_of_sync: list[torch.Tensor] = []
_bound_last: list[weakref.ref[torch.Tensor]] = []
# Of the last bindings, as a text takes longer to make than to compare.
_targets: tuple[tuple[list[Annotation], str], ...] = ()
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
  said = Annotation.of(user_mesh(mesh), partition_spec, priority)
  only_constrains = annotate_func is (
      torch_xla._XLAC._xla_annotate_custom_sharding)
  if only_constrains or are_pending([t])[0]:
    _mark(t, said)
    annotate_func(t, op_sharding)
    return
  annotate_func(t, op_sharding)
  one = _tensors.find(t)
  if one is None and _tensors.is_drop_worthwhile() and not anything_pending(
      but=_armed.scalars()):
    _tensors.drop_dead()
  if _armed.names(one, t) and one.annotation == said:
    return
  if isinstance(t, torch.nn.Parameter):
    _armed.drop_unless_pending()  # It is to name this weight as well.
  _tensors.annotate(t, said)


def forget(t: torch.Tensor) -> None:
  """Drops the annotation of `t`; graphs traced with it keep it."""
  one = _tensors.find(t)
  if one is not None:
    _tensors.forget(t)
    _armed.let_go(one)


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


def pending_bindings() -> list[torch.Tensor]:
  """Bindings for what is pending now: of weights, and of other tensors.

  None when nothing is pending: an idle sync executes nothing.
  """
  global _bound_last
  if not _tensors or torch_xla._XLAC._get_use_eager_mode():
    return []
  ahead, is_weight_pending = _armed.current(_was_read())
  scalars, named = ([], {}) if ahead is None else ([ahead.scalar], ahead.ids)
  found, is_pending = _operands(
      one for one in _tensors.all() if one.fresh or one not in named)
  if not (is_weight_pending or is_pending or anything_pending(but=scalars)):
    return []
  found = even_first(found, ahead is None)
  # A program gives its results by age. To be the same program whether armed or
  # not, the first must be no older than the graph, and older than the second.
  bindings, bound = [scalar.clone() for scalar in scalars], list(named)
  for is_weight in (True, False):
    group = [operand for operand in found if operand[0].is_weight == is_weight]
    if group:
      bindings.append(_bind(group))
      bound.extend(one for one, _ in group)
  _bound_last = [one.ref for one in bound]
  return bindings


def before_sync() -> None:
  """Binds what is pending: while a binding lives, the sync computes it too."""
  global _bindings_of_sync, _syncing
  # Of a sync that failed: no other would get past them.
  _bindings_of_sync = []
  # Made now: malloc consolidates its heap at the first large block after a graph
  # is gone, which took 2 ms of each step when after_sync made this.
  _syncing = _tensors.all()
  _bindings_of_sync = pending_bindings()
  _armed.release()


def after_sync() -> None:
  """Takes the data that graphs will start from until the next sync."""
  global _bindings_of_sync, _growth, _living, _partial_syncs_before, _syncing
  _bindings_of_sync = []
  synced, _syncing = _syncing, []
  if not _tensors:
    return
  _partial_syncs_before = partial_syncs()
  takes_weights = not torch_xla._XLAC._get_use_eager_mode()
  weights = []
  for one in synced:
    one.fresh = False
    if (t := tensor_of(one.ref)) is None:
      continue
    if (takes_weights and one.is_weight and one.even and
        torch._is_functional_tensor(t)):
      weights.append((one, t))
    else:
      one.hold(t)
  _armed.arm(weights, _bind)
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
  global _bound_last
  _armed.drop_unless_pending()  # After this, all that is pending is cleared.
  unique = {id(t): t for t in arguments}.values()
  annotated = [one for t in unique if (one := _tensors.find(t)) is not None]
  if not annotated or not any(are_pending(outputs)):
    return None
  found = even_first(_operands(annotated)[0])
  _bound_last = [one.ref for one, _ in found]
  return _bind(found) if found else None


class TracedAnnotations:
  """What was said of a compiled graph's arguments when it was traced."""

  def __init__(self, arguments: Sequence[torch.Tensor]):
    self._annotations = _tensors.annotations(arguments)

  def changed(self, arguments: Sequence[torch.Tensor]) -> bool:
    """Whether the graph has to be traced again for these arguments."""
    annotations = _tensors.annotations(arguments)
    if any(annotations):
      _armed.compiled_graph_runs()
    return self._annotations != annotations


def binding_names() -> tuple[str, ...]:
  """Names of the operands of the last bindings, empty where unknown."""
  tensors = map(tensor_of, _bound_last)
  return tuple('' if t is None else names.name_of(t) for t in tensors)


def _bind(operands: Sequence[Operand]) -> torch.Tensor:
  global _targets
  annotations = [one.annotation for one, _ in operands]
  target = next((text for of, text in _targets if of == annotations), None)
  if target is None:
    target = annotation.binding_target(annotations)
    _targets = ((annotations, target), *_targets[:3])
  binding, = torch_xla._XLAC._xla_custom_call([t for _, t in operands], target,
                                              [[]], [torch.float32], False, '',
                                              1, {})
  return binding


def _operands(ones: Iterable[Annotated]) -> tuple[list[Operand], bool]:
  """Those that are known, and whether anything of them is pending."""
  found = find_operands(ones, _was_read())
  if found.any_unknown:
    _say_once(
        'an annotated tensor was updated in place so that the data it had '
        'before is not known: its priority does not count in this program')
  return found.operands, found.any_pending


def _was_read() -> bool:
  """Whether any graph was executed since the last sync."""
  return partial_syncs() != _partial_syncs_before


def _mark(t: torch.Tensor, said: Annotation) -> None:
  marked, = torch_xla._XLAC._xla_custom_call([t], annotation.mark_target(said),
                                             [list(t.shape)], [t.dtype], False,
                                             '', 1, {})
  if torch._is_functional_tensor(t):
    torch._functionalize_replace(t, inner_of(marked))
  else:
    torch_xla._XLAC._replace_xla_tensor(t, marked)


def _say_once(message: str) -> None:
  kind = message[:20].lstrip('0123456789')
  if kind not in _said:
    _said.add(kind)
    logger.warning('%s', message)
