"""Starting: the library, the client, its devices."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any

from . import caching, donation, errors, queries, transfers
from ..case import Case, expect
from ..context import Context
from ..pjrt.event import Callbacks
from ..pjrt.graph import elementwise
from ..pjrt.client import describe
from ..pjrt.table import MissingError, PjrtError, pointers, Table, text

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
      kind = describe(table, device, 'Kind')
      expect(kind.device_kind_size, f'device {number} has no kind')
      table.call('Device_DefaultMemory', device=device)
      with contextlib.suppress(PjrtError, MissingError):
        found = table.call(
            'Client_LookupDevice', client=client.address, id=number).device
        expect(found == device, f'by the id {number} another device is found')
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


# Functions that take a handle alone, by what they belong to.
_GETTERS = {
    'Client': 'PlatformName ProcessIndex PlatformVersion Devices '
              'AddressableDevices AddressableMemories TopologyDescription',
    'Device': 'GetDescription IsAddressable LocalHardwareId DefaultMemory '
              'AddressableMemories MemoryStats',
    'DeviceDescription': 'Id ProcessIndex Attributes Kind',
    'Memory': 'Id Kind Kind_Id DebugString ToString AddressableByDevices',
    'TopologyDescription': 'PlatformName PlatformVersion GetDeviceDescriptions',
    'LoadedExecutable': 'AddressableDevices IsDeleted Fingerprint',
    'Executable': 'NumOutputs GetCostAnalysis OutputMemoryKinds Fingerprint '
                  'OutputElementTypes OutputDimensions GetCompiledMemoryStats',
    'Buffer': 'ElementType Dimensions UnpaddedDimensions Device Memory IsOnCpu '
              'DynamicDimensionIndices GetMemoryLayout OnDeviceSizeInBytes '
              'IsDeleted UnsafePointer',
}
# What calls the others, with arguments that are right, and with wrong ones.
_CALLERS = ('donation.in_place', 'errors.asynchronous', 'errors.readback',
            'caching.reload', 'readback.fresh', 'queries.optimized_program')


def _get_all(context: Context) -> None:
  """Calls each getter of a plugin, with the first handle of its kind."""
  table, client = context.table, context.kept_client()

  def ask(name: str, **handle: int) -> Any:
    with contextlib.suppress(PjrtError, MissingError):
      return table.call(name, **handle)
    return None

  loaded = client.compile(elementwise((1,)))
  buffer = client.put_floats([1.])
  callbacks, event = Callbacks(table), buffer.ready_event()
  callbacks.add(event, 0)
  event.wait()
  callbacks.missing((0,), 1)
  handles = {
      'Client': ('client', client.address),
      'Device': ('device', client.devices[0]),
      'LoadedExecutable': ('executable', loaded.address),
      'Buffer': ('buffer', buffer.address),
  }
  for owner, (field, function, argument) in {
      'DeviceDescription':
          ('device_description', 'Device_GetDescription', 'device'),
      'Memory': ('memory', 'Device_DefaultMemory', 'device'),
      'TopologyDescription':
          ('topology', 'Client_TopologyDescription', 'client'),
  }.items():
    of = handles[function.partition('_')[0]][1]
    if answer := ask(function, **{argument: of}):
      handles[owner] = field, getattr(answer, field)
  with loaded.executable() as executable:
    handles['Executable'] = 'executable', executable
    for owner, (field, handle) in handles.items():
      for name in _GETTERS[owner].split():
        ask(f'{owner}_{name}', **{field: handle})
  _ = event.is_ready
  event.destroy()
  client.release()


def _struct_sizes(context: Context, part: str) -> str:
  """Nothing is written behind the end that a caller's struct names."""
  cases = {
      case.name: case
      for module in (caching, donation, errors, queries, transfers)
      for case in module.CASES
  }
  with context.table.guarded() as written:
    _get_all(context)
    for case in map(cases.__getitem__, _CALLERS):
      for name in case.parts:
        with contextlib.suppress(Exception):  # Told by the case itself.
          case.run(context, name)
  wrong = [f'PJRT_{name}' for name, is_wrong in written.items() if is_wrong]
  expect(
      not wrong, f'{", ".join(wrong)}: bytes are written behind the size that '
      'struct_size gives')
  return f'{len(written)} functions'


_case = functools.partial(Case, compiles=False)
_of_table = functools.partial(_case, devices=0)
CASES: tuple[Case, ...] = (
    _of_table('start.version',
              'torch_xla and the plugin call each other wrongly', _version),
    _of_table('start.functions', 'a call into nothing ends the process',
              _functions),
    _case(
        'start.twice', 'a second start in one process, as in tests and in '
        'notebooks, fails', _twice, ('library', 'client')),
    _case('start.devices', 'meshes are made of the wrong devices', _devices),
    _case('start.formats', 'no program can be compiled', _formats),
    Case('start.struct_sizes', 'a framework older than the plugin gets its '
         'memory overwritten', _struct_sizes),
)
