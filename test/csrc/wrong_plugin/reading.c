// Faults of what is told of a compiled program.

#include <string.h>

#include "test/csrc/wrong_plugin/compiled.h"
#include "test/csrc/wrong_plugin/wrong_plugin.h"

REFUSES(NotTold, kAbiUnimplemented,
        "PJRT_Executable_OptimizedProgram is not implemented")

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

#define SAYS_REPLICATED(name, replicate)                                  \
  static PJRT_Error* name(AbiExecutableOptimizedProgramArgs* args) {      \
    PJRT_Error* error = CallInner(kSlotExecutableOptimizedProgram, args); \
    AbiProgram* program = args->program;                                  \
    if (error == NULL && program->code != NULL) {                         \
      replicate(program->code, program->code_size);                       \
    }                                                                     \
    return error;                                                         \
  }

SAYS_REPLICATED(WrongShardings, ReplicateOutputs)
SAYS_REPLICATED(WrongParameters, ReplicateParameters)

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
