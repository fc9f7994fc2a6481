#include "test/csrc/compile_call.h"

char program_text[6] = "first";
const char options_text[8] = "options";

CompileCall MakeCompileCall(size_t args_tail, size_t program_tail) {
  const size_t args_size = sizeof(AbiClientCompileArgs) + args_tail;
  const size_t program_size = sizeof(AbiProgram) + program_tail;
  CompileCall call = {calloc(1, args_size), calloc(1, program_size)};
  CHECK(call.args != NULL && call.program != NULL);
  *call.program = (AbiProgram){
      program_size, NULL, program_text, sizeof(program_text) - 1, "hlo", 3};
  *call.args = (AbiClientCompileArgs){.struct_size = args_size,
                                      .program = call.program,
                                      .compile_options = options_text,
                                      .compile_options_size = 7};
  return call;
}

PJRT_Error* Compile(CompileCall call) {
  PJRT_Error* error = Call(shim.get_api(), kSlotClientCompile, call.args);
  CHECK(call.args->program == call.program);
  CHECK(call.args->compile_options == options_text);
  CHECK(call.args->compile_options_size == 7);
  CHECK(call.program->code == program_text);
  CHECK(call.program->code_size == 5);
  CHECK((error == NULL) == (call.args->executable != NULL));
  return error;
}

void FreeCompileCall(CompileCall call) {
  if (call.args->executable != NULL) {
    AbiLoadedExecutableDestroyArgs destroy = {sizeof(destroy), NULL,
                                              call.args->executable};
    CHECK(Call(shim.get_api(), kSlotLoadedExecutableDestroy, &destroy) == NULL);
  }
  free(call.args);
  free(call.program);
}

void ExpectCompiled(CompileCall call, const char* program,
                    const char* options) {
  const FakeLoadedExecutable* loaded =
      (const FakeLoadedExecutable*)call.args->executable;
  CHECK(loaded != NULL);
  CHECK(loaded->program_size == strlen(program));
  CHECK(memcmp(loaded->program, program, strlen(program)) == 0);
  CHECK(loaded->options_size == strlen(options));
  CHECK(memcmp(loaded->options, options, strlen(options)) == 0);
}

PJRT_Error* CompileThrough(PjrtShardy_CompileCallback callback, void* user,
                           CompileCall call) {
  shim.set_callback(callback, user);
  PJRT_Error* error = Compile(call);
  shim.set_callback(NULL, NULL);
  return error;
}

int Try(PjrtShardy_Compilation* compilation, const char* program) {
  return shim.compile(compilation, program, strlen(program), NULL, 0, "other",
                      5);
}
