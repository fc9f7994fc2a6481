#include "test/csrc/aot_fake_plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/plugin_core.h"

#define EXPORT __attribute__((visibility("default")))

const AbiApi* GetPjrtApi(void);

enum { kDeviceMagic = 0xe44, kTopologyMagic, kExecutableMagic };
enum { kAttributes = 3, kCosts = 2 };

struct PJRT_DeviceDescription {
  int magic;
  int id;
  int process;
  int64_t coordinates[3];
  AbiNamedValue attributes[kAttributes];
};

struct PJRT_TopologyDescription {
  int magic;
  size_t num_devices;
  PJRT_DeviceDescription* devices;
  PJRT_DeviceDescription** list;
};

struct PJRT_Executable {
  int magic;
  FakeProgram program;
  size_t kind_sizes[kFakeMostOutputs];
  AbiNamedValue costs[kCosts];
};

static FakeAot state = {.smallest = 200};
static _Atomic int live_executables;
static _Atomic int calls;

EXPORT FakeAot* FakeAot_State(void) {
  state.live_errors = LiveErrors();
  state.live_executables = live_executables;
  state.calls = calls;
  return &state;
}

static void CheckMagic(int magic, int wanted) {
  if (magic == wanted) return;
  fprintf(stderr, "fake plugin: an object is not mine\n");
  abort();
}

// Every entry that returns an error begins with this.
static PJRT_Error* Begin(int slot, size_t struct_size) {
  const int call = ++calls;
  if (slot == state.missing_slot) {
    return Refuse(kAbiUnimplemented, "fake: no such function");
  }
  if (call == state.fail_at) {
    return Refuse(state.fail_code != 0 ? state.fail_code : kAbiInternal,
                  "fake: call %d of entry %d fails", call, slot);
  }
  if (struct_size < state.smallest) {
    return Refuse(kAbiInvalidArgument, "fake: %zu bytes for entry %d",
                  struct_size, slot);
  }
  return NULL;
}

// What is left out is NULL, as in plugins that leave it out.
static struct {
  size_t struct_size;
  void* extension_start;
  AbiVersion version;
  AbiFunction slots[kAbiSlots];
} table;

// An entry: a function that is called as its slot is, if it is to go well.
#define ENTRY(slot)                                            \
  static PJRT_Error* Do##slot(Abi##slot##Args* args);          \
  static PJRT_Error* slot(Abi##slot##Args* args) {             \
    PJRT_Error* error = Begin(kSlot##slot, args->struct_size); \
    return error != NULL ? error : Do##slot(args);             \
  }                                                            \
  __attribute__((constructor)) static void Set##slot(void) {   \
    table.slots[kSlot##slot] = (AbiFunction)slot;              \
  }                                                            \
  static PJRT_Error* Do##slot(Abi##slot##Args* args)

// An entry that only writes its answers, of an object with this magic.
#define ANSWER(slot, object, wanted, ...)    \
  ENTRY(slot) {                              \
    CheckMagic(args->object->magic, wanted); \
    __VA_ARGS__;                             \
    return NULL;                             \
  }

ENTRY(PluginInitialize) {
  (void)args;
  ++state.initialized;
  return NULL;
}

ENTRY(PluginAttributes) {
  static const AbiNamedValue attribute = {.struct_size = sizeof(attribute),
                                          .name = "number",
                                          .name_size = 6,
                                          .type = kAbiValueInt64,
                                          .int64_value = 42,
                                          .value_size = 1};
  args->attributes = &attribute;
  args->num_attributes = 1;
  return NULL;
}

static void NameValue(AbiNamedValue* value, const char* name, int type) {
  value->struct_size = sizeof(*value);
  value->name = name;
  value->name_size = strlen(name);
  value->type = type;
  value->value_size = 1;
}

static void FillDevice(PJRT_DeviceDescription* device, int position,
                       int per_slice) {
  const int slice = position / per_slice;
  const int in_slice = position % per_slice;
  device->magic = kDeviceMagic;
  device->id = slice * kFakeSlice + in_slice;
  device->process = position / kFakePerHost;
  device->coordinates[0] = in_slice % kFakePerHost;
  device->coordinates[1] = in_slice / kFakePerHost;
  NameValue(&device->attributes[0], "coords", kAbiValueInt64List);
  device->attributes[0].int64_array_value = device->coordinates;
  device->attributes[0].value_size = 3;
  NameValue(&device->attributes[1], "core_on_chip", kAbiValueInt64);
  NameValue(&device->attributes[2], "slice_index", kAbiValueInt64);
  device->attributes[2].int64_value = slice;
}

ENTRY(TopologyDescriptionCreate) {
  char name[64];
  snprintf(name, sizeof(name), "%.*s", (int)args->topology_name_size,
           args->topology_name);
  int devices = -1;
  if (sscanf(name, "fake:%d", &devices) != 1 || devices < 0) {
    return Refuse(kAbiInvalidArgument, "fake: no topology is named '%s'", name);
  }
  // The only option.
  const int slices =
      args->num_options > 0 ? (int)args->create_options[0].int64_value : 1;
  const size_t count = (size_t)(devices * slices);
  PJRT_TopologyDescription* topology = malloc(sizeof(*topology));
  if (topology == NULL) abort();
  topology->magic = kTopologyMagic;
  topology->num_devices = count;
  topology->devices = calloc(count + 1, sizeof(*topology->devices));
  topology->list = calloc(count + 1, sizeof(*topology->list));
  if (topology->devices == NULL || topology->list == NULL) abort();
  for (size_t i = 0; i < count; ++i) {
    FillDevice(&topology->devices[i], (int)i, devices);
    topology->list[count - 1 - i] = &topology->devices[i];
  }
  ++state.live_topologies;
  args->topology = topology;
  return NULL;
}

ENTRY(TopologyDescriptionDestroy) {
  CheckMagic(args->topology->magic, kTopologyMagic);
  free(args->topology->devices);
  free(args->topology->list);
  free(args->topology);
  --state.live_topologies;
  return NULL;
}

ANSWER(TopologyDescriptionPlatformName, topology, kTopologyMagic,
       args->platform_name = "fakes", args->platform_name_size = 4)

ANSWER(TopologyDescriptionPlatformVersion, topology, kTopologyMagic,
       args->platform_version = "fake 1", args->platform_version_size = 6)

ANSWER(TopologyDescriptionGetDeviceDescriptions, topology, kTopologyMagic,
       args->descriptions = args->topology->list,
       args->num_descriptions = args->topology->num_devices)

ANSWER(DeviceDescriptionId, device_description, kDeviceMagic,
       args->id = args->device_description->id)

ANSWER(DeviceDescriptionProcessIndex, device_description, kDeviceMagic,
       args->process_index = args->device_description->process)

ANSWER(DeviceDescriptionKind, device_description, kDeviceMagic,
       args->device_kind = "Fake v1", args->device_kind_size = 7)

ANSWER(DeviceDescriptionAttributes, device_description, kDeviceMagic,
       args->attributes = args->device_description->attributes,
       args->num_attributes = kAttributes)

// Writes down what was asked for, by several threads at once.
static void Note(const AbiCompileArgs* args) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  state.compile_options_size = args->compile_options_size;
  if (args->compile_options_size > 0 &&
      args->compile_options_size <= sizeof(state.compile_options)) {
    memcpy(state.compile_options, args->compile_options,
           args->compile_options_size);
  }
  pthread_mutex_unlock(&mutex);
}

ENTRY(Compile) {
  CheckMagic(args->topology->magic, kTopologyMagic);
  Note(args);
  if (args->program->code_size != sizeof(FakeProgram)) {
    return Refuse(kAbiInvalidArgument, "fake: %zu bytes are no program",
                  args->program->code_size);
  }
  PJRT_Executable* executable = calloc(1, sizeof(*executable));
  if (executable == NULL) abort();
  executable->magic = kExecutableMagic;
  memcpy(&executable->program, args->program->code, sizeof(FakeProgram));
  NameValue(&executable->costs[0], "flops", kAbiValueFloat);
  executable->costs[0].float_value = 12.5f;
  NameValue(&executable->costs[1], "bytes accessed", kAbiValueInt64);
  executable->costs[1].int64_value = 77;
  ++live_executables;
  args->executable = executable;
  return NULL;
}

ENTRY(ExecutableDestroy) {
  CheckMagic(args->executable->magic, kExecutableMagic);
  --live_executables;
  free(args->executable);
  return NULL;
}

static FakeProgram* ProgramOf(PJRT_Executable* executable) {
  CheckMagic(executable->magic, kExecutableMagic);
  return &executable->program;
}

// The number of outputs that an entry tells.
static size_t Outputs(int slot, const FakeProgram* program) {
  return program->num_outputs + (slot == state.odd_slot);
}

ENTRY(ExecutableNumOutputs) {
  args->num_outputs =
      Outputs(kSlotExecutableNumOutputs, ProgramOf(args->executable));
  return NULL;
}

ENTRY(ExecutableOutputElementTypes) {
  FakeProgram* program = ProgramOf(args->executable);
  args->output_types = program->types;
  args->num_output_types = Outputs(kSlotExecutableOutputElementTypes, program);
  return NULL;
}

ENTRY(ExecutableOutputDimensions) {
  FakeProgram* program = ProgramOf(args->executable);
  args->dims = program->dims;
  args->dim_sizes = program->num_dims;
  args->num_outputs = Outputs(kSlotExecutableOutputDimensions, program);
  return NULL;
}

ENTRY(ExecutableOutputMemoryKinds) {
  FakeProgram* program = ProgramOf(args->executable);
  for (size_t i = 0; i < program->num_outputs; ++i) {
    if (program->memory_kinds[i] == NULL) program->memory_kinds[i] = "device";
    args->executable->kind_sizes[i] = strlen(program->memory_kinds[i]);
  }
  args->memory_kinds = program->memory_kinds;
  args->memory_kind_sizes = args->executable->kind_sizes;
  args->num_outputs = Outputs(kSlotExecutableOutputMemoryKinds, program);
  return NULL;
}

ENTRY(ExecutableOptimizedProgram) {
  FakeProgram* program = ProgramOf(args->executable);
  AbiProgram* to = args->program;
  to->format = program->optimized_format;
  to->format_size = strlen(program->optimized_format);
  to->code_size = program->optimized_size;
  if (to->code != NULL) {
    memcpy(to->code, program->optimized, program->optimized_size);
  }
  return NULL;
}

ENTRY(ExecutableGetCompiledMemoryStats) {
  ProgramOf(args->executable);
  int64_t* next = &args->generated_code_size_in_bytes;
  for (int i = 0; i < 11; ++i) *next++ = kFakeArgumentBytes + i;
  return NULL;
}

ANSWER(ExecutableGetCostAnalysis, executable, kExecutableMagic,
       args->properties = args->executable->costs,
       args->num_properties = kCosts)

ANSWER(ExecutableFingerprint, executable, kExecutableMagic,
       args->executable_fingerprint = "finger",
       args->executable_fingerprint_size = 6)

EXPORT const AbiApi* GetPjrtApi(void) {
  table.struct_size = sizeof(table);
  table.version = (AbiVersion){sizeof(table.version), NULL, kAbiMajor, 112};
  SetErrorFunctions((AbiApi*)&table);
  return (const AbiApi*)&table;
}
