// Faults of compiling for devices that are not there.

#include <string.h>

#include "test/csrc/wrong_plugin/anything.h"
#include "test/csrc/wrong_plugin/wrong_plugin.h"

static PJRT_Error* NoDescriptions(
    AbiTopologyDescriptionGetDeviceDescriptionsArgs* args) {
  PJRT_Error* error =
      CallInner(kSlotTopologyDescriptionGetDeviceDescriptions, args);
  args->num_descriptions = 0;
  return error;
}

REFUSES(NotCompiled, kAbiUnimplemented, "I compile for devices that are there")

static PJRT_Error* MlirOnly(AbiCompileArgs* args) {
  if (args->program->format_size == strlen("mlir")) {
    return CallInner(kSlotCompile, args);
  }
  return Refuse(kAbiUnimplemented, "programs have to be of the format 'mlir'");
}

static PJRT_Error* SwallowsDamage(AbiCompileArgs* args) {
  PJRT_Error* error = CallInner(kSlotCompile, args);
  if (error == NULL) return NULL;
  FreeError(error);
  return CompileAnythingAhead(args->topology, &args->executable);
}

const Fault kAheadFaults[] = {
    FAULT("topology-empty", "a topology has no devices",
          {SPOILS(TopologyDescriptionGetDeviceDescriptions, NoDescriptions)}),
    FAULT("ahead-refused", "PJRT_Compile: UNIMPLEMENTED",
          {SPOILS(Compile, NotCompiled)}),
    FAULT("ahead-mlir-only",
          "PJRT_Compile: programs of other formats than mlir are "
          "UNIMPLEMENTED",
          {SPOILS(Compile, MlirOnly)}),
    FAULT("ahead-swallows-damage",
          "a program that cannot be compiled for a topology becomes one of "
          "no inputs that gives 0.0",
          {SPOILS(Compile, SwallowsDamage)}),
    {.name = NULL},
};
