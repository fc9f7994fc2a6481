"""Starting: the library, the client, its devices."""

from __future__ import annotations

import contextlib
import ctypes
import functools

from ..case import Case, expect
from ..context import Context
from ..pjrt import structs
from ..pjrt.table import PjrtError, pointers, Table, text

# What torch_xla 2.9 calls, beside what only a few of its features need.
_NEEDED = ('Error_Destroy', 'Error_Message', 'Error_GetCode',
           'Plugin_Initialize', 'Event_Destroy', 'Event_Await', 'Event_OnReady',
           'Client_Create', 'Client_Destroy', 'Client_PlatformName',
           'Client_PlatformVersion', 'Client_Devices',
           'Client_AddressableDevices', 'Client_Compile',
           'Client_BufferFromHostBuffer', 'Client_TopologyDescription',
           'DeviceDescription_Id', 'DeviceDescription_ProcessIndex',
           'DeviceDescription_Attributes', 'DeviceDescription_Kind',
           'Device_GetDescription', 'Device_IsAddressable',
           'Device_DefaultMemory', 'Executable_Destroy',
           'Executable_NumOutputs', 'Executable_OptimizedProgram',
           'LoadedExecutable_Destroy', 'LoadedExecutable_GetExecutable',
           'LoadedExecutable_AddressableDevices', 'LoadedExecutable_Execute',
           'Buffer_Destroy', 'Buffer_ElementType', 'Buffer_Dimensions',
           'Buffer_GetMemoryLayout', 'Buffer_OnDeviceSizeInBytes',
           'Buffer_Delete', 'Buffer_IsDeleted', 'Buffer_ToHostBuffer',
           'Buffer_ReadyEvent')
_OLDEST = (0, 57)
_CANARY = 0x5a


def _version(context: Context, part: str) -> str:
  version = context.table.version
  written = f'PJRT API {version[0]}.{version[1]}'
  expect(version[0] == 0, f'{written}: the shim and torch_xla know major 0')
  expect(
      version >= _OLDEST, f'{written} is older than 0.57, which the shim '
      'and the functions that torch_xla calls need')
  return written


def _functions(context: Context, part: str) -> str:
  missing = [name for name in _NEEDED if not context.table.has(name)]
  expect(
      not missing, 'torch_xla calls, and the table lacks: ' +
      ', '.join(f'PJRT_{name}' for name in missing))
  return f'{len(context.table.present)} functions'


def _twice(context: Context, part: str) -> str:
  """The library, or a client, a second time."""
  if part == 'library':
    # Not set up again: that is done once.
    again = Table(ctypes.CDLL(context.library))
    expect(again.present == context.table.present,
           'a second GetPjrtApi gives another table')
    return 'the same table'
  ids = []
  for _ in range(2):
    with context.client() as client:
      ids.append(client.ids)
  expect(ids[0] == ids[1],
         f'the second client has the devices {ids[1]}, the first {ids[0]}')
  return f'{len(ids[0])} device(s) each time'


def _devices(context: Context, part: str) -> str:
  table = context.table
  with context.client() as client:
    answer = table.call('Client_Devices', client=client.address)
    all_devices = pointers(answer.devices, answer.num_devices)
    expect(
        len(set(client.ids)) == len(client.ids),
        f'two devices have the same id: {client.ids}')
    expect(
        set(client.devices) <= set(all_devices),
        'an addressable device is not among all devices')
    for device, number in zip(client.devices, client.ids):
      expect(
          table.call('Device_IsAddressable', device=device).is_addressable,
          f'device {number} is listed as addressable and says that it is not')
      description = table.call(
          'Device_GetDescription', device=device).device_description
      kind = table.call(
          'DeviceDescription_Kind', device_description=description)
      expect(kind.device_kind_size, f'device {number} has no kind')
      table.call('Device_DefaultMemory', device=device)
    expected_count = context.options.get('cpu_device_count', len(client.ids))
    expect(
        expected_count == len(client.ids),
        f'{expected_count} devices were asked for, '
        f'{len(client.ids)} are addressable')
    return (f'{len(client.ids)} of {len(all_devices)} addressable, '
            f'{text(kind.device_kind, kind.device_kind_size)}')


def _formats(context: Context, part: str) -> str:
  capabilities = context.capabilities
  expect(
      bool(capabilities.get('format')),
      'a sum of eight numbers is refused in HLO '
      f'({capabilities.get("hlo")}), as StableHLO\'s text '
      f'({capabilities.get("mlir")}) and as an artifact '
      f'({capabilities.get("artifacts")})')
  return f'programs go to it in {capabilities["format"]}'


def _struct_sizes(context: Context, part: str) -> str:
  """Nothing is written behind the end that a caller's struct names."""
  table = context.table
  tried = 0
  with context.client() as client:
    calls = (('Client_PlatformName', 'client', client.address),
             ('Client_PlatformVersion', 'client',
              client.address), ('Client_Devices', 'client', client.address),
             ('Client_AddressableDevices', 'client', client.address),
             ('Device_GetDescription', 'device', client.devices[0]),
             ('Device_IsAddressable', 'device', client.devices[0]),
             ('Device_MemoryStats', 'device', client.devices[0]))
    for name, field, value in calls:
      if not table.has(name):
        continue
      kind = structs.struct(name)
      size = ctypes.sizeof(kind)
      memory = (ctypes.c_ubyte * (size + 64))(*[_CANARY] * (size + 64))
      ctypes.memset(memory, 0, size)
      arguments = kind.from_buffer(memory)
      arguments.struct_size = size
      setattr(arguments, field, value)
      # What it refuses to tell it may not write either.
      with contextlib.suppress(PjrtError):
        table.call_with(name, arguments)
      expect(
          all(byte == _CANARY for byte in memory[size:]),
          f'PJRT_{name} writes behind the {size} bytes that struct_size gives')
      tried += 1
  return f'{tried} functions'


_case = functools.partial(Case, compiles=False)
CASES: tuple[Case, ...] = (
    _case(
        'start.version',
        'torch_xla and the plugin call each other wrongly',
        _version,
        devices=0),
    _case(
        'start.functions',
        'a call into nothing ends the process',
        _functions,
        devices=0),
    _case(
        'start.twice', 'a second start in one process, as in tests and in '
        'notebooks, fails', _twice, ('library', 'client')),
    _case('start.devices', 'meshes are made of the wrong devices', _devices),
    _case('start.formats', 'no program can be compiled', _formats),
    _case('start.struct_sizes', 'a framework older than the plugin gets its '
          'memory overwritten', _struct_sizes),
)
