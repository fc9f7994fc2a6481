// The topology that stands in for hardware, and its devices.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

const char* AotMemoryKindName(int kind) {
  static const char* const names[kAotMemories] = {"device", "pinned_host"};
  return names[kind];
}

// Frees what is not in use, and nothing of the inner plugin's but the topology.
static void FreeWorld(AotWorld* world) {
  if (world == NULL) return;
  if (world->topology != NULL) {
    AbiTopologyDescriptionDestroyArgs destroy = {.topology = world->topology};
    ShardyFreeError(AOT_INNER(TopologyDescriptionDestroy, &destroy));
  }
  free(world->topology_name);
  free(world->devices);
  free(world);
}

static PJRT_Error* NoMemory(void) {
  return ShardyError(kAbiResourceExhausted, "out of memory");
}

static PJRT_Error* CreateTopology(const PjrtAot_Options* options,
                                  AotWorld* world) {
  AbiTopologyDescriptionCreateArgs create = {
      .topology_name = options->topology,
      .topology_name_size = strlen(options->topology),
      .create_options = options->topology_options,
      .num_options = options->num_topology_options};
  PJRT_Error* error = AOT_INNER(TopologyDescriptionCreate, &create);
  if (error != NULL) return error;
  world->topology = create.topology;
  AbiTopologyDescriptionPlatformNameArgs name = {.topology = world->topology};
  error = AOT_INNER(TopologyDescriptionPlatformName, &name);
  if (error != NULL) return error;
  world->platform = name.platform_name;
  world->platform_size = name.platform_name_size;
  AbiTopologyDescriptionPlatformVersionArgs version = {.topology =
                                                           world->topology};
  error = AOT_INNER(TopologyDescriptionPlatformVersion, &version);
  if (error != NULL) return error;
  world->version = version.platform_version;
  world->version_size = version.platform_version_size;
  return NULL;
}

static int64_t IntegerOr(const AbiNamedValue* value, int64_t absent) {
  return value != NULL && value->type == kAbiValueInt64 ? value->int64_value
                                                        : absent;
}

// What a device's attributes tell, as far as it has them.
static void ReadAttributes(PJRT_Device* device) {
  PjrtAot_Device* facts = &device->facts;
  facts->slice = -1;
  AbiDeviceDescriptionAttributesArgs args = {.device_description =
                                                 device->description};
  PJRT_Error* error = AOT_INNER(DeviceDescriptionAttributes, &args);
  if (error != NULL) {
    ShardyFreeError(error);
    return;
  }
  const size_t count = args.num_attributes;
  facts->slice =
      IntegerOr(ShardyFindValue(args.attributes, count, "slice_index"), -1);
  const AbiNamedValue* coordinates =
      ShardyFindValue(args.attributes, count, "coords");
  const size_t most = sizeof(facts->coordinates) / sizeof(int64_t);
  if (coordinates != NULL && coordinates->type == kAbiValueInt64List &&
      coordinates->value_size <= most) {
    facts->num_coordinates = coordinates->value_size;
    memcpy(facts->coordinates, coordinates->int64_array_value,
           facts->num_coordinates * sizeof(int64_t));
  }
}

static PJRT_Error* ReadDevice(PJRT_DeviceDescription* description,
                              PJRT_Device* device) {
  device->description = description;
  device->local = -1;
  AbiDeviceDescriptionIdArgs id = {.device_description = description};
  PJRT_Error* error = AOT_INNER(DeviceDescriptionId, &id);
  if (error != NULL) return error;
  AbiDeviceDescriptionProcessIndexArgs process = {.device_description =
                                                      description};
  error = AOT_INNER(DeviceDescriptionProcessIndex, &process);
  if (error != NULL) return error;
  AbiDeviceDescriptionKindArgs kind = {.device_description = description};
  error = AOT_INNER(DeviceDescriptionKind, &kind);
  if (error != NULL) return error;
  device->facts.id = id.id;
  device->facts.process = process.process_index;
  device->facts.kind = kind.device_kind;
  device->facts.kind_size = kind.device_kind_size;
  ReadAttributes(device);
  return NULL;
}

static int ById(const void* a, const void* b) {
  const int64_t left = ((const PJRT_Device*)a)->facts.id;
  const int64_t right = ((const PJRT_Device*)b)->facts.id;
  return (left > right) - (left < right);
}

// Makes a device addressable, as the next one is.
static void AddLocal(AotWorld* world, PJRT_Device* device) {
  device->facts.addressable = 1;
  device->local = (int)world->num_local;
  world->local[world->num_local++] = device;
  for (int kind = 0; kind < kAotMemories; ++kind) {
    PJRT_Memory* memory = &device->memories[kind];
    memory->id = (int)world->num_memories;
    memory->kind = kind;
    memory->device = device;
    snprintf(memory->text, sizeof(memory->text), "%s memory of device %d",
             AotMemoryKindName(kind), (int)device->facts.id);
    device->memory_list[kind] = memory;
    world->memories[world->num_memories++] = memory;
  }
}

static PJRT_Error* ReadDevices(const PjrtAot_Options* options,
                               AotWorld* world) {
  AbiTopologyDescriptionGetDeviceDescriptionsArgs get = {.topology =
                                                             world->topology};
  PJRT_Error* error = AOT_INNER(TopologyDescriptionGetDeviceDescriptions, &get);
  if (error != NULL) return error;
  const size_t count = world->num_devices = get.num_descriptions;
  // One pointer more, so that none is not taken for no memory.
  world->devices =
      calloc(1, count * sizeof(*world->devices) +
                    ((2 + kAotMemories) * count + 1) * sizeof(void*));
  if (world->devices == NULL) return NoMemory();
  world->all = (PJRT_Device**)(world->devices + count);
  world->local = world->all + count;
  world->memories = (PJRT_Memory**)(world->local + count);
  for (size_t i = 0; i < count; ++i) {
    error = ReadDevice(get.descriptions[i], &world->devices[i]);
    if (error != NULL) return error;
  }
  qsort(world->devices, count, sizeof(*world->devices), ById);
  int hosts = 0;
  for (size_t i = 0; i < count; ++i) {
    PJRT_Device* device = world->all[i] = &world->devices[i];
    if (device->facts.process >= hosts) hosts = device->facts.process + 1;
    if (device->facts.process == options->host) AddLocal(world, device);
  }
  if (world->num_local > 0) return NULL;
  return ShardyError(kAbiInvalidArgument,
                     "no device of the topology is of host %d; it has %zu "
                     "devices on hosts 0 to %d",
                     options->host, count, hosts - 1);
}

int AotMakeWorld(const PjrtAot_Options* options, AotWorld** world,
                 char* message, size_t message_size) {
  AotWorld* made = calloc(1, sizeof(*made));
  PJRT_Error* error = NULL;
  if (made != NULL) made->topology_name = strdup(options->topology);
  if (made == NULL || made->topology_name == NULL) error = NoMemory();
  if (error == NULL) error = CreateTopology(options, made);
  if (error == NULL) error = ReadDevices(options, made);
  if (error != NULL) {
    char about[128];
    snprintf(about, sizeof(about), "topology %s", options->topology);
    const int code = AotGiveReason(error, about, message, message_size);
    FreeWorld(made);
    return code;
  }
  made->one_process = options->one_process != 0;
  made->process = made->one_process ? 0 : options->host;
  made->refuse_reads = options->refuse_reads != 0;
  made->step_limit = options->step_limit;
  made->stop_signal = options->stop_signal;
  *world = made;
  return kAbiOk;
}
