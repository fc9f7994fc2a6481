#include "test/csrc/compile_request.h"

char program_text[6] = "first";
const char options_text[8] = "options";

Request MakeRequest(size_t args_tail, size_t program_tail) {
  const size_t args_size = sizeof(AbiCompileArgs) + args_tail;
  const size_t program_size = sizeof(AbiProgram) + program_tail;
  Request request = {calloc(1, args_size), calloc(1, program_size)};
  CHECK(request.args != NULL && request.program != NULL);
  *request.program = (AbiProgram){
      program_size, NULL, program_text, sizeof(program_text) - 1, "hlo", 3};
  *request.args = (AbiCompileArgs){.struct_size = args_size,
                                   .program = request.program,
                                   .compile_options = options_text,
                                   .compile_options_size = 7};
  return request;
}

PJRT_Error* Compile(Request request) {
  PJRT_Error* error = Call(shim.get_api(), kSlotClientCompile, request.args);
  CHECK(request.args->program == request.program);
  CHECK(request.args->compile_options == options_text);
  CHECK(request.args->compile_options_size == 7);
  CHECK(request.program->code == program_text);
  CHECK(request.program->code_size == 5);
  CHECK((error == NULL) == (request.args->executable != NULL));
  return error;
}

void FreeRequest(Request request) {
  if (request.args->executable != NULL) {
    AbiLoadedExecutableDestroyArgs destroy = {sizeof(destroy), NULL,
                                              request.args->executable};
    CHECK(Call(shim.get_api(), kSlotLoadedExecutableDestroy, &destroy) == NULL);
  }
  free(request.args);
  free(request.program);
}

void ExpectCompiled(Request request, const char* program, const char* options) {
  const FakeLoadedExecutable* loaded =
      (const FakeLoadedExecutable*)request.args->executable;
  CHECK(loaded != NULL);
  CHECK(loaded->program_size == strlen(program));
  CHECK(memcmp(loaded->program, program, strlen(program)) == 0);
  CHECK(loaded->options_size == strlen(options));
  CHECK(memcmp(loaded->options, options, strlen(options)) == 0);
}

PJRT_Error* CompileThrough(PjrtShardy_CompileCallback callback, void* user,
                           Request request) {
  shim.set_callback(callback, user);
  PJRT_Error* error = Compile(request);
  shim.set_callback(NULL, NULL);
  return error;
}

int Try(PjrtShardy_Compilation* compilation, const char* program) {
  return shim.compile(compilation, program, strlen(program), "other", 5);
}
