// The table, clients, devices and memories.

#include "test/csrc/aot_driver.h"

static void Client(void) {
  PjrtAot_Options options = Options("fake:8");
  options.host = 1;
  World world = OpenWith(&options);
  AbiPluginInitializeArgs initialize = {0};
  CALL(world, PluginInitialize, &initialize);
  CHECK(Fake()->initialized == 1);
  AbiClientPlatformNameArgs name = {.client = world.client};
  CALL(world, ClientPlatformName, &name);
  CHECK(name.platform_name_size == 4);
  AbiClientPlatformVersionArgs version = {.client = world.client};
  CALL(world, ClientPlatformVersion, &version);
  CHECK(memcmp(version.platform_version, "fake 1", 6) == 0);
  AbiClientProcessIndexArgs process = {.client = world.client};
  CALL(world, ClientProcessIndex, &process);
  CHECK(process.process_index == 1);
  AbiClientDevicesArgs all = {.client = world.client};
  CALL(world, ClientDevices, &all);
  CHECK(all.num_devices == 8);
  AbiClientAddressableDevicesArgs local = {.client = world.client};
  CALL(world, ClientAddressableDevices, &local);
  CHECK(local.num_addressable_devices == 4);
  CHECK(local.addressable_devices[0] == all.devices[4]);
  AbiClientAddressableMemoriesArgs memories = {.client = world.client};
  CALL(world, ClientAddressableMemories, &memories);
  CHECK(memories.num_addressable_memories == 8);
  Close(world);
}

static void ClientErrors(void) {
  World world = Open("fake:8");
  AbiClientTopologyDescriptionArgs topology = {.client = world.client};
  CALL(world, ClientTopologyDescription, &topology);
  AbiTopologyDescriptionDestroyArgs destroy = {.topology = topology.topology};
  REFUSED(world, TopologyDescriptionDestroy, &destroy, kAbiInvalidArgument,
          "is the client's");
  destroy.topology = NULL;
  CALL(world, TopologyDescriptionDestroy, &destroy);
  AbiClientDestroyArgs nothing = {0};
  CALL(world, ClientDestroy, &nothing);
  Close(world);
}

// A topology beside the client's.
static void OtherTopology(void) {
  World world = Open("fake:8");
  AbiTopologyDescriptionCreateArgs create = {.topology_name = "fake:3",
                                             .topology_name_size = 6};
  CALL(world, TopologyDescriptionCreate, &create);
  AbiTopologyDescriptionGetDeviceDescriptionsArgs get = {.topology =
                                                             create.topology};
  CALL(world, TopologyDescriptionGetDeviceDescriptions, &get);
  CHECK(get.num_descriptions == 3);
  AbiTopologyDescriptionDestroyArgs destroy = {.topology = create.topology};
  CALL(world, TopologyDescriptionDestroy, &destroy);
  Close(world);
}

static void OneProcess(void) {
  PjrtAot_Options options = Options("fake:8");
  options.host = 1;
  options.one_process = 1;
  World world = OpenWith(&options);
  AbiClientProcessIndexArgs process = {.client = world.client};
  CALL(world, ClientProcessIndex, &process);
  CHECK(process.process_index == 0);
  AbiClientDevicesArgs all = {.client = world.client};
  CALL(world, ClientDevices, &all);
  for (size_t i = 0; i < all.num_devices; ++i) {
    AbiDeviceGetDescriptionArgs get = {.device = all.devices[i]};
    CALL(world, DeviceGetDescription, &get);
    AbiDeviceDescriptionProcessIndexArgs index = {
        .device_description = get.device_description, .process_index = 9};
    CALL(world, DeviceDescriptionProcessIndex, &index);
    CHECK(index.process_index == 0);
    AbiDeviceIsAddressableArgs addressable = {.device = all.devices[i]};
    CALL(world, DeviceIsAddressable, &addressable);
    CHECK(addressable.is_addressable == (i >= 4));
  }
  PjrtAot_Device device;
  CHECK(aot.device(7, &device) == 0);
  CHECK(device.process == 1 && device.addressable == 1);
  Close(world);
}

static void DeviceEntries(void) {
  World world = Open("fake:8");
  AbiClientDevicesArgs all = {.client = world.client};
  CALL(world, ClientDevices, &all);
  AbiDeviceGetDescriptionArgs get = {.device = all.devices[5]};
  CALL(world, DeviceGetDescription, &get);
  AbiDeviceDescriptionIdArgs id = {.device_description =
                                       get.device_description};
  CALL(world, DeviceDescriptionId, &id);
  CHECK(id.id == 5);
  AbiDeviceDescriptionProcessIndexArgs process = {.device_description =
                                                      get.device_description};
  CALL(world, DeviceDescriptionProcessIndex, &process);
  CHECK(process.process_index == 1);
  AbiDeviceLocalHardwareIdArgs hardware = {.device = all.devices[3]};
  CALL(world, DeviceLocalHardwareId, &hardware);
  CHECK(hardware.local_hardware_id == 3);
  hardware.device = all.devices[5];
  CALL(world, DeviceLocalHardwareId, &hardware);
  CHECK(hardware.local_hardware_id == -1);
  AbiDeviceDefaultMemoryArgs memory = {.device = all.devices[5]};
  REFUSED(world, DeviceDefaultMemory, &memory, kAbiFailedPrecondition,
          "device 5 is not addressable");
  AbiDeviceAddressableMemoriesArgs memories = {.device = all.devices[5]};
  CALL(world, DeviceAddressableMemories, &memories);
  CHECK(memories.num_memories == 0);
  Close(world);
}

static void MemoryEntries(void) {
  World world = Open("fake:8");
  PJRT_Device* device = Local(world, 1);
  AbiDeviceAddressableMemoriesArgs memories = {.device = device};
  CALL(world, DeviceAddressableMemories, &memories);
  CHECK(memories.num_memories == 2);
  AbiDeviceDefaultMemoryArgs own = {.device = device};
  CALL(world, DeviceDefaultMemory, &own);
  CHECK(own.memory == memories.memories[0]);
  static const char* const kinds[] = {"device", "pinned_host"};
  for (int i = 0; i < 2; ++i) {
    PJRT_Memory* memory = memories.memories[i];
    AbiMemoryKindArgs kind = {.memory = memory};
    CALL(world, MemoryKind, &kind);
    CHECK(kind.kind_size == strlen(kinds[i]));
    CHECK(memcmp(kind.kind, kinds[i], kind.kind_size) == 0);
    AbiMemoryKind_IdArgs kind_id = {.memory = memory};
    CALL(world, MemoryKind_Id, &kind_id);
    CHECK(kind_id.kind_id == i);
    AbiMemoryIdArgs id = {.memory = memory};
    CALL(world, MemoryId, &id);
    CHECK(id.id == 2 + i);
    AbiMemoryToStringArgs text = {.memory = memory};
    CALL(world, MemoryToString, &text);
    CHECK_HAS(text.to_string, kinds[i]);
    CHECK_HAS(text.to_string, "device 1");
    AbiMemoryDebugStringArgs debug = {.memory = memory};
    CALL(world, MemoryDebugString, &debug);
    CHECK(debug.debug_string_size == text.to_string_size);
    AbiMemoryAddressableByDevicesArgs by = {.memory = memory};
    CALL(world, MemoryAddressableByDevices, &by);
    CHECK(by.num_devices == 1 && by.devices[0] == device);
  }
  Close(world);
}

static void MemoryLimit(void) {
  const char* text = getenv("LIMIT");
  const int64_t limit = atoll(text != NULL ? text : "0");
  World world = Open("fake:8");
  aot.set_memory_limit(limit);
  AbiDeviceMemoryStatsArgs stats;
  memset(&stats, 0x55, sizeof(stats));
  stats.device = Local(world, 0);
  CALL(world, DeviceMemoryStats, &stats);
  CHECK(stats.bytes_in_use == 0 && !stats.peak_bytes_in_use_is_set);
  CHECK(stats.bytes_limit_is_set == (limit > 0));
  CHECK(stats.bytes_limit == limit);
  // A caller that knows the first field only.
  memset(&stats, 0x55, sizeof(stats));
  stats.device = Local(world, 0);
  stats.struct_size = ABI_SIZE(AbiDeviceMemoryStatsArgs, bytes_in_use);
  CHECK(Call(world.api, kSlotDeviceMemoryStats, &stats) == NULL);
  CHECK(stats.bytes_in_use == 0 && stats.peak_bytes_in_use != 0);
  Close(world);
}

static const char* const names[] = {
#define ABI_FUNCTION(by, part, name, ...) "PJRT_" #part "_" #name,
#define ABI_BARE(by, name, ...) "PJRT_" #name,
#include "torch_xla/shardy/pjrt_abi.inc"
};

typedef struct {
  size_t struct_size;
  void* extension_start;
  char rest[512];
} Nothing;

// With no object, and with too small a struct, every entry has words for it:
// none is left out, and none looks where nothing is.
static void Misuse(void) {
  World world = Open("fake:8");
  for (int slot = 3; slot < kAbiSlots; ++slot) {
    if (slot == kSlotErrorForEachPayload) continue;
    Nothing args = {.struct_size = 16};
    PJRT_Error* error = Call(world.api, slot, &args);
    if (slot == kSlotPluginInitialize) {
      CHECK(error == NULL);
      continue;
    }
    CHECK(error != NULL);
    AbiErrorGetCodeArgs code = {sizeof(code), NULL, error, 0};
    CHECK(Call(world.api, kSlotErrorGetCode, &code) == NULL);
    CHECK(code.code == kAbiUnimplemented || code.code == kAbiInvalidArgument);
    ExpectError(world.api, error, code.code, names[slot]);
  }
  static const int objects[] = {
      kSlotClientDevices,        kSlotClientCompile,
      kSlotDeviceMemoryStats,    kSlotMemoryKind,
      kSlotEventOnReady,         kSlotExecutableName,
      kSlotBufferToHostBuffer,   kSlotLoadedExecutableExecute,
      kSlotBufferGetMemoryLayout};
  for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); ++i) {
    Nothing args = {.struct_size = sizeof(args)};
    ExpectError(world.api, Call(world.api, objects[i], &args),
                kAbiInvalidArgument, "its object is NULL");
  }
  static const int missing[] = {kSlotClientDmaMap, kSlotCompile,
                                kSlotCopyToDeviceStreamDestroy,
                                kSlotDeviceClearMemoryStats};
  for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); ++i) {
    Nothing args = {.struct_size = sizeof(args)};
    ExpectError(world.api, Call(world.api, missing[i], &args),
                kAbiUnimplemented, names[missing[i]]);
  }
  Close(world);
}

// An entry that the plugin below lacks, or that refuses, says so itself.
static void Forwarded(void) {
  World world = Open("fake:8");
  AbiPluginAttributesArgs attributes = {0};
  CALL(world, PluginAttributes, &attributes);
  CHECK(attributes.num_attributes == 1);
  AbiDeviceGetDescriptionArgs get = {.device = Local(world, 0)};
  CALL(world, DeviceGetDescription, &get);
  Nothing args = {.struct_size = sizeof(args)};
  memcpy(args.rest, &get.device_description, sizeof(void*));
  ExpectError(world.api, Call(world.api, kSlotDeviceDescriptionToString, &args),
              kAbiUnimplemented, "has no PJRT_DeviceDescription_ToString");
  Fake()->fail_at = Fake()->calls + 1;
  Fake()->fail_code = kAbiNotFound;
  REFUSED(world, PluginAttributes, &attributes, kAbiNotFound, "fake: call");
  Close(world);
}

// Clients ask for the payloads of every error, ours and the inner plugin's.
static void Payloads(void) {
  World world = Open("fake:8");
  for (int i = 0; i < 2; ++i) {
    Fake()->fail_at = i == 0 ? 0 : Fake()->calls + 1;
    AbiPluginAttributesArgs args = {.struct_size = i == 0 ? 16 : sizeof(args)};
    PJRT_Error* error = Call(world.api, kSlotPluginAttributes, &args);
    CHECK(error != NULL);
    AbiErrorForEachPayloadArgs each = {sizeof(each), NULL, error};
    CHECK(Call(world.api, kSlotErrorForEachPayload, &each) == NULL);
    ExpectError(world.api, error, i == 0 ? kAbiInvalidArgument : kAbiInternal,
                i == 0 ? "16 bytes" : "fake: call");
  }
  Close(world);
}

// Structs beyond all that any version has are handed on as they are.
static void ForwardedLarge(void) {
  World world = Open("fake:8");
  AbiPluginAttributesArgs* args = calloc(1, 4096);
  CHECK(args != NULL);
  args->struct_size = 4096;
  CHECK(Call(world.api, kSlotPluginAttributes, args) == NULL);
  CHECK(args->struct_size == 4096 && args->num_attributes == 1);
  free(args);
  Close(world);
}

const Scenario aot_client_scenarios[] = {{"client", Client},
                                         {"client_errors", ClientErrors},
                                         {"other_topology", OtherTopology},
                                         {"one_process", OneProcess},
                                         {"device_entries", DeviceEntries},
                                         {"memory_entries", MemoryEntries},
                                         {"memory_limit", MemoryLimit},
                                         {"misuse", Misuse},
                                         {"forwarded", Forwarded},
                                         {"payloads", Payloads},
                                         {"forwarded_large", ForwardedLarge},
                                         {NULL, NULL}};
