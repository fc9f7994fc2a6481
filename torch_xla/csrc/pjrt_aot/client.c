// PJRT_Plugin_Initialize and PJRT_Client_*, but for compiling and buffers.

#include <stdlib.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

// PjrtAot_Open did it.
PJRT_Error* AotPluginInitialize(AbiPluginInitializeArgs* args) {
  AOT_ENTER(Plugin, Initialize, extension_start);
  return NULL;
}

PJRT_Error* AotClientCreate(AbiClientCreateArgs* args) {
  AOT_ENTER(Client, Create, client);
  PJRT_Client* client = malloc(sizeof(*client));
  if (client == NULL) return ShardyNoMemory(kSlotClientCreate);
  client->world = AotGetWorld();
  args->client = client;
  return NULL;
}

PJRT_Error* AotClientDestroy(AbiClientDestroyArgs* args) {
  AOT_ENTER(Client, Destroy, client);
  free(args->client);
  return NULL;
}

AOT_ANSWER(Client, PlatformName, client, platform_name_size,
           args->platform_name = args->client->world->platform,
           args->platform_name_size = args->client->world->platform_size)

AOT_ANSWER(Client, PlatformVersion, client, platform_version_size,
           args->platform_version = args->client->world->version,
           args->platform_version_size = args->client->world->version_size)

AOT_ANSWER(Client, ProcessIndex, client, process_index,
           args->process_index = args->client->world->process)

AOT_ANSWER(Client, TopologyDescription, client, topology,
           args->topology = args->client->world->topology)

AOT_ANSWER(Client, Devices, client, num_devices,
           args->devices = args->client->world->all,
           args->num_devices = args->client->world->num_devices)

AOT_ANSWER(Client, AddressableDevices, client, num_addressable_devices,
           args->addressable_devices = args->client->world->local,
           args->num_addressable_devices = args->client->world->num_local)

AOT_ANSWER(Client, AddressableMemories, client, num_addressable_memories,
           args->addressable_memories = args->client->world->memories,
           args->num_addressable_memories = args->client->world->num_memories)

PJRT_Error* AotClientLookupDevice(AbiClientLookupDeviceArgs* args) {
  AOT_ENTER_WITH(Client, LookupDevice, client, device);
  args->device = AotFindDevice(args->client->world, args->id);
  if (args->device != NULL) return NULL;
  return ShardyError(kAbiNotFound,
                     "PJRT_Client_LookupDevice: topology %s has no device %d",
                     args->client->world->topology_name, args->id);
}

PJRT_Error* AotClientLookupAddressableDevice(
    AbiClientLookupAddressableDeviceArgs* args) {
  AOT_ENTER_WITH(Client, LookupAddressableDevice, client, addressable_device);
  const AotWorld* world = args->client->world;
  if (args->local_hardware_id < 0 ||
      (size_t)args->local_hardware_id >= world->num_local) {
    return ShardyError(
        kAbiNotFound,
        "PJRT_Client_LookupAddressableDevice: no device %d among "
        "the %zu of this host",
        args->local_hardware_id, world->num_local);
  }
  args->addressable_device = world->local[args->local_hardware_id];
  return NULL;
}

// The first devices by id, all partitions of a replica together.
PJRT_Error* AotClientDefaultDeviceAssignment(
    AbiClientDefaultDeviceAssignmentArgs* args) {
  AOT_ENTER_WITH(Client, DefaultDeviceAssignment, client, default_assignment);
  const AotWorld* world = args->client->world;
  const int64_t wanted = (int64_t)args->num_replicas * args->num_partitions;
  if (args->num_replicas < 1 || args->num_partitions < 1 ||
      (uint64_t)wanted > world->num_devices ||
      (uint64_t)wanted > args->default_assignment_size ||
      args->default_assignment == NULL) {
    return ShardyError(kAbiInvalidArgument,
                       "PJRT_Client_DefaultDeviceAssignment: cannot give %d "
                       "replicas of %d partitions a device each in a list of "
                       "%zu; topology %s has %zu devices",
                       args->num_replicas, args->num_partitions,
                       args->default_assignment_size, world->topology_name,
                       world->num_devices);
  }
  for (int64_t i = 0; i < wanted; ++i) {
    args->default_assignment[i] = (int)world->all[i]->facts.id;
  }
  return NULL;
}
