// Faults of what is told of a compiled program.

#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/compiled.h"
#include "test/csrc/wrong_plugin/wrong_plugin.h"

static PJRT_Error* NotTold(AbiExecutableOptimizedProgramArgs* args) {
  (void)args;
  return Refuse(kAbiUnimplemented,
                "PJRT_Executable_OptimizedProgram is not implemented");
}

static PJRT_Error* EmptyProgram(AbiExecutableOptimizedProgramArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableOptimizedProgram, args);
  args->program->code_size = 0;
  return error;
}

static PJRT_Error* StrangeFormat(AbiExecutableOptimizedProgramArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableOptimizedProgram, args);
  args->program->format = "acme";
  args->program->format_size = strlen("acme");
  return error;
}

static PJRT_Error* DamagedProgram(AbiExecutableOptimizedProgramArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableOptimizedProgram, args);
  AbiProgram* program = args->program;
  if (error == NULL && program->code != NULL) {
    memset(program->code, 0xff, program->code_size / 2);
  }
  return error;
}

static PJRT_Error* WrongShardings(AbiExecutableOptimizedProgramArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableOptimizedProgram, args);
  AbiProgram* program = args->program;
  if (error == NULL && program->code != NULL) {
    ReplicateOutputs(program->code, program->code_size);
  }
  return error;
}

static PJRT_Error* WrongParameters(AbiExecutableOptimizedProgramArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableOptimizedProgram, args);
  AbiProgram* program = args->program;
  if (error == NULL && program->code != NULL) {
    ReplicateParameters(program->code, program->code_size);
  }
  return error;
}

#define TELLS(function) {SPOILS(ExecutableOptimizedProgram, function)}

const Fault kReadingFaults[] = {
    {.name = "no-optimized-program",
     .what = "the table has no PJRT_Executable_OptimizedProgram",
     .overrides = TELLS(Absent)},
    {.name = "optimized-program-refused",
     .what = "PJRT_Executable_OptimizedProgram: UNIMPLEMENTED",
     .overrides = TELLS(NotTold)},
    {.name = "optimized-program-empty",
     .what = "the compiled program is told as 0 bytes",
     .overrides = TELLS(EmptyProgram)},
    {.name = "optimized-program-damaged",
     .what = "the first half of the compiled program's bytes is 0xff",
     .overrides = TELLS(DamagedProgram)},
    {.name = "optimized-program-format",
     .what = "the compiled program is told in a format 'acme'",
     .overrides = TELLS(StrangeFormat)},
    {.name = "output-layout-untold",
     .what = "the compiled program says of every output that it is replicated",
     .overrides = TELLS(WrongShardings)},
    {.name = "parameter-layout-untold",
     .what = "the compiled program says of every parameter that it is "
             "replicated",
     .overrides = TELLS(WrongParameters)},
    {.name = NULL},
};
