"""The functions that are another ahead of time, and why."""

from __future__ import annotations

from collections.abc import Callable
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

from .hooks import Hooks
from ..compiled.mesh_groups import MeshValue

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


def leave_out_saving(hooks: Hooks) -> None:
  for module, name in _SAVING:
    if _is_there(module):
      owner = importlib.import_module(module)
      hooks.leave_out(owner, name, f'{module}.{name}', _ZEROS, _to_a_file)
  hooks.leave_out(xr, 'initialize_cache', 'torch_xla.runtime.initialize_cache',
                  'what is compiled ahead of time is not kept')


def leave_out_virtual_devices(hooks: Hooks) -> None:
  hooks.leave_out(torch_xla.shardy, 'virtual_devices',
                  'torch_xla.shardy.virtual_devices',
                  'the devices are those of the topology')


def refuse_waiting(hooks: Hooks) -> None:
  """Has what waits for other processes fail, and say what to do."""
  hooks.refuse(torch.distributed, 'init_process_group',
               'torch.distributed.init_process_group', _PEERS, _waits)
  hooks.refuse(
      pjrt, 'spawn', 'torch_xla.launch',
      'it starts a process per device, and only a script that is one process '
      'per host, with torch_xla.runtime.use_spmd(), is compiled ahead of time: '
      'call its function itself, or pass debug_single_process=True',
      lambda *args, **kwargs: _argument(args, kwargs, 1, 'nprocs') != 1)


def collect_meshes(hooks: Hooks) -> list[MeshValue]:
  """The meshes that the script makes from now on, each once, as they come."""
  meshes: list[MeshValue] = []

  def collect(mesh: xs.Mesh, *args: Any, **kwargs: Any) -> None:
    names = mesh.axis_names or (
        f'axis {i}' for i in range(len(mesh.mesh_shape)))
    made = MeshValue(
        tuple(mesh.mesh_shape), tuple(names),
        tuple(int(i) for i in mesh.device_ids))
    if made not in meshes:
      meshes.append(made)

  hooks.follow(xs.Mesh, '__init__', collect)
  return meshes


def watch_minibatch(hooks: Hooks) -> None:
  """Reports a minibatch in a script that is told it is the only process."""

  def look(spec: xs.ShardingSpec, *args: Any, **kwargs: Any) -> None:
    if spec.minibatch:
      hooks.find(
          'minibatch',
          'ShardingSpec(minibatch=True) takes a batch as that of one host of '
          'many, and with --one-process the script was told that it is the '
          'only one: see that it made the batch of one host, or sizes are '
          'larger than they would be')

  hooks.follow(xs.ShardingSpec, '__init__', look)


def after_each_step(hooks: Hooks, ended: Callable[[], None]) -> None:
  """Calls `ended()` after each torch_xla.sync() and its synonyms."""
  hooks.follow(torch_xla._XLAC, '_xla_step_marker', lambda *_, **__: ended())


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
