// PJRT_LoadedExecutable_Execute.

#include "test/csrc/aot_run.h"

static void Execute(void) {
  World world = Open("fake:8");
  PJRT_LoadedExecutable* loaded = CompileForAll(world);
  Run run;
  Fill(world, &run, loaded);
  CALL(world, LoadedExecutableExecute, &run.args);
  CHECK(Counters().buffers == kDevices * (kArguments + kOutputs));
  for (size_t i = 0; i < kDevices; ++i) {
    // The first is donated, the second kept.
    CHECK(IsDeleted(world, run.arguments[i][0]));
    CHECK(!IsDeleted(world, run.arguments[i][1]));
    AbiBufferDeviceArgs where = {.buffer = run.outputs[i][0]};
    CALL(world, BufferDevice, &where);
    CHECK(where.device == Local(world, i));
    AbiBufferElementTypeArgs type = {.buffer = run.outputs[i][1]};
    CALL(world, BufferElementType, &type);
    CHECK(type.type == kTypeBf16);
    AbiBufferDimensionsArgs dims = {.buffer = run.outputs[i][0]};
    CALL(world, BufferDimensions, &dims);
    CHECK(dims.num_dims == 1 && dims.dims[0] == 8);
    dims.buffer = run.outputs[i][1];
    CALL(world, BufferDimensions, &dims);
    CHECK(dims.num_dims == 0);
    // The memory that the program said.
    AbiDeviceAddressableMemoriesArgs memories = {.device = Local(world, i)};
    CALL(world, DeviceAddressableMemories, &memories);
    for (int k = 0; k < kOutputs; ++k) {
      AbiBufferMemoryArgs memory = {.buffer = run.outputs[i][k]};
      CALL(world, BufferMemory, &memory);
      CHECK(memory.memory == memories.memories[k]);
    }
    AbiEventAwaitArgs await = {.event = run.events[i]};
    CALL(world, EventAwait, &await);
    AbiEventDestroyArgs destroy = {.event = run.events[i]};
    CALL(world, EventDestroy, &destroy);
  }
  CHECK(Counters().executions == 1 && Program(0).executions == 1);
  Empty(world, &run);
  DestroyLoaded(world, loaded);
  Close(world);
}

// Donation follows the options, of whatever size.
static void Kept(void) {
  World world = Open("fake:8");
  PJRT_LoadedExecutable* loaded = CompileForAll(world);
  const int64_t kept[] = {1, 0};
  AbiExecuteOptions options = {.struct_size = sizeof(options),
                               .non_donatable_input_indices = kept,
                               .num_non_donatable_input_indices = 2};
  Run run;
  Fill(world, &run, loaded);
  run.args.options = &options;
  CALL(world, LoadedExecutableExecute, &run.args);
  CHECK(!IsDeleted(world, run.arguments[0][0]));
  Empty(world, &run);
  // Too short to say so.
  Fill(world, &run, loaded);
  run.args.options = &options;
  options.struct_size =
      offsetof(AbiExecuteOptions, num_non_donatable_input_indices);
  CALL(world, LoadedExecutableExecute, &run.args);
  CHECK(IsDeleted(world, run.arguments[0][0]));
  Empty(world, &run);
  DestroyLoaded(world, loaded);
  Close(world);
}

static void ExecuteErrors(void) {
  World world = Open("fake:8");
  PJRT_LoadedExecutable* loaded = CompileForAll(world);
  Run run;
  Fill(world, &run, loaded);
  AbiLoadedExecutableExecuteArgs args = run.args;
  args.num_devices = 3;
  REFUSED(world, LoadedExecutableExecute, &args, kAbiInvalidArgument,
          "for 3 devices, and the program runs on 4");
  args = run.args;
  args.argument_lists = NULL;
  REFUSED(world, LoadedExecutableExecute, &args, kAbiInvalidArgument, "NULL");
  args = run.args;
  args.output_lists = NULL;
  REFUSED(world, LoadedExecutableExecute, &args, kAbiInvalidArgument, "NULL");
  run.argument_lists[2] = NULL;
  REFUSED(world, LoadedExecutableExecute, &run.args, kAbiInvalidArgument,
          "NULL");
  run.argument_lists[2] = run.arguments[2];

  PJRT_Buffer* was = run.arguments[3][1];
  run.arguments[3][1] = NULL;
  REFUSED(world, LoadedExecutableExecute, &run.args, kAbiInvalidArgument,
          "argument 1 of device 3 is NULL");
  run.arguments[3][1] = run.arguments[1][1];
  REFUSED(world, LoadedExecutableExecute, &run.args, kAbiInvalidArgument,
          "argument 1 of device 3 is on device 1");
  run.arguments[3][1] = was;
  AbiBufferDeleteArgs drop = {.buffer = was};
  CALL(world, BufferDelete, &drop);
  REFUSED(world, LoadedExecutableExecute, &run.args, kAbiFailedPrecondition,
          "argument 1 of device 3 was donated or deleted");
  // Nothing came of any of these.
  CHECK(Counters().executions == 0 && Counters().steps == 0);
  CHECK(run.outputs[0][0] == NULL && !IsDeleted(world, run.arguments[0][0]));
  CHECK(Counters().buffers == kDevices * kArguments);

  AbiLoadedExecutableDeleteArgs remove = {.executable = loaded};
  CALL(world, LoadedExecutableDelete, &remove);
  AbiLoadedExecutableIsDeletedArgs is = {.executable = loaded};
  CALL(world, LoadedExecutableIsDeleted, &is);
  CHECK(is.is_deleted);
  REFUSED(world, LoadedExecutableExecute, &run.args, kAbiFailedPrecondition,
          "the executable was deleted");
  Empty(world, &run);
  DestroyLoaded(world, loaded);
  Close(world);
}

// A program whose donations nobody told keeps what it is given.
static void UnknownArguments(void) {
  World world = Open("fake:8");
  const FakeProgram program = TwoArguments();
  const Message options = {7, "options"};
  PJRT_LoadedExecutable* loaded = NULL;
  CHECK(TryCompile(world, &program, &options, &loaded) == NULL);
  Run run;
  Fill(world, &run, loaded);
  run.args.num_args = 1;
  run.args.device_complete_events = NULL;
  CALL(world, LoadedExecutableExecute, &run.args);
  CHECK(!IsDeleted(world, run.arguments[0][0]));
  Empty(world, &run);
  DestroyLoaded(world, loaded);
  Close(world);
}

// One of the devices alone.
static void OneDevice(void) {
  World world = Open("fake:8");
  PJRT_LoadedExecutable* loaded = CompileForAll(world);
  Run run;
  Fill(world, &run, loaded);
  run.args.execute_device = Local(world, 1);
  REFUSED(world, LoadedExecutableExecute, &run.args, kAbiInvalidArgument,
          "for 4 devices, and the program runs on 1");
  run.args.num_devices = 1;
  run.argument_lists[0] = run.arguments[1];
  CALL(world, LoadedExecutableExecute, &run.args);
  AbiBufferDeviceArgs where = {.buffer = run.outputs[0][0]};
  CALL(world, BufferDevice, &where);
  CHECK(where.device == Local(world, 1));
  AbiClientDevicesArgs all = {.client = world.client};
  CALL(world, ClientDevices, &all);
  run.args.execute_device = all.devices[6];
  REFUSED(world, LoadedExecutableExecute, &run.args, kAbiInvalidArgument,
          "device 6 is not addressable");
  Empty(world, &run);
  DestroyLoaded(world, loaded);
  Close(world);
}

const Scenario aot_execute_scenarios[] = {
    {"execute", Execute},
    {"execute_kept", Kept},
    {"execute_errors", ExecuteErrors},
    {"execute_unknown_arguments", UnknownArguments},
    {"execute_one_device", OneDevice},
    {NULL, NULL}};
