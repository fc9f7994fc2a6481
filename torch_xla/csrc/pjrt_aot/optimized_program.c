// The program that the inner plugin made of a program: read once for ourselves,
// and kept for the framework, which reads it soon after. Plugins write it anew
// for each call, which takes long for a large one.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

#define OPTIMIZED "PJRT_Executable_OptimizedProgram: "

// Held while the bytes of any executable are given away.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

PJRT_Error* AotReadOptimized(PJRT_Executable* inner, AbiProgram* program) {
  *program = (AbiProgram){.struct_size = ABI_SIZE(AbiProgram, format_size)};
  AbiExecutableOptimizedProgramArgs args = {.executable = inner,
                                            .program = program};
  PJRT_Error* error = AOT_INNER(ExecutableOptimizedProgram, &args);
  if (error != NULL) {
    if (ShardyErrorCode(error) != kAbiUnimplemented) return error;
    ShardyFreeError(error);
    return NULL;
  }
  const size_t size = program->code_size;
  program->code = malloc(size + 1);
  if (program->code == NULL) return ShardyNoMemory(kSlotClientCompile);
  error = AOT_INNER(ExecutableOptimizedProgram, &args);
  if (error != NULL) {
    free(program->code);
    program->code = NULL;
  } else if (program->code_size > size) {
    program->code_size = size;
  }
  return error;
}

// Answers from what is kept. The mutex is held.
static PJRT_Error* AnswerLocked(AbiProgram* kept, AbiProgram* program) {
  program->format = kept->format;
  program->format_size = kept->format_size;
  if (program->code == NULL) {
    program->code_size = kept->code_size;
    return NULL;
  }
  if (program->code_size < kept->code_size) {
    return ShardyError(kAbiInvalidArgument,
                       OPTIMIZED
                       "the program has %zu bytes, and there is room for %zu",
                       kept->code_size, program->code_size);
  }
  memcpy(program->code, kept->code, kept->code_size);
  program->code_size = kept->code_size;
  free(kept->code);
  kept->code = NULL;
  return NULL;
}

PJRT_Error* AotExecutableOptimizedProgram(
    AbiExecutableOptimizedProgramArgs* args) {
  AOT_ENTER_WITH(Executable, OptimizedProgram, executable, program);
  if (args->program == NULL ||
      !ABI_HOLDS(AbiProgram, format_size, args->program->struct_size)) {
    return ShardyError(
        kAbiInvalidArgument,
        OPTIMIZED "no program was given to fill, or its struct is too small");
  }
  AbiProgram* kept = &args->executable->optimized;
  pthread_mutex_lock(&mutex);
  const bool answered = kept->code != NULL;
  PJRT_Error* error = answered ? AnswerLocked(kept, args->program) : NULL;
  pthread_mutex_unlock(&mutex);
  if (answered) return error;
  return AotForwardExecutable(kSlotExecutableOptimizedProgram, args);
}
