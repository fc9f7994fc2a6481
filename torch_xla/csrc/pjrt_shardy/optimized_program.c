// PJRT_Executable_OptimizedProgram: what the inner plugin made of a program,
// and the answers of our own that take its place (answers.c).

#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

static const char kName[] = "PJRT_Executable_OptimizedProgram";

PJRT_Error* ShardyReadProgram(AbiExecutableOptimizedProgramArgs* args) {
  AbiProgram* program = args->program;
  program->code = NULL;
  PJRT_Error* error = ShardyInnerCall(kSlotExecutableOptimizedProgram, args);
  if (error != NULL) return error;
  const size_t size = program->code_size;
  char* code = malloc(size + 1);
  if (code == NULL) {
    return ShardyError(kAbiResourceExhausted,
                       "no memory for a compiled program of %zu bytes", size);
  }
  program->code = code;
  error = ShardyInnerCall(kSlotExecutableOptimizedProgram, args);
  program->code = code;
  if (error == NULL && program->code_size > size) {
    error =
        ShardyError(kAbiInternal,
                    "%s: the inner plugin announced %zu bytes and then had %zu",
                    kName, size, program->code_size);
  }
  if (error == NULL) return NULL;
  free(code);
  program->code = NULL;
  return error;
}

static bool HoldsProgram(const AbiExecutableOptimizedProgramArgs* args) {
  return ABI_HOLDS(AbiExecutableOptimizedProgramArgs, program,
                   args->struct_size) &&
         args->program != NULL &&
         ABI_HOLDS(AbiProgram, format_size, args->program->struct_size);
}

static PJRT_Error* TooShort(const AbiExecutableOptimizedProgramArgs* args) {
  return ShardyError(kAbiInvalidArgument,
                     "%s: the argument struct of %zu bytes is too short, or "
                     "has no program struct of at least %zu",
                     kName, args->struct_size,
                     ABI_SIZE(AbiProgram, format_size));
}

// Writes an answer of our own to the framework's structs: the size, and the
// bytes if there is a place for them.
static PJRT_Error* Tell(const ShardyAnswer* answer,
                        AbiExecutableOptimizedProgramArgs* args) {
  if (!HoldsProgram(args)) return TooShort(args);
  AbiProgram* program = args->program;
  if (program->code != NULL) {
    if (program->code_size < answer->program_size) {
      return ShardyError(kAbiInvalidArgument,
                         "%s: the buffer has %zu bytes, the program needs %zu",
                         kName, program->code_size, answer->program_size);
    }
    memcpy(program->code, answer->program, answer->program_size);
  }
  program->code_size = answer->program_size;
  program->format = answer->format;
  program->format_size = answer->format_size;
  return NULL;
}

PJRT_Error* ShardyExecutableOptimizedProgram(
    AbiExecutableOptimizedProgramArgs* args) {
  ShardyAnswer* answer = NULL;
  if (ABI_HOLDS(AbiExecutableOptimizedProgramArgs, executable,
                args->struct_size)) {
    answer = ShardyAcquireAnswer(args->executable);
  }
  if (answer == NULL) {
    return ShardyInnerCall(kSlotExecutableOptimizedProgram, args);
  }
  PJRT_Error* error = Tell(answer, args);
  ShardyReleaseAnswer(answer);
  return error;
}
