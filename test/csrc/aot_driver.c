// Runs scenarios against the compile-only plugin, as driver.c does for the
// shim.
//
//   aot_driver AOT FAKE NOT_A_PLUGIN SCENARIO[,VARIABLE=VALUE]...  ...
//   aot_driver --list

#include "test/csrc/aot_driver.h"

Aot aot;
const char* aot_path;
const char* fake_path;
const char* other_path;

static void LoadAot(void) {
  void* library = LoadLibrary(aot_path);
  *(void**)&aot.get_api = FindSymbol(library, "GetPjrtApi");
  *(void**)&aot.version = FindSymbol(library, "PjrtAot_Version");
  *(void**)&aot.open = FindSymbol(library, "PjrtAot_Open");
  *(void**)&aot.platform = FindSymbol(library, "PjrtAot_Platform");
  *(void**)&aot.device = FindSymbol(library, "PjrtAot_GetDevice");
  *(void**)&aot.last_program = FindSymbol(library, "PjrtAot_LastProgram");
  *(void**)&aot.program = FindSymbol(library, "PjrtAot_GetProgram");
  *(void**)&aot.end_step = FindSymbol(library, "PjrtAot_EndStep");
  *(void**)&aot.executions = FindSymbol(library, "PjrtAot_GetExecutions");
  *(void**)&aot.set_memory_limit =
      FindSymbol(library, "PjrtAot_SetMemoryLimit");
  *(void**)&aot.set_donated = FindSymbol(library, "PjrtAot_SetDonated");
  *(void**)&aot.counters = FindSymbol(library, "PjrtAot_GetCounters");
}

FakeAot* Fake(void) {
  FakeAot* (*get)(void);
  *(void**)&get = FindSymbol(LoadLibrary(fake_path), FAKE_AOT_STATE);
  return get();
}

PjrtAot_Options Options(const char* topology) {
  return (PjrtAot_Options){.library = fake_path, .topology = topology};
}

World OpenWith(const PjrtAot_Options* options) {
  char message[512] = "unwritten";
  const int code = aot.open(options, message, sizeof(message));
  if (code != 0) fprintf(stderr, "%s\n", message);
  CHECK(code == 0);
  CHECK(message[0] == '\0');
  World world = {aot.get_api(), NULL};
  AbiClientCreateArgs create = {0};
  CALL(world, ClientCreate, &create);
  world.client = create.client;
  return world;
}

World Open(const char* topology) {
  const PjrtAot_Options options = Options(topology);
  return OpenWith(&options);
}

void Close(World world) {
  AbiClientDestroyArgs destroy = {.client = world.client};
  CALL(world, ClientDestroy, &destroy);
  CHECK(Fake()->live_errors == 0);
  CHECK(Fake()->live_executables == 0);
  CHECK(Fake()->live_topologies == 1);
  CHECK(Counters().buffers == 0);
}

PjrtAot_Counters Counters(void) {
  PjrtAot_Counters counters;
  aot.counters(&counters);
  return counters;
}

PjrtAot_Program Program(int64_t number) {
  PjrtAot_Program program;
  CHECK(aot.program(number, &program) == 0);
  return program;
}

FakeProgram TwoArguments(void) {
  return (FakeProgram){.num_outputs = 2,
                       .types = {kTypeF32, kTypeBf16},
                       .num_dims = {1, 0},
                       .dims = {8},
                       .memory_kinds = {"device", "pinned_host"},
                       .optimized_size = 9,
                       .optimized = "optimized",
                       .optimized_format = "hlo"};
}

PJRT_Error* TryCompile(World world, const FakeProgram* program,
                       const Message* options, PJRT_LoadedExecutable** loaded) {
  const AbiProgram code = {sizeof(code),     NULL,  (char*)program,
                           sizeof(*program), "hlo", 3};
  AbiClientCompileArgs args = {.struct_size = sizeof(args),
                               .client = world.client,
                               .program = &code,
                               .compile_options = options->bytes,
                               .compile_options_size = options->size};
  PJRT_Error* error = Call(world.api, kSlotClientCompile, &args);
  *loaded = args.executable;
  return error;
}

PJRT_LoadedExecutable* Compiled(World world, const FakeProgram* program,
                                const Message* options) {
  PJRT_LoadedExecutable* loaded = NULL;
  CHECK(TryCompile(world, program, options, &loaded) == NULL);
  CHECK(aot.set_donated(aot.last_program(), (int64_t[]){0}, 1) == 0);
  return loaded;
}

void DestroyLoaded(World world, PJRT_LoadedExecutable* loaded) {
  AbiLoadedExecutableDestroyArgs args = {.executable = loaded};
  CALL(world, LoadedExecutableDestroy, &args);
}

PJRT_Device* Local(World world, size_t position) {
  AbiClientAddressableDevicesArgs args = {.client = world.client};
  CALL(world, ClientAddressableDevices, &args);
  CHECK(position < args.num_addressable_devices);
  return args.addressable_devices[position];
}

PJRT_Buffer* Upload(World world, PJRT_Device* device, int type,
                    const int64_t* dims, size_t num_dims) {
  AbiClientBufferFromHostBufferArgs args = {.client = world.client,
                                            .type = type,
                                            .dims = dims,
                                            .num_dims = num_dims,
                                            .device = device};
  CALL(world, ClientBufferFromHostBuffer, &args);
  AbiEventDestroyArgs destroy = {.event = args.done_with_host_buffer};
  CALL(world, EventDestroy, &destroy);
  return args.buffer;
}

void DestroyBuffer(World world, PJRT_Buffer* buffer) {
  AbiBufferDestroyArgs args = {.buffer = buffer};
  CALL(world, BufferDestroy, &args);
}

bool IsDeleted(World world, PJRT_Buffer* buffer) {
  AbiBufferIsDeletedArgs args = {.buffer = buffer};
  CALL(world, BufferIsDeleted, &args);
  return args.is_deleted;
}

static const Scenario* const groups[] = {
    aot_open_scenarios,    aot_client_scenarios, aot_compile_scenarios,
    aot_execute_scenarios, aot_buffer_scenarios, aot_thread_scenarios,
    aot_starved_scenarios, aot_step_scenarios,   NULL};

int main(int argc, char** argv) {
  const bool lists = argc == 2;
  if (!lists) {
    if (argc < 5) {
      fprintf(stderr, "usage: aot_driver AOT FAKE NOT_A_PLUGIN SCENARIO...\n");
      return 2;
    }
    aot_path = argv[1];
    fake_path = argv[2];
    other_path = argv[3];
  }
  const int first = lists ? 1 : 4;
  return RunScenarios(argc - first, argv + first, groups, LoadAot);
}
