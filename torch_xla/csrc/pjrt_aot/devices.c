// PJRT_Device_* and PJRT_Memory_*, and what is ours of descriptions.

#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

PJRT_Error* AotDeviceDescriptionProcessIndex(
    AbiDeviceDescriptionProcessIndexArgs* args) {
  AOT_ENTER_WITH(DeviceDescription, ProcessIndex, device_description,
                 process_index);
  if (!AotGetWorld()->one_process) {
    return AotForward(kSlotDeviceDescriptionProcessIndex, args);
  }
  args->process_index = 0;
  return NULL;
}

PJRT_Error* AotTopologyDescriptionDestroy(
    AbiTopologyDescriptionDestroyArgs* args) {
  AOT_ENTER(TopologyDescription, Destroy, topology);
  if (args->topology == NULL) return NULL;
  if (args->topology == AotGetWorld()->topology) {
    return ShardyError(
        kAbiInvalidArgument,
        "PJRT_TopologyDescription_Destroy: this topology is the client's");
  }
  return AotForward(kSlotTopologyDescriptionDestroy, args);
}

AOT_ANSWER(Device, GetDescription, device, device_description,
           args->device_description = args->device->description)

AOT_ANSWER(Device, IsAddressable, device, is_addressable,
           args->is_addressable = args->device->local >= 0)

AOT_ANSWER(Device, LocalHardwareId, device, local_hardware_id,
           args->local_hardware_id = args->device->local)

AOT_ANSWER(Device, AddressableMemories, device, num_memories,
           args->memories = args->device->memory_list,
           args->num_memories = args->device->local >= 0 ? kAotMemories : 0)

PJRT_Error* AotDeviceDefaultMemory(AbiDeviceDefaultMemoryArgs* args) {
  AOT_ENTER_WITH(Device, DefaultMemory, device, memory);
  if (args->device->local < 0) {
    return ShardyError(kAbiFailedPrecondition,
                       "PJRT_Device_DefaultMemory: device %d is not "
                       "addressable from this host",
                       (int)args->device->facts.id);
  }
  args->memory = args->device->memory_list[kAotDeviceMemory];
  return NULL;
}

// Nothing is in use. All else but a limit is not known.
static _Atomic int64_t memory_limit = 0;

SHARDY_EXPORT void PjrtAot_SetMemoryLimit(int64_t bytes) {
  atomic_store(&memory_limit, bytes);
}

PJRT_Error* AotDeviceMemoryStats(AbiDeviceMemoryStatsArgs* args) {
  AOT_ENTER_WITH(Device, MemoryStats, device, bytes_in_use);
  const size_t size = args->struct_size;
  const size_t first = offsetof(AbiDeviceMemoryStatsArgs, bytes_in_use);
  memset((char*)args + first, 0, size - first);
  args->bytes_in_use =
      atomic_load(&args->device->memories[kAotDeviceMemory].held);
  const int64_t limit = atomic_load(&memory_limit);
  if (limit > 0 &&
      ABI_HOLDS(AbiDeviceMemoryStatsArgs, bytes_limit_is_set, size)) {
    args->bytes_limit = limit;
    args->bytes_limit_is_set = true;
  }
  return NULL;
}

AOT_ANSWER(Memory, Id, memory, id, args->id = args->memory->id)

AOT_ANSWER(Memory, Kind, memory, kind_size,
           args->kind = AotMemoryKindName(args->memory->kind),
           args->kind_size = strlen(args->kind))

AOT_ANSWER(Memory, Kind_Id, memory, kind_id, args->kind_id = args->memory->kind)

AOT_ANSWER(Memory, DebugString, memory, debug_string_size,
           args->debug_string = args->memory->text,
           args->debug_string_size = strlen(args->debug_string))

AOT_ANSWER(Memory, ToString, memory, to_string_size,
           args->to_string = args->memory->text,
           args->to_string_size = strlen(args->to_string))

AOT_ANSWER(Memory, AddressableByDevices, memory, num_devices,
           args->devices = &args->memory->device, args->num_devices = 1)
