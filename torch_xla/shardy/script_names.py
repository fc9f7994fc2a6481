"""The users' names of what is in the programs of a script that a tool runs.

An operation's is the path of the module that made it: the scope of its node,
which is metadata. No hash of a graph covers it, and nothing else is compiled.

    addmm of blocks.3.up             an operation of a module
    addmm of blocks.3.up.backward    and of its backward
    mul of AdamW                     and of an optimizer
    exp_avg of blocks.3.up.weight    an argument: what modules and optimizers
                                     had as a step began
    tokens of Llama                  what the outermost module was called with
    tensor marked at train.py:12     what is none of these

What torch.compile traced is of no module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import ctypes
import functools
import inspect
import sys
import threading
from typing import Any
import weakref

import torch
from torch.optim.optimizer import (register_optimizer_step_post_hook,
                                   register_optimizer_step_pre_hook)
from torch.utils import _pytree as pytree
import torch_xla

from . import door, tensor_names
from .bind import binder
from .bind.graph_data import GraphData
from .callers import Callers
from .hlo import array_shape, messages
from .hlo.protos import HloModuleProto

_MARK = 'torch_xla.shardy'


class ScriptNames:
  """Names modules and tensors from here on, for as long as the process lives."""

  def __init__(self) -> None:
    self._scopes = threading.local()
    self._paths: weakref.WeakKeyDictionary[torch.nn.Module, str] = (
        weakref.WeakKeyDictionary())
    self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
    self._step = contextlib.ExitStack()
    # By the address of data, its name and dimensions, since the last sync.
    self._data: dict[int, tuple[str, tuple[int, ...]]] = {}
    # That tensors have their names of, since the last sync.
    self._marking_lines: set[str] = set()
    torch_xla._XLAC._set_ir_debug(True)
    _parameters()  # From here on they are noted.
    call, sync = torch.nn.Module.__call__, torch_xla._XLAC._xla_step_marker

    def named_call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
      if torch.compiler.is_compiling():
        return call(module, *args, **kwargs)
      is_outermost = not self._depth()
      if is_outermost:
        self._name(module, args, kwargs)
      path = self._paths.get(module) or type(module).__name__
      with self._scope(path):
        result = call(module, *args, **kwargs)
      if is_outermost:  # What is first used is laid out anew.
        self._name(module, args, kwargs)
      self._name_backward(result, f'{path}.backward')
      return result

    def named_sync(*args: Any, **kwargs: Any) -> None:
      if not self._data:
        self._name_data(tensor_names.living_names())
      self._name_data(tensor_names.noted())
      if self._depth():  # A sync in a module, whose scope goes on.
        kwargs['reset_scope'] = False
      sync(*args, **kwargs)
      self._data.clear()
      self._marking_lines.clear()

    annotate = binder.annotate
    callers = functools.cache(lambda: Callers(sys.path[0] if sys.path else '.'))

    def noted_annotate(place: Any, t: torch.Tensor, *args: Any,
                       **kwargs: Any) -> None:
      annotate(place, t, *args, **kwargs)
      if threading.current_thread() is threading.main_thread():
        # Of a helper that marks several, who called it tells them apart.
        for line in callers().now():
          if line not in self._marking_lines:
            self._marking_lines.add(line)
            tensor_names.note(t, f'tensor marked at {line}')
            break

    binder.annotate = noted_annotate  # type: ignore[method-assign]
    torch.nn.Module.__call__ = named_call  # type: ignore[method-assign]
    torch_xla._XLAC._xla_step_marker = named_sync
    register_optimizer_step_pre_hook(self._begin_step)
    register_optimizer_step_post_hook(lambda *_: self._step.close())

  def of_parameters(self, compilation: door.Compilation) -> dict[int, str]:
    """Names of the parameters of the graph that is compiled now, by number."""
    named = [self._data.get(address) for address in _parameters()]
    shapes = [None] * len(named)
    if compilation.format == 'hlo':
      module = messages.parse(HloModuleProto, compilation.program)
      shapes = next([
          array.dims
          for shape in computation.program_shape.parameters
          for array in array_shape.arrays_of(shape)
      ]
                    for computation in module.computations
                    if computation.id == module.entry_computation_id)
    if len(shapes) != len(named):
      return {}  # It is of no graph.
    return {
        number: entry[0]
        for number, (entry,
                     shape) in enumerate(zip(named, shapes, strict=True))
        if entry is not None and shape in (None, entry[1])
    }

  @functools.cached_property
  def _graphs(self) -> GraphData:
    return GraphData()

  def _begin_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
    self._optimizers.add(optimizer)
    self._step.enter_context(self._scope(type(optimizer).__name__))

  def _depth(self) -> int:
    return getattr(self._scopes, 'depth', 0)

  @contextlib.contextmanager
  def _scope(self, name: str) -> Iterator[None]:
    scope = torch_xla._XLAC.profiler.scope_pusher(f'~{name}')
    self._scopes.depth = self._depth() + 1
    try:
      yield
    finally:
      self._scopes.depth -= 1
      del scope

  def _name(self, module: torch.nn.Module, args: Sequence[Any],
            kwargs: dict[str, Any]) -> None:
    """Names what a model holds, and is called with."""
    if module not in self._paths:
      # It goes through all objects: a function of torch.nn has no names.
      modules = tensor_names.living_owners()[0] if next(module.children(),
                                                        None) else [module]
      self._paths.update(tensor_names.paths_in(modules))
    self._name_data(
        tensor_names.names_in(list(self._paths), list(self._optimizers)))
    with contextlib.suppress(TypeError, ValueError):
      bound = inspect.signature(module.forward).bind(*args, **kwargs)
      for parameter in bound.signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:  # As wrappers have it.
          bound.arguments.update(bound.arguments.pop(parameter.name, {}))
      named = [(value, f'{name}{pytree.keystr(keys)} of {self._paths[module]}')
               for name, given in bound.arguments.items()
               for keys, value in pytree.tree_flatten_with_path(given)[0]
               if isinstance(value, torch.Tensor)]
      for value, name in named:
        tensor_names.note(value, name)
      self._name_data(named)

  def _name_data(self, named: Iterable[tuple[Any, str]]) -> None:
    for t, name in named:
      if isinstance(t, torch.Tensor) and t.device.type == 'xla':
        with contextlib.suppress(RuntimeError):  # A fake one.
          if address := self._graphs.address_of(t):
            self._data.setdefault(address, (name, tuple(t.shape)))
        if t.is_leaf and t.grad is not None:
          self._name_data([(t.grad, f'grad of {name}')])

  def _name_backward(self, result: Any, name: str) -> None:
    """Has the nodes of `result` that are of no module be computed as `name`."""
    nodes = [
        t.grad_fn
        for t in pytree.tree_leaves(result)
        if isinstance(t, torch.Tensor)
    ]
    while nodes:
      node = nodes.pop()
      # The node of a leaf adds up what others compute.
      if node is None or not node.next_functions or _MARK in node.metadata:
        continue
      node.metadata[_MARK] = name
      self._enter_around(node, name)
      nodes += [before for before, _ in node.next_functions]

  def _enter_around(self, node: Any, name: str) -> None:
    scopes = contextlib.ExitStack()

    def enter(*_: Any) -> None:
      scopes.enter_context(self._scope(name))

    def leave(*_: Any) -> None:
      scopes.close()

    node.register_prehook(enter)
    node.register_hook(leave)


def _parameters() -> list[int]:
  """The addresses of the data of the last graph, in its parameters' order.

  None without libgraph_identity.so, which knows them.
  """
  try:
    read = ctypes.CDLL(None).graph_identity_parameters
  except AttributeError:
    return []
  read.restype = ctypes.c_size_t
  addresses = (ctypes.c_size_t * read(None, 0))()
  read(addresses, ctypes.c_size_t(len(addresses)))
  return list(addresses)
