// A compile request and what the scenarios do with it.

#ifndef TEST_CSRC_COMPILE_REQUEST_H_
#define TEST_CSRC_COMPILE_REQUEST_H_

#include "test/csrc/driver.h"

// A request whose structs may be longer than any known version's.
typedef struct {
  AbiCompileArgs* args;
  AbiProgram* program;
} Request;

// The program and the options of every request.
extern char program_text[6];
extern const char options_text[8];

// Structs that are longer than known by so many bytes, and exactly that long.
Request MakeRequest(size_t args_tail, size_t program_tail);
// Frees the request, and the executable if there is one.
void FreeRequest(Request request);
// Compiles; what the framework handed in must be as it was.
PJRT_Error* Compile(Request request);
// Compiles once with a callback that gets `user`.
PJRT_Error* CompileThrough(PjrtShardy_CompileCallback callback, void* user,
                           Request request);
// Compiles a program within a callback, with the options "other".
int Try(PjrtShardy_Compilation* compilation, const char* program);
// Checks from what the executable was made.
void ExpectCompiled(Request request, const char* program, const char* options);

#endif  // TEST_CSRC_COMPILE_REQUEST_H_
