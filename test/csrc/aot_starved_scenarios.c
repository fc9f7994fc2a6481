// Wherever memory ends. For the library that is built with aot_starved.h.

#include "test/csrc/aot_driver.h"

static void FailAllocation(int which) {
  char text[16];
  snprintf(text, sizeof(text), "%d", which);
  CHECK(setenv("FAIL_ALLOCATION", text, 1) == 0);
}

// Whether the allocation that was to fail was asked for; ends that.
static bool Failed(void) {
  const bool failed = atoi(getenv("FAIL_ALLOCATION")) <= 0;
  unsetenv("FAIL_ALLOCATION");
  return failed;
}

static void StarvedOpen(void) {
  const PjrtAot_Options options = Options("fake:8");
  char message[256];
  int failures = 0;
  for (;; ++failures) {
    FailAllocation(failures + 1);
    const int code = aot.open(&options, message, sizeof(message));
    const bool failed = Failed();
    if (code == 0) {
      CHECK(!failed);
      break;
    }
    CHECK(failed && code == kAbiResourceExhausted);
    CHECK_HAS(message, "out of memory");
    CHECK(Fake()->live_errors == 0 && Fake()->live_topologies == 0);
  }
  // The world, its name, and its devices.
  CHECK(failures == 3);
}

static void StarvedCompile(void) {
  World world = Open("fake:8");
  const FakeProgram program = TwoArguments();
  const Message options = {7, "options"};
  int failures = 0;
  for (;; ++failures) {
    PJRT_LoadedExecutable* loaded = NULL;
    FailAllocation(failures + 1);
    PJRT_Error* error = TryCompile(world, &program, &options, &loaded);
    const bool failed = Failed();
    if (error == NULL) {
      CHECK(!failed);
      DestroyLoaded(world, loaded);
      break;
    }
    CHECK(failed);
    ExpectError(world.api, error, kAbiResourceExhausted, "out of memory");
    CHECK(loaded == NULL && aot.last_program() == -1);
    CHECK(Fake()->live_executables == 0 && Fake()->live_errors == 0);
  }
  CHECK(failures > 4);
  Close(world);
}

static void StarvedExecute(void) {
  World world = Open("fake:8");
  FakeProgram program = TwoArguments();
  const Message options = {7, "options"};
  program.optimized_format[0] = '\0';
  PJRT_LoadedExecutable* loaded = Compiled(world, &program, &options);
  PJRT_Buffer* outputs[4][2] = {{NULL}};
  PJRT_Buffer** output_lists[] = {outputs[0], outputs[1], outputs[2],
                                  outputs[3]};
  AbiLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                         .executable = loaded,
                                         .num_devices = 4,
                                         .output_lists = output_lists};
  int failures = 0;
  for (;; ++failures) {
    FailAllocation(failures + 1);
    PJRT_Error* error = Call(world.api, kSlotLoadedExecutableExecute, &args);
    const bool failed = Failed();
    // The list of executions does without what it has no memory for.
    if (error == NULL) break;
    CHECK(failed);
    ExpectError(world.api, error, kAbiResourceExhausted, "out of memory");
    CHECK(Counters().buffers == 0 && Counters().executions == 0);
    CHECK(outputs[0][0] == NULL && outputs[3][1] == NULL);
  }
  CHECK(failures == 8);
  CHECK(Counters().executions == 1);
  for (int i = 0; i < 8; ++i) DestroyBuffer(world, outputs[i / 2][i % 2]);
  DestroyLoaded(world, loaded);
  Close(world);
}

// And where there is none for the error either.
static void StarvedBuffers(void) {
  World world = Open("fake:8");
  AbiClientBufferFromHostBufferArgs upload = {
      .client = world.client, .type = kTypeF32, .device = Local(world, 0)};
  FailAllocation(1);
  REFUSED(world, ClientBufferFromHostBuffer, &upload, kAbiResourceExhausted,
          "out of memory");
  FailAllocation(1);
  AbiClientCreateArgs create = {0};
  REFUSED(world, ClientCreate, &create, kAbiResourceExhausted, "out of memory");
  FailAllocation(1);
  AbiClientDevicesArgs devices = {0};
  REFUSED(world, ClientDevices, &devices, kAbiResourceExhausted,
          "out of memory");
  CHECK(Failed());
  Close(world);
}

const Scenario aot_starved_scenarios[] = {{"starved_open", StarvedOpen},
                                          {"starved_compile", StarvedCompile},
                                          {"starved_execute", StarvedExecute},
                                          {"starved_buffers", StarvedBuffers},
                                          {NULL, NULL}};
