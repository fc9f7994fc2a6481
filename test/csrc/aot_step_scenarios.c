// What is counted of executions: steps, and their limit.

#include <signal.h>

#include "test/csrc/aot_run.h"

static PJRT_Error* RunOnce(World world, PJRT_LoadedExecutable* loaded) {
  Run run;
  Fill(world, &run, loaded);
  run.args.struct_size = sizeof(run.args);
  PJRT_Error* error = Call(world.api, kSlotLoadedExecutableExecute, &run.args);
  if (error != NULL) CHECK(run.outputs[0][0] == NULL);
  Empty(world, &run);
  return error;
}

static void Steps(void) {
  World world = Open("fake:8");
  PJRT_LoadedExecutable* a = CompileForAll(world);
  PJRT_LoadedExecutable* b = CompileForAll(world);
  CHECK(aot.end_step() == 0);  // nothing was executed
  CHECK(RunOnce(world, a) == NULL);
  CHECK(RunOnce(world, b) == NULL);
  CHECK(Counters().steps == 0);
  CHECK(RunOnce(world, b) == NULL);  // begins the second step
  CHECK(Counters().steps == 1);
  CHECK(RunOnce(world, a) == NULL);
  CHECK(Counters().steps == 1);
  CHECK(aot.end_step() == 2);
  CHECK(aot.end_step() == 2);
  CHECK(RunOnce(world, a) == NULL);
  CHECK(aot.end_step() == 3);
  CHECK(Counters().executions == 5 && Counters().refused == 0);
  CHECK(Program(0).executions == 3 && Program(1).executions == 2);
  static const int64_t in_order[] = {0, 1, 1, 0, 0};
  static const int64_t in_step[] = {0, 0, 1, 1, 2};
  int64_t programs[8];
  int64_t ended[8];
  CHECK(aot.executions(0, programs, ended, 8) == 5);
  CHECK(memcmp(programs, in_order, sizeof(in_order)) == 0);
  CHECK(memcmp(ended, in_step, sizeof(in_step)) == 0);
  CHECK(aot.executions(3, programs, ended, 1) == 1);
  CHECK(programs[0] == 0 && ended[0] == 1);
  CHECK(aot.executions(5, programs, ended, 8) == 0);
  CHECK(aot.executions(-1, programs, ended, 8) == 0);
  DestroyLoaded(world, a);
  DestroyLoaded(world, b);
  Close(world);
}

// One program on one device after another is one step.
static void StepsByDevice(void) {
  World world = Open("fake:8");
  PJRT_LoadedExecutable* loaded = CompileForAll(world);
  for (int step = 0; step < 2; ++step) {
    Run run;
    Fill(world, &run, loaded);
    run.args.num_devices = 1;
    for (size_t i = 0; i < kDevices; ++i) {
      run.args.execute_device = Local(world, i);
      run.args.argument_lists = run.argument_lists + i;
      run.args.output_lists = run.output_lists + i;
      CALL(world, LoadedExecutableExecute, &run.args);
      CHECK(Counters().steps == step);
    }
    Empty(world, &run);
  }
  CHECK(aot.end_step() == 2);
  DestroyLoaded(world, loaded);
  Close(world);
}

static volatile sig_atomic_t signals = 0;

static void OnSignal(int number) {
  (void)number;
  ++signals;
}

static void StepLimit(void) {
  PjrtAot_Options options = Options("fake:8");
  options.step_limit = 2;
  options.stop_signal = SIGUSR1;
  signal(SIGUSR1, OnSignal);
  World world = OpenWith(&options);
  PJRT_LoadedExecutable* loaded = CompileForAll(world);
  CHECK(RunOnce(world, loaded) == NULL);
  CHECK(RunOnce(world, loaded) == NULL);
  CHECK(Counters().steps == 1 && signals == 0);
  for (int i = 1; i <= 3; ++i) {
    ExpectError(world.api, RunOnce(world, loaded), kAbiAborted,
                "the 2 steps that were asked for have ended");
    // The first is only an error.
    CHECK(Counters().refused == i && signals == i - 1);
  }
  CHECK(aot.end_step() == 2);
  CHECK(Counters().steps == 2 && Counters().executions == 2);
  CHECK(Program(0).executions == 2);
  DestroyLoaded(world, loaded);
  Close(world);
}

// Without a signal, and ended from outside.
static void StepLimitQuiet(void) {
  PjrtAot_Options options = Options("fake:8");
  options.step_limit = 1;
  World world = OpenWith(&options);
  PJRT_LoadedExecutable* a = CompileForAll(world);
  PJRT_LoadedExecutable* b = CompileForAll(world);
  CHECK(RunOnce(world, a) == NULL);
  CHECK(RunOnce(world, b) == NULL);
  CHECK(aot.end_step() == 1);
  ExpectError(world.api, RunOnce(world, b), kAbiAborted, "the 1 steps");
  CHECK(Counters().refused == 1);
  DestroyLoaded(world, a);
  DestroyLoaded(world, b);
  Close(world);
}

const Scenario aot_step_scenarios[] = {{"steps", Steps},
                                       {"steps_by_device", StepsByDevice},
                                       {"step_limit", StepLimit},
                                       {"step_limit_quiet", StepLimitQuiet},
                                       {NULL, NULL}};
