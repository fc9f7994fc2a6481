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
    FAULT("no-optimized-program",
          "the table has no PJRT_Executable_OptimizedProgram", TELLS(Absent)),
    FAULT("optimized-program-refused",
          "PJRT_Executable_OptimizedProgram: UNIMPLEMENTED", TELLS(NotTold)),
    FAULT("optimized-program-empty", "the compiled program is told as 0 bytes",
          TELLS(EmptyProgram)),
    FAULT("optimized-program-damaged",
          "the first half of the compiled program's bytes is 0xff",
          TELLS(DamagedProgram)),
    FAULT("optimized-program-format",
          "the compiled program is told in a format 'acme'",
          TELLS(StrangeFormat)),
    FAULT("output-layout-untold",
          "the compiled program says of every output that it is replicated",
          TELLS(WrongShardings)),
    FAULT("parameter-layout-untold",
          "the compiled program says of every parameter that it is "
          "replicated",
          TELLS(WrongParameters)),
    {.name = NULL},
};
