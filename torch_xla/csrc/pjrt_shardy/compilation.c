// PjrtShardy_Compilation, one compile in flight: what the callback may do with
// it, and the result.

#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// Frees what the last call on the compilation lent out. A caller may hand that
// on: only when nothing reads the arguments any more.
static void ForgetLoans(PjrtShardy_Compilation* compilation) {
  free(compilation->message);
  free(compilation->optimized);
  free(compilation->optimized_format);
  free(compilation->serialized);
  compilation->message = NULL;
  compilation->message_size = 0;
  compilation->optimized = NULL;
  compilation->optimized_format = NULL;
  compilation->serialized = NULL;
}

// Keeps the error's message, returns its code. The error stays the caller's.
static int KeepMessage(PjrtShardy_Compilation* compilation, PJRT_Error* error) {
  AbiErrorMessageArgs args = {ABI_SIZE(AbiErrorMessageArgs, message_size), NULL,
                              error, "", 0};
  ShardyErrorMessage(&args);
  char* copy = malloc(args.message_size + 1);
  if (copy != NULL) {
    if (args.message_size > 0) memcpy(copy, args.message, args.message_size);
    copy[args.message_size] = '\0';
    compilation->message = copy;
    compilation->message_size = args.message_size;
  }
  return ShardyErrorCode(error);
}

static void ForgetAnswer(PjrtShardy_Compilation* compilation) {
  ShardyFreeAnswer(compilation->answer);
  compilation->answer = NULL;
}

// Frees the last result, executable or error, and what was to be read from it.
static void ForgetResult(PjrtShardy_Compilation* compilation) {
  if (compilation->compiled) {
    AbiLoadedExecutableDestroyArgs args = {
        ABI_SIZE(AbiLoadedExecutableDestroyArgs, executable), NULL,
        compilation->inner_args->executable};
    ShardyFreeError(ShardyInnerCall(kSlotLoadedExecutableDestroy, &args));
    compilation->compiled = false;
  }
  compilation->keep_id = 0;
  ShardyFreeError(compilation->inner_error);
  compilation->inner_error = NULL;
  ForgetAnswer(compilation);
}

SHARDY_EXPORT int PjrtShardy_CompileProgram(
    PjrtShardy_Compilation* compilation, const char* program,
    size_t program_size, const char* format, size_t format_size,
    const char* options, size_t options_size) {
  ForgetResult(compilation);
  const AbiClientCompileArgs* args = compilation->args;
  AbiProgram* inner_program = compilation->inner_program;
  memcpy(inner_program, args->program, args->program->struct_size);
  inner_program->code = (char*)program;  // the ABI lacks the const
  inner_program->code_size = program_size;
  if (format != NULL) {
    inner_program->format = format;
    inner_program->format_size = format_size;
  }
  AbiClientCompileArgs* inner_args = compilation->inner_args;
  memcpy(inner_args, args, args->struct_size);
  inner_args->program = inner_program;
  inner_args->compile_options = options;
  inner_args->compile_options_size = options_size;
  inner_args->executable = NULL;
  PJRT_Error* error = ShardyInnerCall(kSlotClientCompile, inner_args);
  ForgetLoans(compilation);
  compilation->compiled = error == NULL;
  compilation->inner_error = error;
  return error == NULL ? kAbiOk : KeepMessage(compilation, error);
}

SHARDY_EXPORT const char* PjrtShardy_CompileMessage(
    PjrtShardy_Compilation* compilation, size_t* size) {
  if (size != NULL) *size = compilation->message_size;
  return compilation->message != NULL ? compilation->message : "";
}

// Reads the optimized program, an AbiProgram, into the compilation's buffers.
static PJRT_Error* ReadOptimized(PjrtShardy_Compilation* compilation,
                                 PJRT_Executable* executable, void* out) {
  AbiProgram* program = out;
  AbiExecutableOptimizedProgramArgs args = {
      ABI_SIZE(AbiExecutableOptimizedProgramArgs, program), NULL, executable,
      program};
  PJRT_Error* error = ShardyReadProgram(&args);
  if (error != NULL) return error;
  compilation->optimized = program->code;
  // The format belongs to the plugin, perhaps to the executable.
  char* format = malloc(program->format_size + 1);
  if (format == NULL) {
    return ShardyError(kAbiResourceExhausted,
                       "no memory for the name of a program format");
  }
  if (program->format_size > 0) {
    memcpy(format, program->format, program->format_size);
  }
  compilation->optimized_format = format;
  return NULL;
}

// Reads something of the last result into `out`.
typedef PJRT_Error* (*Reader)(PjrtShardy_Compilation* compilation,
                              PJRT_Executable* executable, void* out);

// Returns the code of an error, whose message it keeps.
static int ReadResult(PjrtShardy_Compilation* compilation, Reader read,
                      void* out) {
  ForgetLoans(compilation);
  PJRT_Error* error = NULL;
  if (compilation->compiled) {
    AbiLoadedExecutableGetExecutableArgs get = {
        ABI_SIZE(AbiLoadedExecutableGetExecutableArgs, executable), NULL,
        compilation->inner_args->executable, NULL};
    error = ShardyInnerCall(kSlotLoadedExecutableGetExecutable, &get);
    if (error == NULL) {
      error = read(compilation, get.executable, out);
      AbiExecutableDestroyArgs destroy = {
          ABI_SIZE(AbiExecutableDestroyArgs, executable), NULL, get.executable};
      ShardyFreeError(ShardyInnerCall(kSlotExecutableDestroy, &destroy));
    }
  } else {
    error = ShardyError(
        kAbiFailedPrecondition,
        "there is no compiled program: call PjrtShardy_CompileProgram first, "
        "and look at what it returns");
  }
  if (error != NULL) KeepMessage(compilation, error);
  return ShardyTakeCode(error);
}

SHARDY_EXPORT int PjrtShardy_CompiledProgram(
    PjrtShardy_Compilation* compilation, const char** program,
    size_t* program_size, const char** format, size_t* format_size) {
  AbiProgram read = {.struct_size = ABI_SIZE(AbiProgram, format_size),
                     .format = ""};
  const int code = ReadResult(compilation, ReadOptimized, &read);
  const bool is_read = code == kAbiOk;
  *program = is_read ? compilation->optimized : NULL;
  *program_size = is_read ? read.code_size : 0;
  *format = is_read ? compilation->optimized_format : NULL;
  *format_size = is_read ? read.format_size : 0;
  return code;
}

static PJRT_Error* ReadMemory(PjrtShardy_Compilation* compilation,
                              PJRT_Executable* executable, void* out) {
  (void)compilation;
  AbiExecutableGetCompiledMemoryStatsArgs* args = out;
  args->executable = executable;
  return ShardyInnerCall(kSlotExecutableGetCompiledMemoryStats, args);
}

SHARDY_EXPORT int PjrtShardy_CompiledMemory(PjrtShardy_Compilation* compilation,
                                            PjrtShardy_Memory* memory) {
  AbiExecutableGetCompiledMemoryStatsArgs args = {
      .struct_size = ABI_SIZE(AbiExecutableGetCompiledMemoryStatsArgs,
                              peak_memory_in_bytes)};
  const int code = ReadResult(compilation, ReadMemory, &args);
  if (code != kAbiOk) return code;
  const PjrtShardy_Memory told = {.struct_size = memory->struct_size,
                                  .arguments = args.argument_size_in_bytes,
                                  .outputs = args.output_size_in_bytes,
                                  .aliases = args.alias_size_in_bytes,
                                  .temporaries = args.temp_size_in_bytes,
                                  .code = args.generated_code_size_in_bytes};
  const size_t known =
      memory->struct_size < sizeof(told) ? memory->struct_size : sizeof(told);
  memcpy(memory, &told, known);
  return kAbiOk;
}

// Copies the serialized executable into the compilation's buffer, and its size.
static PJRT_Error* ReadSerialized(PjrtShardy_Compilation* compilation,
                                  PJRT_Executable* executable, void* size) {
  AbiExecutableSerializeArgs args = {
      ABI_SIZE(AbiExecutableSerializeArgs, serialized_executable_deleter),
      NULL,
      executable,
      NULL,
      0,
      NULL,
      NULL};
  PJRT_Error* error = ShardyInnerCall(kSlotExecutableSerialize, &args);
  if (error != NULL) return error;
  const size_t bytes = args.serialized_bytes_size;
  char* copy = malloc(bytes + 1);
  if (copy != NULL && bytes > 0) memcpy(copy, args.serialized_bytes, bytes);
  if (args.serialized_executable_deleter != NULL) {
    args.serialized_executable_deleter(args.serialized_executable);
  }
  if (copy == NULL) {
    return ShardyError(kAbiResourceExhausted,
                       "no memory for a serialized executable of %zu bytes",
                       bytes);
  }
  compilation->serialized = copy;
  *(size_t*)size = bytes;
  return NULL;
}

SHARDY_EXPORT int PjrtShardy_SerializedExecutable(
    PjrtShardy_Compilation* compilation, const char** bytes, size_t* size) {
  *size = 0;
  const int code = ReadResult(compilation, ReadSerialized, size);
  *bytes = compilation->serialized;
  return code;
}

// Makes an executable that was not compiled the last result.
static void SetResult(PjrtShardy_Compilation* compilation,
                      PJRT_LoadedExecutable* executable) {
  AbiClientCompileArgs* inner_args = compilation->inner_args;
  memcpy(inner_args, compilation->args, compilation->args->struct_size);
  inner_args->executable = executable;
  compilation->compiled = true;
}

SHARDY_EXPORT int PjrtShardy_LoadExecutable(PjrtShardy_Compilation* compilation,
                                            const char* bytes, size_t size) {
  ForgetResult(compilation);
  AbiExecutableDeserializeAndLoadArgs args = {
      ABI_SIZE(AbiExecutableDeserializeAndLoadArgs,
               overridden_serialized_compile_options_size),
      NULL,
      compilation->args->client,
      bytes,
      size,
      NULL,
      NULL,
      0};
  PJRT_Error* error = ShardyInnerCall(kSlotExecutableDeserializeAndLoad, &args);
  ForgetLoans(compilation);
  if (error == NULL) SetResult(compilation, args.loaded_executable);
  compilation->inner_error = error;
  return error == NULL ? kAbiOk : KeepMessage(compilation, error);
}

SHARDY_EXPORT int PjrtShardy_ReuseExecutable(
    PjrtShardy_Compilation* compilation, uint64_t id) {
  PJRT_LoadedExecutable* executable =
      ShardyTakeKept(compilation->args->client, id);
  if (executable == NULL) return kAbiNotFound;
  ForgetResult(compilation);
  ForgetLoans(compilation);
  SetResult(compilation, executable);
  compilation->keep_id = id;
  return kAbiOk;
}

SHARDY_EXPORT void PjrtShardy_KeepExecutable(
    PjrtShardy_Compilation* compilation, uint64_t id) {
  compilation->keep_id = id;
}

SHARDY_EXPORT void PjrtShardy_SetOptimizedProgram(
    PjrtShardy_Compilation* compilation, const char* program,
    size_t program_size, const char* format, size_t format_size) {
  ForgetAnswer(compilation);
  compilation->answer =
      ShardyMakeAnswer(program, program_size, format, format_size);
  if (compilation->answer == NULL) {
    ShardyFreeError(compilation->failure);
    compilation->failure =
        ShardyError(kAbiResourceExhausted,
                    "no memory for a program of %zu bytes", program_size);
  }
  ForgetLoans(compilation);
}

SHARDY_EXPORT void PjrtShardy_Fail(PjrtShardy_Compilation* compilation,
                                   int code, const char* message,
                                   size_t message_size) {
  ShardyFreeError(compilation->failure);
  compilation->failure = ShardyErrorFromBytes(code, message, message_size);
  ForgetLoans(compilation);
}

PJRT_Error* ShardyFinishCompilation(PjrtShardy_Compilation* compilation,
                                    AbiClientCompileArgs* args) {
  ForgetLoans(compilation);
  if (compilation->failure != NULL) {
    ForgetResult(compilation);
    return compilation->failure;
  }
  if (compilation->compiled) {
    // All of it: a later version may have outputs that we do not know.
    AbiClientCompileArgs* inner_args = compilation->inner_args;
    inner_args->program = args->program;
    inner_args->compile_options = args->compile_options;
    inner_args->compile_options_size = args->compile_options_size;
    memcpy(args, inner_args, args->struct_size);
    if (compilation->answer != NULL) {
      ShardyGiveAnswer(compilation->answer, args->executable);
    }
    if (compilation->keep_id != 0) {
      ShardyKeep(args->executable, args->client, compilation->keep_id);
    }
    return NULL;
  }
  ForgetAnswer(compilation);
  if (compilation->inner_error != NULL) return compilation->inner_error;
  return ShardyError(kAbiInternal,
                     "the registered compile callback compiled nothing: it "
                     "must call PjrtShardy_CompileProgram or PjrtShardy_Fail");
}
