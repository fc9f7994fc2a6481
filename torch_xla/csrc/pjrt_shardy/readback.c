// PJRT_Executable_OptimizedProgram: what the framework reads back from an
// executable goes through the callback, unless it has an answer of our own
// (answers.c).
//
// The framework asks twice, for the size and for the bytes, and each time the
// program is made anew.

#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

static const char kName[] = "PJRT_Executable_OptimizedProgram";

struct PjrtShardy_Readback {
  char* program;  // from PjrtShardy_ReplaceProgram, or NULL
  size_t program_size;
  PJRT_Error* failure;
};

SHARDY_EXPORT void PjrtShardy_ReplaceProgram(PjrtShardy_Readback* readback,
                                             const char* program,
                                             size_t program_size) {
  char* copy = malloc(program_size + 1);
  if (copy == NULL) {
    ShardyFreeError(readback->failure);
    readback->failure =
        ShardyError(kAbiResourceExhausted,
                    "no memory for a program of %zu bytes", program_size);
    return;
  }
  if (program_size > 0) memcpy(copy, program, program_size);
  free(readback->program);
  readback->program = copy;
  readback->program_size = program_size;
}

SHARDY_EXPORT void PjrtShardy_FailReadback(PjrtShardy_Readback* readback,
                                           int code, const char* message,
                                           size_t message_size) {
  ShardyFreeError(readback->failure);
  readback->failure = ShardyErrorFromBytes(code, message, message_size);
}

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

typedef struct {
  const ShardyRegistration* registration;
  PjrtShardy_Readback* readback;
  const AbiProgram* program;
} CallbackCall;

static void CallBack(void* arguments) {
  const CallbackCall* call = arguments;
  PjrtShardy_ReadbackCallback callback =
      (PjrtShardy_ReadbackCallback)call->registration->callback;
  const AbiProgram* program = call->program;
  callback(call->readback, program->code, program->code_size, program->format,
           program->format_size, call->registration->user);
}

// Reads the inner plugin's program and lets the callback replace it. On success
// the caller frees `*code`.
static PJRT_Error* MakeProgram(const ShardyRegistration* registration,
                               AbiExecutableOptimizedProgramArgs* inner_args,
                               char** code, size_t* size) {
  PJRT_Error* error = ShardyReadProgram(inner_args);
  if (error != NULL) return error;
  const AbiProgram* program = inner_args->program;
  PjrtShardy_Readback readback = {NULL, 0, NULL};
  ShardyRunCallback(CallBack,
                    &(CallbackCall){registration, &readback, program});
  if (readback.failure != NULL) {
    free(readback.program);
    free(program->code);
    return readback.failure;
  }
  *code = program->code;
  *size = program->code_size;
  if (readback.program != NULL) {
    free(program->code);
    *code = readback.program;
    *size = readback.program_size;
  }
  return NULL;
}

// Writes the size, and the bytes if there is a place for them.
static PJRT_Error* PutCode(AbiProgram* program, const char* code, size_t size) {
  if (program->code != NULL) {
    if (program->code_size < size) {
      return ShardyError(kAbiInvalidArgument,
                         "%s: the buffer has %zu bytes, the program needs %zu",
                         kName, program->code_size, size);
    }
    memcpy(program->code, code, size);
  }
  program->code_size = size;
  return NULL;
}

static PJRT_Error* ReadWith(const ShardyRegistration* registration,
                            AbiExecutableOptimizedProgramArgs* args) {
  AbiProgram* program = args->program;
  AbiExecutableOptimizedProgramArgs* inner_args = malloc(args->struct_size);
  AbiProgram* inner_program = malloc(program->struct_size);
  PJRT_Error* error = NULL;
  if (inner_args != NULL && inner_program != NULL) {
    memcpy(inner_args, args, args->struct_size);
    memcpy(inner_program, program, program->struct_size);
    inner_args->program = inner_program;
    char* code = NULL;
    size_t size = 0;
    error = MakeProgram(registration, inner_args, &code, &size);
    if (error == NULL) error = PutCode(program, code, size);
    free(code);
    if (error == NULL) {
      // All of both: a later version may have outputs that we do not know.
      inner_program->code = program->code;
      inner_program->code_size = size;
      memcpy(program, inner_program, program->struct_size);
      memcpy(args, inner_args, args->struct_size);
      args->program = program;
    }
  } else {
    error = ShardyNoMemory(kSlotExecutableOptimizedProgram);
  }
  free(inner_args);
  free(inner_program);
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

// Writes an answer of our own to the framework's structs.
static PJRT_Error* Tell(const ShardyAnswer* answer,
                        AbiExecutableOptimizedProgramArgs* args) {
  if (!HoldsProgram(args)) return TooShort(args);
  AbiProgram* program = args->program;
  PJRT_Error* error = PutCode(program, answer->program, answer->program_size);
  if (error != NULL) return error;
  program->format = answer->format;
  program->format_size = answer->format_size;
  return NULL;
}

// What the callback makes of the inner plugin's program, or that program.
static PJRT_Error* ReadInner(AbiExecutableOptimizedProgramArgs* args) {
  ShardyRegistration* registration =
      ShardyAcquireCallback(kShardyReadbackCallback);
  if (registration == NULL) {
    return ShardyInnerCall(kSlotExecutableOptimizedProgram, args);
  }
  PJRT_Error* error =
      HoldsProgram(args) ? ReadWith(registration, args) : TooShort(args);
  ShardyReleaseCallback(registration);
  return error;
}

PJRT_Error* ShardyExecutableOptimizedProgram(
    AbiExecutableOptimizedProgramArgs* args) {
  ShardyAnswer* answer = NULL;
  if (ABI_HOLDS(AbiExecutableOptimizedProgramArgs, executable,
                args->struct_size)) {
    answer = ShardyAcquireAnswer(args->executable);
  }
  if (answer == NULL) return ReadInner(args);
  PJRT_Error* error = Tell(answer, args);
  ShardyReleaseAnswer(answer);
  return error;
}
