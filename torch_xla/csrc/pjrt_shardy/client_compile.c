// PJRT_Client_Compile: hands each program to the callback, and what comes of it
// back to the framework. What the callback does with it is in compilation.c.

#include <stdlib.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// Refuses structs that do not hold what the callback has to be told.
static PJRT_Error* CheckArgs(const AbiClientCompileArgs* args) {
  if (!ABI_HOLDS(AbiClientCompileArgs, executable, args->struct_size)) {
    return ShardyTooShort(kSlotClientCompile, args->struct_size,
                          ABI_SIZE(AbiClientCompileArgs, executable));
  }
  if (args->program == NULL) {
    return ShardyError(kAbiInvalidArgument,
                       "PJRT_Client_Compile: no program was given");
  }
  if (!ABI_HOLDS(AbiProgram, format_size, args->program->struct_size)) {
    return ShardyError(kAbiInvalidArgument,
                       "PJRT_Client_Compile: the program struct has %zu bytes, "
                       "at least %zu are needed",
                       args->program->struct_size,
                       ABI_SIZE(AbiProgram, format_size));
  }
  return NULL;
}

typedef struct {
  const ShardyRegistration* registration;
  PjrtShardy_Compilation* compilation;
  const PjrtShardy_CompileRequest* request;
} CallbackCall;

static void CallBack(void* arguments) {
  const CallbackCall* call = arguments;
  call->registration->callback(call->compilation, call->request,
                               call->registration->user);
}

static PJRT_Error* CompileWith(const ShardyRegistration* registration,
                               AbiClientCompileArgs* args) {
  PJRT_Error* error = CheckArgs(args);
  if (error != NULL) return error;
  PjrtShardy_Compilation compilation = {.args = args};
  compilation.inner_args = malloc(args->struct_size);
  compilation.inner_program = malloc(args->program->struct_size);
  if (compilation.inner_args != NULL && compilation.inner_program != NULL) {
    const AbiProgram* program = args->program;
    PjrtShardy_CompileRequest request = {
        sizeof(request),           program->code,        program->code_size,
        program->format,           program->format_size, args->compile_options,
        args->compile_options_size};
    ShardyRunCallback(CallBack,
                      &(CallbackCall){registration, &compilation, &request});
    error = ShardyFinishCompilation(&compilation, args);
  } else {
    error = ShardyNoMemory(kSlotClientCompile);
  }
  free(compilation.inner_args);
  free(compilation.inner_program);
  return error;
}

// Compiles through the callback, or straight if there is none. The framework
// owns the executable or the error, which may be the inner plugin's own.
PJRT_Error* ShardyClientCompile(AbiClientCompileArgs* args) {
  ShardyRegistration* registration = ShardyAcquireCallback();
  if (registration == NULL) {
    return ShardyInnerCall(kSlotClientCompile, args);
  }
  PJRT_Error* error = CompileWith(registration, args);
  ShardyReleaseCallback(registration);
  return error;
}
