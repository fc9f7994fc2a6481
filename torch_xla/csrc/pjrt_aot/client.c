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
