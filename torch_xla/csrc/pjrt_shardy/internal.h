// What the sources of the shim share. Nothing here is exported.

#ifndef TORCH_XLA_CSRC_PJRT_SHARDY_INTERNAL_H_
#define TORCH_XLA_CSRC_PJRT_SHARDY_INTERNAL_H_

#include <stdbool.h>
#include <stddef.h>

#include "torch_xla/csrc/pjrt_shardy/inner.h"
#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"
#include "torch_xla/csrc/pjrt_shardy/pjrt_shardy.h"

// Our entries of the table, each named as PJRT names it (and kSlot* does).
// Those for errors are in inner.h.

// client.c
PJRT_Error* ShardyClientDestroy(AbiClientDestroyArgs* args);
PJRT_Error* ShardyClientAddressableDevices(
    AbiClientAddressableDevicesArgs* args);
// client_compile.c
PJRT_Error* ShardyClientCompile(AbiClientCompileArgs* args);
// optimized_program.c
PJRT_Error* ShardyExecutableOptimizedProgram(
    AbiExecutableOptimizedProgramArgs* args);
// answers.c: these know which executables have an answer of our own.
PJRT_Error* ShardyLoadedExecutableGetExecutable(
    AbiLoadedExecutableGetExecutableArgs* args);
PJRT_Error* ShardyLoadedExecutableDestroy(AbiLoadedExecutableDestroyArgs* args);
PJRT_Error* ShardyExecutableDestroy(AbiExecutableDestroyArgs* args);
// execute.c
PJRT_Error* ShardyLoadedExecutableExecute(AbiLoadedExecutableExecuteArgs* args);

// open.c

const AbiApi* GetPjrtApi(void);

// answers.c

// What an executable answers in place of the inner plugin, as a program and its
// format. Counted: each executable that has it holds one reference.
typedef struct {
  int references;
  size_t program_size;
  size_t format_size;
  const char* format;  // in the same allocation, as the program is
  char program[];
} ShardyAnswer;

// A reference to an answer, ready to be given to an executable.
typedef struct ShardyAnswerLink ShardyAnswerLink;

// A new answer, copied; NULL without memory.
ShardyAnswerLink* ShardyMakeAnswer(const char* program, size_t program_size,
                                   const char* format, size_t format_size);
// Frees one that was not given away; NULL is none.
void ShardyFreeAnswer(ShardyAnswerLink* link);
// Gives it to a loaded executable, and to those that will be got from it.
void ShardyGiveAnswer(ShardyAnswerLink* link, const void* holder);
// The answer of an executable, or NULL. Valid until ShardyReleaseAnswer, its
// format until the executable is destroyed.
ShardyAnswer* ShardyAcquireAnswer(const void* holder);
void ShardyReleaseAnswer(ShardyAnswer* answer);

// kept.c

// Has an executable that the framework gets now kept under `id` once the
// framework destroys it. Without memory it is not.
void ShardyKeep(PJRT_LoadedExecutable* executable, const PJRT_Client* client,
                uint64_t id);
// An executable of this client's that lies idle under `id`, or NULL. It is the
// caller's then, and not known here any more.
PJRT_LoadedExecutable* ShardyTakeKept(const PJRT_Client* client, uint64_t id);
// Whether an executable that the framework destroys is kept instead.
bool ShardyGiveBack(PJRT_LoadedExecutable* executable);
// Ends what lies idle of a client's, and forgets the rest.
void ShardyEndKept(const PJRT_Client* client);

// compilation.c

struct PjrtShardy_Compilation {
  const AbiClientCompileArgs* args;  // the framework's, read only
  AbiClientCompileArgs* inner_args;  // copies, as large as the framework's
  AbiProgram* inner_program;
  // The last result: an executable, in inner_args, or the inner plugin's error.
  bool compiled;
  PJRT_Error* inner_error;
  ShardyAnswerLink* answer;  // to be given to that executable, or NULL
  PJRT_Error* failure;       // of our own, from PjrtShardy_Fail
  uint64_t keep_id;  // of the executable, from PjrtShardy_Reuse...; or 0
  // What the control functions lend out.
  char* message;
  size_t message_size;
  char* optimized;
  char* optimized_format;
  char* serialized;
};

// Turns the state that the callback left into the framework's result: writes
// the outputs to `args` and returns NULL, or returns an error. Ownership of
// either passes to the caller; all else is freed.
PJRT_Error* ShardyFinishCompilation(PjrtShardy_Compilation* compilation,
                                    AbiClientCompileArgs* args);

// optimized_program.c

// Asks the inner plugin for the size and then for the bytes. On success the
// caller frees `args->program->code`, which has room for one byte more. The
// format stays the plugin's.
PJRT_Error* ShardyReadProgram(AbiExecutableOptimizedProgramArgs* args);

// profiler.c

// The inner plugin's extensions, before them a profiler that the runtime can
// use where the plugin has none: one that collects nothing.
void* ShardyExtensions(void* inner);

// callback.c

typedef struct ShardyRegistration {
  PjrtShardy_CompileCallback callback;
  void* user;
  int references;
  bool awaited;
} ShardyRegistration;

// The callback in force, or NULL if there is none. Each success must be paired
// with one ShardyReleaseCallback on the same thread.
ShardyRegistration* ShardyAcquireCallback(void);
void ShardyReleaseCallback(ShardyRegistration* registration);
// Has `call(arguments)`, which calls the callback, run; returns when it has.
void ShardyRunCallback(void (*call)(void* arguments), void* arguments);

#endif  // TORCH_XLA_CSRC_PJRT_SHARDY_INTERNAL_H_
