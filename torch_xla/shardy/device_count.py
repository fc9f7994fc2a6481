"""Virtual devices of a CPU, and meshes that want others than there are."""

from __future__ import annotations

import numbers
import os

from .errors import DeviceCountError, TooLateError

_COUNT_VARIABLE, _DEVICE_VARIABLE = 'CPU_NUM_DEVICES', 'PJRT_DEVICE'
# As torch_xla calls the CPU by itself, and behind the door.
_CPUS = ('CPU', 'XLACPU')


def virtual_devices(count: int) -> None:
  """Gives this process so many virtual devices of the CPU.

  As CPU_NUM_DEVICES does, from within: with or without a mode, before or after
  it is switched on, and before the first XLA tensor, device or mesh.

  >>> torch_xla.shardy.virtual_devices(8)

  Raises:
    DeviceCountError: the process runs on something else than a CPU.
    TooLateError: the runtime is up, with another number of devices.
    ValueError: `count` is no integer, or below 1.
  """
  import torch_xla
  if not isinstance(count, numbers.Integral) or isinstance(count,
                                                           bool) or count < 1:
    raise ValueError(f'virtual_devices({count!r}): give an integer, 1 or more')
  device = os.environ.get(_DEVICE_VARIABLE, 'CPU')
  if device not in _CPUS:
    raise DeviceCountError(
        f'virtual_devices({count}) is for a CPU, and this process runs on '
        f'{_DEVICE_VARIABLE}={device}, whose devices are those that there are: '
        f'leave the call out, or set {_DEVICE_VARIABLE}=CPU before torch_xla is '
        'imported')
  if torch_xla._XLAC._xla_runtime_is_initialized():
    there = torch_xla.runtime.global_runtime_device_count()
    if there == count:
      return
    raise TooLateError(
        f'virtual_devices({count}): the XLA runtime is already up, with '
        f'{_devices(there)}. Call it before the first XLA tensor, device or '
        f'mesh, or set {_COUNT_VARIABLE}={count} in the environment')
  os.environ[_COUNT_VARIABLE] = str(count)


def check_mesh(count: int, there: int) -> None:
  """Checks that a mesh has as many devices as there are.

  Raises:
    DeviceCountError: it has more, or fewer.
  """
  if count == there:
    return
  remedy = f'make a mesh of {_devices(there)}'
  if os.environ.get(_DEVICE_VARIABLE) in _CPUS:
    remedy = (f'call torch_xla.shardy.virtual_devices({count}) before the '
              'first XLA tensor, device or mesh, or set '
              f'{_COUNT_VARIABLE}={count} in the environment; or {remedy}')
  raise DeviceCountError(
      f'Number of device IDs ({count}) must match the global number of devices '
      f'({there}): {remedy}')


def _devices(count: int) -> str:
  return f'{count} device{"s" if count > 1 else ""}'
