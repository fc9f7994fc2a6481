"""Hooks on what a script must not or cannot do ahead of time, and why.

Functions of torch and torch_xla are replaced in the process that runs the
script, before the script has a name for them.
"""

from __future__ import annotations

from collections.abc import Callable
import functools
import importlib
import importlib.util
import io
import os
from typing import Any, Optional

import torch
import torch_xla
from torch_xla._internal import pjrt
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

from ...callers import Callers
from ..compiled.mesh_groups import MeshValue
from ..errors import AotError

_ZEROS = ('values are zeros ahead of time, and a checkpoint of them could take '
          'the place of a real one')
_SAVING = (
    ('torch', 'save'),
    ('torch.distributed.checkpoint', 'save'),
    ('torch.distributed.checkpoint', 'async_save'),
    ('torch.distributed.checkpoint', 'save_state_dict'),
    ('safetensors.torch', 'save_file'),
    ('safetensors.torch', 'save_model'),
)
_PEERS = (
    'it would wait for other processes, which do not exist ahead of time. With '
    '--one-process the script is told that it is the only one, and does not '
    'wait; with a batch per process, have it make that of one process')
_PROCESS_PER_DEVICE = (
    'it starts a process per device, and only a script that is one process per '
    'host, with torch_xla.runtime.use_spmd(), is compiled ahead of time: call '
    'its function itself, or pass debug_single_process=True')
_MINIBATCH = (
    'ShardingSpec(minibatch=True) takes a batch as that of one host of many, '
    'and with --one-process the script was told that it is the only one: see '
    'that it made the batch of one host, or sizes are larger than they would be'
)


class Hooks:
  """Replaces functions, for as long as the process lives.

  Attributes:
    findings: what was left out, each once, with the line that asked for it.
    meshes: that the script made, each once, as they come.
  """

  def __init__(self, callers: Callers, one_process: bool,
               step_ended: Callable[[], None]):
    """Replaces what a script must not or cannot do.

    Args:
      one_process: whether the script is told that it is the only one.
      step_ended: called after each torch_xla.sync() and its synonyms.
    """
    self.findings: list[str] = []
    self.meshes: list[MeshValue] = []
    self._callers = callers
    self._reported: set[str] = set()
    for module, name in _SAVING:
      if _is_there(module):
        self._leave_out(
            importlib.import_module(module), name, f'{module}.{name}', _ZEROS,
            _to_a_file)
    self._leave_out(xr, 'initialize_cache',
                    'torch_xla.runtime.initialize_cache',
                    'what is compiled ahead of time is not kept')
    self._leave_out(torch_xla.shardy, 'virtual_devices',
                    'torch_xla.shardy.virtual_devices',
                    'the devices are those of the topology')
    _refuse(torch.distributed, 'init_process_group',
            'torch.distributed.init_process_group', _PEERS, _waits)
    _refuse(pjrt, 'spawn', 'torch_xla.launch', _PROCESS_PER_DEVICE,
            lambda *args, **kwargs: _argument(args, kwargs, 1, 'nprocs') != 1)
    _follow(xs.Mesh, '__init__', self._collect_mesh)
    if one_process:
      _follow(xs.ShardingSpec, '__init__', self._find_minibatch)
    _follow(torch_xla._XLAC, '_xla_step_marker', lambda *_, **__: step_ended())

  def _collect_mesh(self, mesh: xs.Mesh, *args: Any, **kwargs: Any) -> None:
    names = mesh.axis_names or (
        f'axis {i}' for i in range(len(mesh.mesh_shape)))
    value = MeshValue(
        tuple(mesh.mesh_shape), tuple(names),
        tuple(int(i) for i in mesh.device_ids))
    if value not in self.meshes:
      self.meshes.append(value)

  def _find_minibatch(self, spec: xs.ShardingSpec, *args: Any,
                      **kwargs: Any) -> None:
    if spec.minibatch:
      self._find('minibatch', _MINIBATCH)

  def _find(self, subject: str, sentence: str) -> None:
    """Files a finding, the first time."""
    if subject not in self._reported:
      self._reported.add(subject)
      where = next(iter(self._callers.now()), '')
      self.findings.append(f'{sentence} ({where})' if where else sentence)

  def _leave_out(
      self,
      owner: Any,
      name: str,
      shown: str,
      reason: str,
      when: Callable[..., bool] = lambda *args, **kwargs: True) -> None:
    """Has calls of `owner.name` do nothing, and a finding say so.

    But for calls of which `when(*args, **kwargs)` is false.
    """

    def call(original: Callable, *args: Any, **kwargs: Any) -> Any:
      if not when(*args, **kwargs):
        return original(*args, **kwargs)
      return self._find(shown, f'{shown} was left out: {reason}')

    _replace(owner, name, call)


def _refuse(owner: Any, name: str, shown: str, reason: str,
            when: Callable[..., bool]) -> None:
  """Has calls of `owner.name` fail when `when(*args, **kwargs)` holds."""

  def call(original: Callable, *args: Any, **kwargs: Any) -> Any:
    if when(*args, **kwargs):
      raise AotError(f'{shown}: {reason}')
    return original(*args, **kwargs)

  _replace(owner, name, call)


def _follow(owner: Any, name: str, act: Callable[..., None]) -> None:
  """Has each call of `owner.name` followed by `act` of its arguments."""

  def call(original: Callable, *args: Any, **kwargs: Any) -> None:
    original(*args, **kwargs)
    act(*args, **kwargs)

  _replace(owner, name, call)


def _replace(owner: Any, name: str, call: Callable) -> None:
  """Has `call(original, ...)` stand in for `owner.name`, if there is one."""
  original = getattr(owner, name, None)
  if original is not None:

    @functools.wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
      return call(original, *args, **kwargs)

    setattr(owner, name, replacement)


def _to_a_file(*args: Any, **kwargs: Any) -> bool:
  """Whether it writes to a file, not to memory for the same script to read."""
  return not any(isinstance(a, io.BytesIO) for a in (*args, *kwargs.values()))


def _waits(*args: Any, **kwargs: Any) -> bool:
  method = _argument(args, kwargs, 1, 'init_method')
  if method is not None and str(method).startswith('xla://'):
    return xr.process_count() > 1 and xr.is_spmd()
  size = _argument(args, kwargs, 3, 'world_size')
  if size is None or size == -1:
    text = os.environ.get('WORLD_SIZE', '1')
    size = int(text) if text.isdecimal() else 1
  return size > 1


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int,
              name: str) -> Optional[Any]:
  return args[position] if len(args) > position else kwargs.get(name)


def _is_there(module: str) -> bool:
  try:
    return importlib.util.find_spec(module) is not None
  except ModuleNotFoundError:  # Of the package that it is in.
    return False
