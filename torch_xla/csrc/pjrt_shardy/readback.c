// PJRT_Executable_OptimizedProgram: what the framework reads back from an
// executable goes through the callback, unless it has an answer of our own
// (answers.c).
//
// The framework asks twice, for the size and for the bytes, and must get the
// same program both times: what the first call found is kept for the second.
// Nothing tells us that the second will not come, so only the newest few are
// kept; what is not kept any more is made again.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

static const char kName[] = "PJRT_Executable_OptimizedProgram";

struct PjrtShardy_Readback {
  char* program;  // from PjrtShardy_ReplaceProgram, or NULL
  size_t program_size;
  PJRT_Error* failure;
};

// A program that was announced to the framework, or that is to be.
typedef struct {
  const PJRT_Executable* executable;
  size_t inner_size;  // of the inner plugin's program
  char* program;      // NULL: there is none
  size_t program_size;
} Kept;

enum { kMaxKept = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Kept kept_programs[kMaxKept];  // the oldest first
static int kept_count = 0;

// Takes the executable's out; its `program` is NULL if none is kept.
static Kept TakeLocked(const PJRT_Executable* executable) {
  for (int i = 0; i < kept_count; ++i) {
    if (kept_programs[i].executable != executable) continue;
    Kept taken = kept_programs[i];
    --kept_count;
    memmove(&kept_programs[i], &kept_programs[i + 1],
            (size_t)(kept_count - i) * sizeof(Kept));
    return taken;
  }
  return (Kept){.executable = executable};
}

static Kept Take(const PJRT_Executable* executable) {
  pthread_mutex_lock(&mutex);
  Kept taken = TakeLocked(executable);
  pthread_mutex_unlock(&mutex);
  return taken;
}

static void Keep(Kept kept) {
  pthread_mutex_lock(&mutex);
  // Another thread may have asked about the same executable meanwhile.
  Kept replaced = TakeLocked(kept.executable);
  if (kept_count == kMaxKept) {
    replaced = TakeLocked(kept_programs[0].executable);
  }
  kept_programs[kept_count++] = kept;
  pthread_mutex_unlock(&mutex);
  free(replaced.program);
}

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

// Reads the inner plugin's program and lets the callback, if there is one,
// replace it. On success `kept` owns the result.
static PJRT_Error* MakeProgram(const ShardyRegistration* registration,
                               AbiExecutableOptimizedProgramArgs* inner_args,
                               Kept* kept) {
  PJRT_Error* error = ShardyReadProgram(inner_args);
  if (error != NULL) return error;
  const AbiProgram* program = inner_args->program;
  PjrtShardy_Readback readback = {NULL, 0, NULL};
  if (registration != NULL) {
    ShardyRunCallback(CallBack,
                      &(CallbackCall){registration, &readback, program});
  }
  if (readback.failure != NULL) {
    free(readback.program);
    free(program->code);
    return readback.failure;
  }
  kept->inner_size = program->code_size;
  kept->program = program->code;
  kept->program_size = program->code_size;
  if (readback.program != NULL) {
    free(program->code);
    kept->program = readback.program;
    kept->program_size = readback.program_size;
  }
  return NULL;
}

// Drops what is kept if the inner plugin's program has another size than then:
// the executable is gone, and this is another at the same address. As good as
// it gets without a look at every executable's end; the bytes cannot tell, as
// XLA orders protobuf maps differently each time. Leaves the format, and
// whatever else the plugin says, in `inner_args`.
static PJRT_Error* DropStale(AbiExecutableOptimizedProgramArgs* inner_args,
                             Kept* kept) {
  AbiProgram* program = inner_args->program;
  program->code = NULL;
  PJRT_Error* error =
      ShardyInnerCall(kSlotExecutableOptimizedProgram, inner_args);
  if (error == NULL && program->code_size == kept->inner_size) return NULL;
  free(kept->program);
  kept->program = NULL;
  return error;
}

static PJRT_Error* TooSmall(size_t buffer_size, size_t program_size) {
  return ShardyError(kAbiInvalidArgument,
                     "%s: the buffer has %zu bytes, the program needs %zu",
                     kName, buffer_size, program_size);
}

// Writes the answer to the framework's structs: the size, and the bytes if
// there is a place for them. `kept` passes to the callee.
static PJRT_Error* Answer(AbiExecutableOptimizedProgramArgs* args,
                          const AbiExecutableOptimizedProgramArgs* inner_args,
                          Kept kept) {
  AbiProgram* program = args->program;
  char* code = program->code;
  if (code != NULL) {
    if (program->code_size < kept.program_size) {
      free(kept.program);
      return TooSmall(program->code_size, kept.program_size);
    }
    memcpy(code, kept.program, kept.program_size);
  }
  // All of both: a later version may have outputs that we do not know.
  memcpy(program, inner_args->program, program->struct_size);
  program->code = code;
  program->code_size = kept.program_size;
  memcpy(args, inner_args, args->struct_size);
  args->program = program;
  if (code != NULL) {
    free(kept.program);
  } else {
    Keep(kept);
  }
  return NULL;
}

// Answers from `kept`, which passes to the callee, or makes the program anew.
static PJRT_Error* ReadWith(const ShardyRegistration* registration, Kept kept,
                            AbiExecutableOptimizedProgramArgs* args) {
  AbiExecutableOptimizedProgramArgs* inner_args = malloc(args->struct_size);
  AbiProgram* inner_program = malloc(args->program->struct_size);
  PJRT_Error* error = NULL;
  if (inner_args != NULL && inner_program != NULL) {
    memcpy(inner_args, args, args->struct_size);
    memcpy(inner_program, args->program, args->program->struct_size);
    inner_args->program = inner_program;
    if (kept.program != NULL) error = DropStale(inner_args, &kept);
    if (error == NULL && kept.program == NULL) {
      error = MakeProgram(registration, inner_args, &kept);
    }
    if (error == NULL) error = Answer(args, inner_args, kept);
  } else {
    free(kept.program);
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
  if (program->code != NULL) {
    if (program->code_size < answer->program_size) {
      return TooSmall(program->code_size, answer->program_size);
    }
    memcpy(program->code, answer->program, answer->program_size);
  }
  program->code_size = answer->program_size;
  program->format = answer->format;
  program->format_size = answer->format_size;
  return NULL;
}

// What the callback made of the inner plugin's program, or that program. What
// was announced is what is delivered, even if the callback was replaced in
// between.
static PJRT_Error* ReadInner(AbiExecutableOptimizedProgramArgs* args) {
  ShardyRegistration* registration =
      ShardyAcquireCallback(kShardyReadbackCallback);
  PJRT_Error* error = NULL;
  if (HoldsProgram(args)) {
    Kept kept = Take(args->executable);
    if (args->program->code == NULL) {
      free(kept.program);
      kept.program = NULL;
    }
    error = registration != NULL || kept.program != NULL
                ? ReadWith(registration, kept, args)
                : ShardyInnerCall(kSlotExecutableOptimizedProgram, args);
  } else if (registration == NULL) {
    error = ShardyInnerCall(kSlotExecutableOptimizedProgram, args);
  } else {
    error = TooShort(args);
  }
  if (registration != NULL) ShardyReleaseCallback(registration);
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
