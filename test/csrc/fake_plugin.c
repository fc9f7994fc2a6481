#include "test/csrc/fake_plugin.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/plugin_core.h"

#define EXPORT __attribute__((visibility("default")))

const AbiApi* GetPjrtApi(void);

enum { kMagic = 0x0fa4e, kSlots = 140 };

typedef struct {
  const FakeLoadedExecutable* loaded;
  char* format;
} FakeExecutable;

struct PJRT_SerializedExecutable {
  int magic;
  char* bytes;
};

static FakeRecord record;
static atomic_int live_loaded_executables;
static atomic_int live_executables;
static atomic_int live_serialized;
static atomic_int optimized_calls;
static const void* _Atomic optimized_args;
static int minor_version = 81;

EXPORT const FakeRecord* FakePlugin_Record(void) {
  record.live_errors = LiveErrors();
  record.live_loaded_executables = live_loaded_executables;
  record.live_executables = live_executables;
  record.live_serialized = live_serialized;
  record.optimized_calls = optimized_calls;
  record.optimized_args = optimized_args;
  return &record;
}

#define MakeError(...) (record.error = Refuse(__VA_ARGS__))

static PJRT_Error* CheckSize(const char* name, size_t size, size_t expected) {
  if (size >= expected) return NULL;
  return MakeError(kAbiInvalidArgument, "fake: %s has %zu bytes, expected %zu",
                   name, size, expected);
}

#define CHECK_SIZE(kind, value)                                    \
  do {                                                             \
    PJRT_Error* size_error =                                       \
        CheckSize(#kind, (value)->struct_size, sizeof(Abi##kind)); \
    if (size_error != NULL) return size_error;                     \
  } while (0)

static PJRT_Error* Payloads(AbiErrorForEachPayloadArgs* args) {
  ErrorForEachPayload(args);  // It has to be ours.
  return MakeError(kAbiInternal, "fake: payloads were asked for");
}

static bool Begins(const char* bytes, size_t size, const char* word) {
  return size >= strlen(word) && memcmp(bytes, word, strlen(word)) == 0;
}

// The last byte of a struct that is longer than known is an output.
static void WriteTail(void* args, size_t size, size_t known) {
  if (size > known) ((char*)args)[size - 1] = kFakeTailOutput;
}

static PJRT_LoadedExecutable* MakeLoaded(const char* program,
                                         size_t program_size,
                                         const char* options,
                                         size_t options_size) {
  FakeLoadedExecutable* loaded = Allocate(sizeof(*loaded));
  loaded->program = Duplicate(program, program_size);
  loaded->program_size = program_size;
  loaded->options = Duplicate(options, options_size);
  loaded->options_size = options_size;
  ++live_loaded_executables;
  return (PJRT_LoadedExecutable*)loaded;
}

static PJRT_Error* ClientCompile(AbiClientCompileArgs* args) {
  record.compile_args = args;
  CHECK_SIZE(ClientCompileArgs, args);
  const AbiProgram* program = args->program;
  CHECK_SIZE(Program, program);
  // All that the sizes promise must be there.
  unsigned sum = 0;
  for (size_t i = 0; i < program->struct_size; ++i) {
    sum += ((const unsigned char*)program)[i];
  }
  if (sum == 0) abort();
  char format[sizeof(record.compile_format)];
  snprintf(format, sizeof(format), "%.*s", (int)program->format_size,
           program->format);
  memcpy(record.compile_format, format, sizeof(format));
  if (strcmp(format, "hlo") != 0 && strcmp(format, "mlir") != 0) {
    return MakeError(kAbiInvalidArgument, "fake: unknown format %s", format);
  }
  if (Begins(program->code, program->code_size, "bad")) {
    return MakeError(kAbiUnimplemented, "fake: cannot compile %.*s",
                     (int)program->code_size, program->code);
  }
  args->executable =
      MakeLoaded(program->code, program->code_size, args->compile_options,
                 args->compile_options_size);
  WriteTail(args, args->struct_size, sizeof(AbiClientCompileArgs));
  return NULL;
}

static PJRT_Error* LoadedExecutableDestroy(
    AbiLoadedExecutableDestroyArgs* args) {
  CHECK_SIZE(LoadedExecutableDestroyArgs, args);
  FakeLoadedExecutable* loaded = (FakeLoadedExecutable*)args->executable;
  free(loaded->program);
  free(loaded->options);
  free(loaded);
  --live_loaded_executables;
  return NULL;
}

static PJRT_Error* LoadedExecutableIsDeleted(
    AbiLoadedExecutableIsDeletedArgs* args) {
  PJRT_Error* error =
      CheckSize("LoadedExecutableIsDeletedArgs", args->struct_size,
                ABI_SIZE(AbiLoadedExecutableIsDeletedArgs, is_deleted));
  if (error != NULL) return error;
  const FakeLoadedExecutable* loaded =
      (const FakeLoadedExecutable*)args->executable;
  if (Begins(loaded->program, loaded->program_size, "mute")) {
    return MakeError(kAbiInternal, "fake: I cannot say");
  }
  args->is_deleted = Begins(loaded->program, loaded->program_size, "deleted");
  return NULL;
}

static PJRT_Error* ClientDestroy(AbiClientDestroyArgs* args) {
  record.alive_at_client_destroy = live_loaded_executables;
  return CheckSize("ClientDestroyArgs", args->struct_size,
                   sizeof(AbiClientDestroyArgs));
}

static PJRT_Error* GetExecutable(AbiLoadedExecutableGetExecutableArgs* args) {
  CHECK_SIZE(LoadedExecutableGetExecutableArgs, args);
  const FakeLoadedExecutable* loaded =
      (const FakeLoadedExecutable*)args->loaded_executable;
  if (Begins(loaded->program, loaded->program_size, "closed")) {
    return MakeError(kAbiInternal, "fake: no executable");
  }
  FakeExecutable* executable = Allocate(sizeof(*executable));
  executable->loaded = loaded;
  executable->format = Duplicate("fake_optimized", 14);
  ++live_executables;
  args->executable = (PJRT_Executable*)executable;
  return NULL;
}

static PJRT_Error* ExecutableDestroy(AbiExecutableDestroyArgs* args) {
  CHECK_SIZE(ExecutableDestroyArgs, args);
  FakeExecutable* executable = (FakeExecutable*)args->executable;
  free(executable->format);
  free(executable);
  --live_executables;
  return NULL;
}

static PJRT_Error* OptimizedProgram(AbiExecutableOptimizedProgramArgs* args) {
  optimized_args = args;
  ++optimized_calls;
  CHECK_SIZE(ExecutableOptimizedProgramArgs, args);
  AbiProgram* program = args->program;
  CHECK_SIZE(Program, program);
  WriteTail(args, args->struct_size, sizeof(AbiExecutableOptimizedProgramArgs));
  WriteTail(program, program->struct_size, sizeof(AbiProgram));
  const FakeExecutable* executable = (const FakeExecutable*)args->executable;
  const FakeLoadedExecutable* loaded = executable->loaded;
  if (Begins(loaded->program, loaded->program_size, "opaque")) {
    return MakeError(kAbiUnimplemented, "fake: no optimized program");
  }
  // The format lives only as long as this executable.
  program->format = executable->format;
  program->format_size = 14;
  const size_t size = loaded->program_size + 5;
  if (program->code == NULL) {
    program->code_size = size;
    return NULL;
  }
  PJRT_Error* error = CheckSize("code", program->code_size, size);
  if (error != NULL) return error;
  if (Begins(loaded->program, loaded->program_size, "shy")) {
    return MakeError(kAbiInternal, "fake: only the size");
  }
  if (Begins(loaded->program, loaded->program_size, "growing")) {
    program->code_size = size + 1;
  }
  memcpy(program->code, "fast:", 5);
  memcpy(program->code + 5, loaded->program, loaded->program_size);
  return NULL;
}

static void DeleteSerialized(PJRT_SerializedExecutable* serialized) {
  if (serialized->magic != kMagic) {
    fprintf(stderr, "fake plugin: this is nothing that I serialized\n");
    abort();
  }
  free(serialized->bytes);
  free(serialized);
  --live_serialized;
  ++record.deleted_serialized;
}

static PJRT_Error* Serialize(AbiExecutableSerializeArgs* args) {
  CHECK_SIZE(ExecutableSerializeArgs, args);
  const FakeLoadedExecutable* loaded =
      ((const FakeExecutable*)args->executable)->loaded;
  if (Begins(loaded->program, loaded->program_size, "unsaved")) {
    return MakeError(kAbiUnimplemented, "fake: cannot serialize");
  }
  if (Begins(loaded->program, loaded->program_size, "hollow")) return NULL;
  PJRT_SerializedExecutable* serialized = malloc(sizeof(*serialized));
  // Exactly as long as told.
  const size_t size = loaded->program_size + loaded->options_size + 7;
  char* bytes = malloc(size);
  if (serialized == NULL || bytes == NULL) abort();
  serialized->magic = kMagic;
  serialized->bytes = bytes;
  memcpy(bytes, "saved:", 6);
  memcpy(bytes + 6, loaded->program, loaded->program_size);
  bytes[6 + loaded->program_size] = ';';
  memcpy(bytes + 7 + loaded->program_size, loaded->options,
         loaded->options_size);
  ++live_serialized;
  args->serialized_bytes = bytes;
  args->serialized_bytes_size = size;
  args->serialized_executable = serialized;
  args->serialized_executable_deleter = DeleteSerialized;
  return NULL;
}

static PJRT_Error* MemoryStats(AbiExecutableGetCompiledMemoryStatsArgs* args) {
  CHECK_SIZE(ExecutableGetCompiledMemoryStatsArgs, args);
  const FakeLoadedExecutable* loaded =
      ((FakeExecutable*)args->executable)->loaded;
  if (Begins(loaded->program, loaded->program_size, "unsaved")) {
    return MakeError(kAbiUnimplemented, "fake: no memory statistics");
  }
  int64_t* next = &args->generated_code_size_in_bytes;
  for (int i = 0; i < 5; ++i) *next++ = 100 + i;
  return NULL;
}

static PJRT_Error* DeserializeAndLoad(
    AbiExecutableDeserializeAndLoadArgs* args) {
  ++record.load_calls;
  CHECK_SIZE(ExecutableDeserializeAndLoadArgs, args);
  record.load_client = args->client;
  if (args->overridden_serialized_compile_options != NULL ||
      args->overridden_serialized_compile_options_size != 0) {
    return MakeError(kAbiInvalidArgument, "fake: options to load with");
  }
  const char* bytes = args->serialized_executable;
  const size_t size = args->serialized_executable_size;
  const char* end = size > 0 ? memchr(bytes, ';', size) : NULL;
  if (end == NULL || !Begins(bytes, size, "saved:")) {
    return MakeError(kAbiInvalidArgument, "fake: cannot load %.*s", (int)size,
                     size > 0 ? bytes : "");
  }
  const char* program = bytes + 6;
  args->loaded_executable =
      MakeLoaded(program, (size_t)(end - program), end + 1,
                 (size_t)(bytes + size - (end + 1)));
  return NULL;
}

static size_t ExpectedOptionsSize(void) {
  if (minor_version > 105) return 256;
  if (minor_version >= 97) return 120;
  if (minor_version >= 78) return 112;
  if (minor_version >= 76) return 88;
  return minor_version >= 64 ? 80 : 72;
}

static PJRT_Error* Execute(AbiLoadedExecutableExecuteArgs* args) {
  record.execute_args = args;
  record.execute_options = args->options;
  CHECK_SIZE(LoadedExecutableExecuteArgs, args);
  if (args->options != NULL) {
    const size_t size = args->options->struct_size;
    const size_t expected = ExpectedOptionsSize();
    // Strict both ways, but for a caller that is ahead of all we know.
    if (size != expected && !(expected == 256 && size > expected)) {
      return MakeError(kAbiInvalidArgument,
                       "fake: ExecuteOptions has %zu bytes, expected %zu", size,
                       expected);
    }
    record.execute_options_size = size;
    memcpy(record.execute_options_bytes, args->options, size);
  }
  void*** outputs = args->output_lists;
  if (outputs != NULL) outputs[0][0] = &record;
  void** events = args->device_complete_events;
  if (events != NULL) events[0] = &minor_version;
  WriteTail(args, args->struct_size, sizeof(AbiLoadedExecutableExecuteArgs));
  return NULL;
}

static const char* Fault(void) {
  const char* fault = getenv("FAKE_PLUGIN_FAULT");
  return fault != NULL ? fault : "";
}

enum { kAttributes = 6, kBool = 4, kLongValue = sizeof(AbiNamedValue) + 4 };

// Arrays as long as told, and names without an end, so that reading on is seen.
static const void* MakeAttributes(void) {
  static const int64_t versions[] = {1, 13, 3};
  static int64_t many[kFakeMany];
  for (int i = 0; i < kFakeMany; ++i) many[i] = i;
  AbiNamedValue values[kAttributes] = {
      {.name = "number", .type = kAbiValueInt64, .int64_value = 42},
      {.name = "none", .type = kAbiValueInt64List},
      {.name = "flag", .type = kBool},
      {.name = "text", .type = kAbiValueString, .string_value = "words"},
      {.name = "versions",
       .type = kAbiValueInt64List,
       .int64_array_value = versions,
       .value_size = 3},
      {.name = "many",
       .type = kAbiValueInt64List,
       .int64_array_value = many,
       .value_size = kFakeMany},
  };
  const bool is_long = strcmp(Fault(), "long_values") == 0;
  const size_t stride = sizeof(AbiNamedValue) + (is_long ? 8 : 0);
  char* array = calloc(kAttributes, stride);
  if (array == NULL) abort();
  for (int i = 0; i < kAttributes; ++i) {
    AbiNamedValue* value = &values[i];
    value->struct_size = is_long ? kLongValue : sizeof(*value);
    value->name_size = strlen(value->name);
    char* name = malloc(value->name_size);
    if (name == NULL) abort();
    value->name = memcpy(name, value->name, value->name_size);
    if (i == 2 && strcmp(Fault(), "short_value") == 0) {
      value->struct_size = offsetof(AbiNamedValue, value_size);
    }
    memcpy(array + (size_t)i * stride, value, sizeof(*value));
  }
  return array;
}

static PJRT_Error* PluginAttributes(AbiPluginAttributesArgs* args) {
  static const AbiNamedValue* attributes = NULL;
  CHECK_SIZE(PluginAttributesArgs, args);
  if (strcmp(Fault(), "secret") == 0) {
    return MakeError(kAbiInternal, "fake: I do not tell");
  }
  if (attributes == NULL) attributes = MakeAttributes();
  args->attributes = attributes;
  args->num_attributes = kAttributes;
  return NULL;
}

static PJRT_Error* AddressableDevices(AbiClientAddressableDevicesArgs* args) {
  static PJRT_Device* const devices[] = {(PJRT_Device*)&record};
  args->addressable_devices = devices;
  args->num_addressable_devices = args->client != NULL;
  return NULL;
}

static PJRT_Error* GetDescription(AbiDeviceGetDescriptionArgs* args) {
  if (args->device != (PJRT_Device*)&record) abort();
  args->device_description = (PJRT_DeviceDescription*)&minor_version;
  return strcmp(Fault(), "untold") == 0
             ? MakeError(kAbiUnimplemented, "fake: no description")
             : NULL;
}

static PJRT_Error* DeviceKind(AbiDeviceDescriptionKindArgs* args) {
  if (args->device_description != (PJRT_DeviceDescription*)&minor_version) {
    abort();
  }
  if (strcmp(Fault(), "secret") == 0) {
    return MakeError(kAbiInternal, "fake: I do not tell");
  }
  args->device_kind = "fake kind, and more";
  args->device_kind_size = 9;
  return NULL;
}

static PJRT_Error* Other(void* args) {
  (void)args;
  return MakeError(kAbiUnimplemented, "fake: no such function");
}

static void Fill(AbiApi* api, int slots, const char* fault) {
  for (int i = 0; i < slots; ++i) api->slots[i] = (AbiFunction)Other;
  if (slots <= kSlotLoadedExecutableExecute) return;
  SetErrorFunctions(api);
  api->slots[kSlotClientDestroy] = (AbiFunction)ClientDestroy;
  api->slots[kSlotClientAddressableDevices] = (AbiFunction)AddressableDevices;
  api->slots[kSlotDeviceDescriptionKind] = (AbiFunction)DeviceKind;
  api->slots[kSlotDeviceGetDescription] = (AbiFunction)GetDescription;
  api->slots[kSlotClientCompile] = (AbiFunction)ClientCompile;
  api->slots[kSlotExecutableDestroy] = (AbiFunction)ExecutableDestroy;
  api->slots[kSlotExecutableOptimizedProgram] = (AbiFunction)OptimizedProgram;
  api->slots[kSlotExecutableSerialize] = (AbiFunction)Serialize;
  api->slots[kSlotLoadedExecutableDestroy] =
      (AbiFunction)LoadedExecutableDestroy;
  api->slots[kSlotLoadedExecutableGetExecutable] = (AbiFunction)GetExecutable;
  api->slots[kSlotLoadedExecutableIsDeleted] =
      (AbiFunction)LoadedExecutableIsDeleted;
  api->slots[kSlotLoadedExecutableExecute] = (AbiFunction)Execute;
  if (strcmp(fault, "untold") != 0) {
    api->slots[kSlotPluginAttributes] = (AbiFunction)PluginAttributes;
  }
  if (strcmp(fault, "old") == 0) api->slots[kSlotExecutableSerialize] = NULL;
  if (slots < kSlots) return;
  api->slots[kSlotExecutableGetCompiledMemoryStats] = (AbiFunction)MemoryStats;
  api->slots[kSlotExecutableDeserializeAndLoad] =
      (AbiFunction)DeserializeAndLoad;
  api->slots[kSlotErrorForEachPayload] = (AbiFunction)Payloads;
  if (strcmp(fault, "no_errors") == 0) api->slots[kSlotErrorMessage] = NULL;
  if (strcmp(fault, "bare") == 0) {
    api->slots[kSlotPluginAttributes] = NULL;
    api->slots[kSlotExecutableOptimizedProgram] = NULL;
    api->slots[kSlotExecutableSerialize] = NULL;
    api->slots[kSlotLoadedExecutableExecute] = NULL;
    api->slots[kSlotExecutableDeserializeAndLoad] = NULL;
    api->slots[kSlotErrorForEachPayload] = NULL;
  }
}

// The table is exactly as long as it says, so that reading on is seen.
EXPORT const AbiApi* GetPjrtApi(void) {
  static AbiApi* api = NULL;
  // Size, type, next and, if that is its type, the profiler.
  static size_t extensions[2][4];
  static size_t profiler[11];
  if (api != NULL) return api;
  const char* fault = Fault();
  const char* minor = getenv("FAKE_PLUGIN_MINOR");
  if (minor != NULL) minor_version = atoi(minor);
  if (strcmp(fault, "null") == 0) return NULL;
  if (strcmp(fault, "tiny") == 0) {
    api = malloc(16);
    if (api == NULL) abort();
    api->struct_size = 16;
    api->extension_start = NULL;
    return api;
  }
  int slots = kSlots;
  if (strcmp(fault, "short") == 0) slots = kSlotLoadedExecutableExecute;
  if (strcmp(fault, "old") == 0) slots = kSlotLoadedExecutableExecute + 1;
  const size_t size =
      offsetof(AbiApi, slots) + (size_t)slots * sizeof(AbiFunction);
  api = Allocate(size);
  api->struct_size = size;
  extensions[0][0] = extensions[1][0] = sizeof(extensions[0]);
  extensions[0][2] = (size_t)extensions[1];
  if (strstr(fault, "profiler") != NULL) {
    extensions[1][1] = 1;
    extensions[1][3] = (size_t)profiler;
    profiler[0] = strcmp(fault, "profiler") == 0 ? 80 : sizeof(profiler);
    profiler[9] = 9;  // As good as any function for what is not called.
  }
  api->extension_start = extensions[0];
  api->version.struct_size = ABI_SIZE(AbiVersion, minor_version);
  api->version.extension_start = NULL;
  api->version.major_version = strcmp(fault, "major") == 0;
  api->version.minor_version = minor_version;
  Fill(api, slots, fault);
  return api;
}
