"""PJRT's client, devices and memories, of jaxlib's CPU client."""

from __future__ import annotations

from collections.abc import Callable
import ctypes
from typing import Any

from answered_table import Handles


class Devices:
  """The client of one process of several.

  Attributes:
    client: jaxlib's; there once PJRT_Client_Create was called.
    all: jax's devices, of all processes, by their number.
    local: those of this process.
  """

  def __init__(self, handles: Handles, connect: Callable[[], Any]):
    """Takes what brings jaxlib's client up."""
    self._handles = handles
    self._connect = connect

  def Client_Create(self, args: Any) -> dict[str, int]:
    self.client = self._connect()
    self.process: int = self.client.process_index()
    self.all = sorted(self.client.devices(), key=lambda d: d.id)
    self.local = [d for d in self.all if d.process_index == self.process]
    self._device = {d: self._handles.hold(d) for d in self.all}
    self._memory = {d: self._handles.hold(d) for d in self.local}
    return {'client': self._handles.hold(self.client)}

  def handle(self, device: Any) -> int:
    return self._device[device]

  def memory(self, device: Any) -> int:
    return self._memory[device]

  def array(self, pointers: Any) -> int:
    return self._handles.array(ctypes.c_void_p, pointers)

  def Client_Destroy(self, args: Any) -> None:
    self._handles.drop(args.client)

  def Client_PlatformName(self, args: Any) -> dict[str, int]:
    return self._handles.text('platform_name', 'cpu')

  def Client_PlatformVersion(self, args: Any) -> dict[str, int]:
    return self._handles.text('platform_version', self.client.platform_version)

  def Client_ProcessIndex(self, args: Any) -> dict[str, int]:
    return {'process_index': self.process}

  def Client_Devices(self, args: Any) -> dict[str, int]:
    return {
        'devices': self.array(self._device.values()),
        'num_devices': len(self.all)
    }

  def Client_AddressableDevices(self, args: Any) -> dict[str, int]:
    return {
        'addressable_devices': self.array(map(self.handle, self.local)),
        'num_addressable_devices': len(self.local)
    }

  def Client_AddressableMemories(self, args: Any) -> dict[str, int]:
    return {
        'addressable_memories': self.array(self._memory.values()),
        'num_addressable_memories': len(self.local)
    }

  def Client_LookupDevice(self, args: Any) -> dict[str, int]:
    device, = (d for d in self.all if d.id == args.id)
    return {'device': self.handle(device)}

  def Client_LookupAddressableDevice(self, args: Any) -> dict[str, int]:
    device = self.local[args.local_hardware_id]
    return {'addressable_device': self.handle(device)}

  def Device_GetDescription(self, args: Any) -> dict[str, int]:
    return {'device_description': args.device}

  def Device_IsAddressable(self, args: Any) -> dict[str, bool]:
    return {'is_addressable': self._handles[args.device] in self.local}

  def Device_LocalHardwareId(self, args: Any) -> dict[str, int]:
    return {'local_hardware_id': self._handles[args.device].local_hardware_id}

  def Device_AddressableMemories(self, args: Any) -> dict[str, int]:
    device = self._handles[args.device]
    mine = [self._memory[device]] if device in self.local else []
    return {'memories': self.array(mine), 'num_memories': len(mine)}

  def Device_DefaultMemory(self, args: Any) -> dict[str, int]:
    return {'memory': self.memory(self._handles[args.device])}

  def DeviceDescription_Id(self, args: Any) -> dict[str, int]:
    return {'id': self._handles[args.device_description].id}

  def DeviceDescription_ProcessIndex(self, args: Any) -> dict[str, int]:
    device = self._handles[args.device_description]
    return {'process_index': device.process_index}

  def DeviceDescription_Attributes(self, args: Any) -> dict[str, int]:
    return {'num_attributes': 0}

  def DeviceDescription_Kind(self, args: Any) -> dict[str, int]:
    return self._handles.text('device_kind', 'cpu')

  def DeviceDescription_ToString(self, args: Any) -> dict[str, int]:
    return self._handles.text('text', f'CPU {self._handles[args.of].id}')

  DeviceDescription_DebugString = DeviceDescription_ToString

  def Memory_Id(self, args: Any) -> dict[str, int]:
    return {'id': self._handles[args.memory].id}

  def Memory_Kind(self, args: Any) -> dict[str, int]:
    return self._handles.text('kind', 'device')

  def Memory_Kind_Id(self, args: Any) -> dict[str, int]:
    return {'kind_id': 0}

  def Memory_ToString(self, args: Any) -> dict[str, int]:
    return self._handles.text('to_string',
                              f'of {self._handles[args.memory].id}')

  def Memory_DebugString(self, args: Any) -> dict[str, int]:
    return self._handles.text('debug_string',
                              f'of {self._handles[args.memory].id}')

  def Memory_AddressableByDevices(self, args: Any) -> dict[str, int]:
    device = self.handle(self._handles[args.memory])
    return {'devices': self.array([device]), 'num_devices': 1}
