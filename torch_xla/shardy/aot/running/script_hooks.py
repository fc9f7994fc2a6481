"""The functions that are another ahead of time, and why."""

from __future__ import annotations

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

  def make(original):

    def init(self, *args, **kwargs):
      original(self, *args, **kwargs)
      names = self.axis_names or (
          f'axis {i}' for i in range(len(self.mesh_shape)))
      made = MeshValue(
          tuple(self.mesh_shape), tuple(names),
          tuple(int(i) for i in self.device_ids))
      if made not in meshes:
        meshes.append(made)

    return init

  hooks.replace(xs.Mesh, '__init__', make)
  return meshes


def watch_minibatch(hooks: Hooks) -> None:
  """For a script that is told that it is the only process."""

  def make(original):

    def init(self, *args, **kwargs):
      original(self, *args, **kwargs)
      if self.minibatch:
        hooks.find(
            'minibatch',
            'ShardingSpec(minibatch=True) takes a batch as that of one host of '
            'many, and with --one-process the script was told that it is the '
            'only one: see that it made the batch of one host, or sizes are '
            'larger than they would be')

    return init

  hooks.replace(xs.ShardingSpec, '__init__', make)


def after_each_step(hooks: Hooks, ended: Any) -> None:
  """Calls `ended()` after each torch_xla.sync() and its synonyms."""

  def make(original):

    def marker(*args, **kwargs):
      original(*args, **kwargs)
      ended()

    return marker

  hooks.replace(torch_xla._XLAC, '_xla_step_marker', make)


def _to_a_file(*args: Any, **kwargs: Any) -> bool:
  """Not to memory, to be read back by the same script."""
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
