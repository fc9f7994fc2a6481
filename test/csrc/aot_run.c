#include "test/csrc/aot_run.h"

void Fill(World world, Run* run, PJRT_LoadedExecutable* loaded) {
  *run = (Run){0};
  for (size_t i = 0; i < kDevices; ++i) {
    run->arguments[i][0] =
        Upload(world, Local(world, i), kTypeF32, (int64_t[]){8}, 1);
    run->arguments[i][1] =
        Upload(world, Local(world, i), kTypeS32, (int64_t[]){2, 3}, 2);
    run->argument_lists[i] = run->arguments[i];
    run->output_lists[i] = run->outputs[i];
  }
  run->args.executable = loaded;
  run->args.argument_lists = run->argument_lists;
  run->args.num_devices = kDevices;
  run->args.num_args = kArguments;
  run->args.output_lists = run->output_lists;
  run->args.device_complete_events = run->events;
}

void Empty(World world, Run* run) {
  for (int i = 0; i < kDevices; ++i) {
    for (int k = 0; k < kArguments; ++k) {
      DestroyBuffer(world, run->arguments[i][k]);
    }
    for (int k = 0; k < kOutputs; ++k) DestroyBuffer(world, run->outputs[i][k]);
  }
}

PJRT_LoadedExecutable* CompileForAll(World world) {
  const FakeProgram program = TwoArguments();
  const Message options = {7, "options"};
  return Compiled(world, &program, &options);
}
