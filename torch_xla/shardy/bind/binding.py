"""Ties annotations to tensors, and to the programs that use them.

`xs.mark_sharding` comes through `annotate`. An intermediate tensor gets a tag
into its graph, right away and for good. For a tensor with data the annotation
is kept here, as long as the tensor lives; each `torch_xla.sync()` and each
graph that `torch.compile` extracts gets bindings that name these tensors as
their operands: a sync one for weights, which `weights_ahead` makes, and one for
all others. `annotate.call_target` says what bindings and tags are.

All annotated tensors that live are operands, whether a graph uses them or not:
nothing tells which it uses. They are parameters of the program, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import logging
import os
from typing import Any, Optional

import torch
import torch_xla

from .. import switch, tensor_names
from ..annotate import call_target
from ..annotate.annotation import Annotation, user_mesh
from ..annotate.bound_names import BoundNames
from ..annotate.priority import Priority
from ..mode import current_mode, Mode
from ..said_once import SaidOnce
from .graph_inputs import (anything_pending, are_pending, even_first,
                           find_operands, Operand, partial_syncs)
from .printed import SavedGraphs
from .registry import Annotated, AnnotatedTensors, inner_of, tensor_of
from .weights_ahead import Drop, WeightsAhead

logger = logging.getLogger(__name__)

_GROWTH_TO_WARN = 8
# What a binding is of. No program has two of one kind: a sync may have one of
# each of the first three, a graph has one of the last.
_WEIGHTS, _WEIGHTS_SINCE = 'weights', 'weights since'
_OTHERS, _ARGUMENTS = 'others', 'arguments'
_KEPT_TARGETS = 4


class Binder:
  """The annotated tensors of a process and the bindings of its programs.

  Attributes:
    names: what records call the operands of the latest bindings.
    saved_graphs: what the runtime adds each graph to, if it is asked to.
  """

  def __init__(self):
    self.names = BoundNames()
    self._weights = WeightsAhead(lambda weights: self._bind(weights, _WEIGHTS))
    self._tensors = AnnotatedTensors(
        lambda one: self._weights.drop(Drop.GONE, one))
    self._said = SaidOnce(logger)
    self._syncing: list[Annotated] = []  # All as a sync began, while it runs.
    # Not a local variable of the sync, which the exception of a failed one
    # keeps.
    self._bindings_of_sync: list[torch.Tensor] = []
    # Of the last bindings, as a text takes longer to make than to compare.
    self._targets: tuple[tuple[tuple[str, list[Annotation]], str], ...] = ()
    self._partial_syncs_before: tuple[Optional[int],
                                      Optional[int]] = (None, None)
    self._living = 0  # Of `_tensors`, after the last sync.
    self._growth = 0  # Syncs in a row that found more annotated tensors.
    self._door_checked = False
    self.saved_graphs = SavedGraphs(os.environ)

  def annotate(self, annotate_func: Callable, t: torch.Tensor, op_sharding: Any,
               mesh: Any, partition_spec: Sequence[Any],
               priority: Optional[Priority]) -> None:
    """Gives `t` its placement, by `annotate_func`, and remembers the rest.

    Args:
      annotate_func: `_xla_mark_sharding`, or `_xla_annotate_custom_sharding`,
        which only constrains, also a tensor with data.
      t: the global tensor.
      mesh: an `xs.Mesh`.
      partition_spec: mesh axes by index.
      priority: as `check_priority` gives it.

    Raises:
      DoorError: a mode is on, and the runtime came up without the door.
    """
    if not self._is_told(priority):
      annotate_func(t, op_sharding)
      return
    said = Annotation.of(user_mesh(mesh), partition_spec, priority)
    only_constrains = annotate_func is (
        torch_xla._XLAC._xla_annotate_custom_sharding)
    if only_constrains or are_pending([t])[0]:
      _tag(t, said)
      annotate_func(t, op_sharding)
      return
    annotate_func(t, op_sharding)
    one, ahead = self._tensors.find(t), self._weights.ahead
    if one is None and self._tensors.is_drop_worthwhile(
    ) and not anything_pending(but=[] if ahead is None else [ahead.scalar]):
      self._tensors.drop_dead()
    if ahead is not None and ahead.names(one, t) and one.annotation == said:
      return
    if isinstance(t, torch.nn.Parameter):
      self._weights.drop(Drop.STALE)  # It is to name this weight as well.
    self._tensors.annotate(t, said)

  def forget(self, t: torch.Tensor) -> None:
    """Drops the annotation of `t`; graphs traced with it keep it."""
    one = self._tensors.find(t)
    if one is not None:
      self._tensors.forget(t)
      self._weights.drop(Drop.GONE, one)

  def annotation_of(self, t: torch.Tensor) -> Optional[Annotation]:
    """What was said of a tensor with data; None if nothing was."""
    one = self._tensors.find(t)
    return None if one is None else one.annotation

  def warn_placed_only(self) -> None:
    """Says that a loader takes no priority.

    What it loads ahead would be part of programs that it is not for: as many
    tensors as there happen to be.
    """
    self._said.warning(
        'input_sharding of a loader places what it loads, and its priority '
        'has no effect: call mark_sharding(priority=...) on the batch where '
        'it is used')

  def pending_bindings(self) -> list[torch.Tensor]:
    """Bindings for what is pending now: of weights, and of other tensors.

    None when nothing is pending: an idle sync executes nothing.
    """
    if not self._tensors or torch_xla._XLAC._get_use_eager_mode():
      return []
    ahead, is_weight_pending = self._weights.current(self._was_read())
    scalars, named = ([], {}) if ahead is None else ([ahead.scalar], ahead.ids)
    found, is_pending = self._operands(
        one for one in self._tensors.all() if one.fresh or one not in named)
    if not (is_weight_pending or is_pending or anything_pending(but=scalars)):
      return []
    found = even_first(found, ahead is None)
    # A program gives its results by age. To be the same program whether weights
    # were bound ahead or not, the first must be no older than the graph, and
    # older than the second.
    bindings = [scalar.clone() for scalar in scalars]
    of_weights = _WEIGHTS if ahead is None else _WEIGHTS_SINCE
    for is_weight, of in ((True, of_weights), (False, _OTHERS)):
      group = [
          operand for operand in found if operand[0].is_weight == is_weight
      ]
      if group:
        bindings.append(self._bind(group, of))
    return bindings

  def before_sync(self) -> None:
    """Binds what is pending; while a binding lives, the sync computes it."""
    # Of a sync that failed: no other would get past them.
    self._bindings_of_sync = []
    # Made now: malloc consolidates its heap at the first large block after a
    # graph is gone, which took 2 ms of each step when after_sync made this.
    self._syncing = self._tensors.all()
    self._bindings_of_sync = self.pending_bindings()
    self._weights.drop(Drop.SYNCED)

  def after_sync(self) -> None:
    """Takes the data that graphs will start from until the next sync."""
    self._bindings_of_sync = []
    self.saved_graphs.clean()
    synced, self._syncing = self._syncing, []
    if not self._tensors:
      return
    self._partial_syncs_before = partial_syncs()
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
    self._weights.arm(weights)
    self._tensors.drop_dead()
    self._watch_growth()

  def of_graph(self, arguments: Iterable[torch.Tensor],
               outputs: Sequence[torch.Tensor]) -> Optional[torch.Tensor]:
    """A binding for a graph that was just traced from `arguments`.

    None if no argument is annotated, or if there is nothing to compute.
    """
    # After this, all that is pending is cleared.
    self._weights.drop(Drop.STALE)
    unique = {id(t): t for t in arguments}.values()
    annotated = [
        one for t in unique if (one := self._tensors.find(t)) is not None
    ]
    if not annotated or not any(are_pending(outputs)):
      return None
    found = even_first(self._operands(annotated)[0])
    return self._bind(found, _ARGUMENTS) if found else None

  def traced(self, arguments: Sequence[torch.Tensor]) -> TracedAnnotations:
    """What is said of a compiled graph's arguments as it is traced."""
    return TracedAnnotations(self, self._tensors.annotations(arguments))

  def called(self,
             arguments: Sequence[torch.Tensor]) -> list[Optional[Annotation]]:
    """What is said of the arguments that a compiled graph is called with."""
    annotations = self._tensors.annotations(arguments)
    if any(annotations):
      self._weights.drop(Drop.DOUBTFUL)
    return annotations

  def _is_told(self, priority: Optional[Priority]) -> bool:
    """Whether programs carry annotations; says so once where they do not."""
    if current_mode() is not Mode.OFF and not self._door_checked:
      switch.check_runtime()
      self._door_checked = torch_xla._XLAC._xla_runtime_is_initialized()
    if current_mode() is not Mode.SHARDY:
      if priority is not None:
        self._said.warning(
            'mark_sharding(priority=...) has no effect: Shardy is off. Set '
            'XLA_USE_SHARDY=1 before torch_xla is imported, or call '
            'torch_xla.runtime.use_shardy() before the first XLA tensor')
      return False
    return True

  def _bind(self, operands: Sequence[Operand], of: str) -> torch.Tensor:
    key = of, [one.annotation for one, _ in operands]
    target = next((text for known, text in self._targets if known == key), None)
    if target is None:
      target = call_target.binding_target(key[1], of)
      self._targets = ((key, target), *self._targets[:_KEPT_TARGETS - 1])
    refs = [one.ref for one, _ in operands]
    self.names.remember(target, lambda: _names_of(refs))
    binding, = torch_xla._XLAC._xla_custom_call([t for _, t in operands],
                                                target, [[]], [torch.float32],
                                                False, '', 1, {})
    return binding

  def _operands(self, ones: Iterable[Annotated]) -> tuple[list[Operand], bool]:
    """Those that are known, and whether anything of them is pending."""
    found = find_operands(ones, self._was_read())
    if found.any_unknown:
      self._said.warning(
          'an annotated tensor was updated in place so that the data it had '
          'before is not known: its priority does not count in this program')
    return found.operands, found.any_pending

  def _was_read(self) -> bool:
    """Whether any graph was executed since the last sync."""
    return partial_syncs() != self._partial_syncs_before

  def _watch_growth(self) -> None:
    living = len(self._tensors)
    self._growth = self._growth + 1 if living > self._living > 0 else 0
    self._living = living
    if self._growth == _GROWTH_TO_WARN:
      self._said.warning(
          f'{living} annotated tensors are alive, more at each of '
          f'{_GROWTH_TO_WARN} syncs. Each is a parameter of every program, so '
          'each sync compiles anew: let go of tensors that you no longer need, '
          'or clear_sharding() them')


class TracedAnnotations:
  """What was said of a compiled graph's arguments when it was traced."""

  def __init__(self, binder: Binder, annotations: list[Optional[Annotation]]):
    self._binder = binder
    self._annotations = annotations

  def changed(self, arguments: Sequence[torch.Tensor]) -> bool:
    """Whether the graph has to be traced again for these arguments."""
    return self._annotations != self._binder.called(arguments)


def _names_of(refs: Sequence[Any]) -> tuple[str, ...]:
  """Names of tensors by weak references, empty where unknown."""
  tensors = map(tensor_of, refs)
  return tuple('' if t is None else tensor_names.name_of(t) for t in tensors)


def _tag(t: torch.Tensor, said: Annotation) -> None:
  tagged, = torch_xla._XLAC._xla_custom_call([t], call_target.tag_target(said),
                                             [list(t.shape)], [t.dtype], False,
                                             '', 1, {})
  if torch._is_functional_tensor(t):
    torch._functionalize_replace(t, inner_of(tagged))
  else:
    torch_xla._XLAC._replace_xla_tensor(t, tagged)
