"""The argument structs of the functions that the suite calls.

Each begins with struct_size and extension_start. Fields stand as in
pjrt_c_api.h of API 0.81, one letter for the type: a pointer, a size, an int of
32 bits, an int64, a bool.
"""

from __future__ import annotations

import ctypes
import functools

_TYPES = {
    'p': ctypes.c_void_p,
    'z': ctypes.c_size_t,
    'i': ctypes.c_int,
    'l': ctypes.c_int64,
    'b': ctypes.c_bool,
}
# A newer plugin may read fields that are not known here: they are zero.
_ROOM = 512

_STATS = ('peak_bytes_in_use num_allocs largest_alloc_size bytes_limit '
          'bytes_reserved peak_bytes_reserved bytes_reservable_limit '
          'largest_free_block_bytes pool_bytes peak_pool_bytes').split()
_FIELDS = {
    'Error_Destroy':
        'error:p',
    'Error_Message':
        'error:p message:p message_size:z',
    'Error_GetCode':
        'error:p code:i',
    'Plugin_Initialize':
        '',
    'Plugin_Attributes':
        'attributes:p num_attributes:z',
    'Event_Destroy':
        'event:p',
    'Event_Await':
        'event:p',
    'Client_Create':
        'create_options:p num_options:z kv_get_callback:p '
        'kv_get_user_arg:p kv_put_callback:p kv_put_user_arg:p client:p '
        'kv_try_get_callback:p kv_try_get_user_arg:p',
    'Client_Destroy':
        'client:p',
    'Client_PlatformName':
        'client:p platform_name:p platform_name_size:z',
    'Client_PlatformVersion':
        'client:p platform_version:p platform_version_size:z',
    'Client_Devices':
        'client:p devices:p num_devices:z',
    'Client_AddressableDevices':
        'client:p addressable_devices:p num_addressable_devices:z',
    'Client_Compile':
        'client:p program:p compile_options:p compile_options_size:z '
        'executable:p',
    'Client_BufferFromHostBuffer':
        'client:p data:p type:i dims:p num_dims:z byte_strides:p '
        'num_byte_strides:z host_buffer_semantics:i device:p memory:p '
        'device_layout:p done_with_host_buffer:p buffer:p',
    'Client_CreateBuffersForAsyncHostToDevice':
        'client:p shape_specs:p num_shape_specs:z device_layouts:p '
        'num_device_layouts:z memory:p transfer_manager:p',
    'AsyncHostToDeviceTransferManager_RetrieveBuffer':
        'transfer_manager:p buffer_index:i buffer_out:p',
    'AsyncHostToDeviceTransferManager_SetBufferError':
        'transfer_manager:p buffer_index:i error_code:i error_message:p '
        'error_message_size:z',
    'AsyncHostToDeviceTransferManager_Destroy':
        'transfer_manager:p',
    'Client_CreateUninitializedBuffer':
        'client:p shape_dims:p shape_num_dims:z shape_element_type:i '
        'shape_layout:p device:p memory:p buffer:p',
    'Client_TopologyDescription':
        'client:p topology:p',
    'Device_GetDescription':
        'device:p device_description:p',
    'Device_IsAddressable':
        'device:p is_addressable:b',
    'Device_AddressableMemories':
        'device:p memories:p num_memories:z',
    'Device_DefaultMemory':
        'device:p memory:p',
    'Device_MemoryStats':
        'device:p bytes_in_use:l ' +
        ' '.join(f'{name}:l {name}_is_set:b' for name in _STATS),
    'DeviceDescription_Id':
        'device_description:p id:i',
    'DeviceDescription_Kind':
        'device_description:p device_kind:p device_kind_size:z',
    'Memory_Kind':
        'memory:p kind:p kind_size:z',
    'Executable_Destroy':
        'executable:p',
    'Executable_NumOutputs':
        'executable:p num_outputs:z',
    'Executable_GetCostAnalysis':
        'executable:p num_properties:z properties:p',
    'Executable_OptimizedProgram':
        'executable:p program:p',
    'Executable_GetCompiledMemoryStats':
        'executable:p generated_code_size_in_bytes:l '
        'argument_size_in_bytes:l output_size_in_bytes:l '
        'alias_size_in_bytes:l temp_size_in_bytes:l '
        'host_generated_code_size_in_bytes:l host_argument_size_in_bytes:l '
        'host_output_size_in_bytes:l host_alias_size_in_bytes:l '
        'host_temp_size_in_bytes:l peak_memory_in_bytes:l',
    'Executable_Serialize':
        'executable:p serialized_bytes:p serialized_bytes_size:z '
        'serialized_executable:p serialized_executable_deleter:p',
    'Executable_DeserializeAndLoad':
        'client:p serialized_executable:p serialized_executable_size:z '
        'loaded_executable:p '
        'overridden_serialized_compile_options:p '
        'overridden_serialized_compile_options_size:z',
    'LoadedExecutable_Destroy':
        'executable:p',
    'LoadedExecutable_GetExecutable':
        'loaded_executable:p executable:p',
    'LoadedExecutable_Execute':
        'executable:p options:p argument_lists:p num_devices:z num_args:z '
        'output_lists:p device_complete_events:p execute_device:p',
    'Buffer_Destroy':
        'buffer:p',
    'Buffer_Delete':
        'buffer:p',
    'Buffer_IsDeleted':
        'buffer:p is_deleted:b',
    'Buffer_Dimensions':
        'buffer:p dims:p num_dims:z',
    'Buffer_OnDeviceSizeInBytes':
        'buffer:p on_device_size_in_bytes:z',
    'Buffer_Device':
        'buffer:p device:p',
    'Buffer_CopyToDevice':
        'buffer:p dst_device:p dst_buffer:p',
    'Buffer_ToHostBuffer':
        'src:p host_layout:p dst:p dst_size:z event:p',
    'Buffer_UnsafePointer':
        'buffer:p buffer_pointer:z',
    'Buffer_ReadyEvent':
        'buffer:p event:p',
    'TopologyDescription_Create':
        'topology_name:p topology_name_size:z create_options:p num_options:z '
        'topology:p',
    'TopologyDescription_Destroy':
        'topology:p',
    'TopologyDescription_GetDeviceDescriptions':
        'topology:p descriptions:p num_descriptions:z',
    'Compile':
        'topology:p program:p compile_options:p compile_options_size:z '
        'client:p executable:p',
    # Not of functions.
    'Program':
        'code:p code_size:z format:p format_size:z',
    'ExecuteOptions':
        'send_callbacks:p recv_callbacks:p num_send_ops:z num_recv_ops:z '
        'launch_id:i non_donatable_input_indices:p '
        'num_non_donatable_input_indices:z context:p call_location:p '
        'num_tasks:z task_ids:p incarnation_ids:p',
    # Its beginning is the larger of two structs, which has a header of its own.
    'MemoryLayout':
        'tiled_size:z tiled_extension:p minor_to_major:p '
        'minor_to_major_size:z tile_dims:p tile_dim_sizes:p num_tiles:z type:i',
    'ShapeSpec':
        'dims:p num_dims:z element_type:i',
    'NamedValue':
        'name:p name_size:z type:i int64_value:l value_size:z',
}


def names() -> tuple[str, ...]:
  return tuple(_FIELDS)


@functools.lru_cache(maxsize=None)
def struct(name: str) -> type[ctypes.Structure]:
  """The struct of a function's arguments, or one that they point to."""
  fields = [('struct_size', ctypes.c_size_t),
            ('extension_start', ctypes.c_void_p)]
  for field in _FIELDS[name].split():
    label, letter = field.split(':')
    fields.append((label, _TYPES[letter]))
  return type(name, (ctypes.Structure,), {'_fields_': fields})


def make(name: str, room: bool = True, **values: object) -> ctypes.Structure:
  """A struct with its size set and all else zero but `values`.

  Args:
    room: whether fields that are not known here follow, as zeros.
  """
  kind = struct(name)
  size = ctypes.sizeof(kind)
  if room and name != 'NamedValue':  # These stand in arrays.
    memory = (ctypes.c_char * max(_ROOM, size))()
    made = kind.from_buffer(memory)
    made.struct_size = len(memory)
  else:
    made = kind()
    made.struct_size = size
  for field, value in values.items():
    setattr(made, field, value)
  return made
