// An execution of TwoArguments on all local devices.

#ifndef TEST_CSRC_AOT_RUN_H_
#define TEST_CSRC_AOT_RUN_H_

#include "test/csrc/aot_driver.h"

enum { kDevices = 4, kArguments = 2, kOutputs = 2 };

typedef struct {
  PJRT_Buffer* arguments[kDevices][kArguments];
  PJRT_Buffer* outputs[kDevices][kOutputs];
  PJRT_Buffer* const* argument_lists[kDevices];
  PJRT_Buffer** output_lists[kDevices];
  PJRT_Event* events[kDevices];
  AbiLoadedExecutableExecuteArgs args;
} Run;

// Fills it with arguments as the program takes them.
void Fill(World world, Run* run, PJRT_LoadedExecutable* loaded);
// Destroys its arguments and outputs.
void Empty(World world, Run* run);
// The program for eight devices, of which four are local.
PJRT_LoadedExecutable* CompileForAll(World world);

#endif  // TEST_CSRC_AOT_RUN_H_
