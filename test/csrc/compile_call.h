// A framework's call of PJRT_Client_Compile, and what the scenarios do with it.

#ifndef TEST_CSRC_COMPILE_CALL_H_
#define TEST_CSRC_COMPILE_CALL_H_

#include "test/csrc/driver.h"

// Its structs may be longer than any known version's.
typedef struct {
  AbiClientCompileArgs* args;
  AbiProgram* program;
} CompileCall;

// The program and the options of every call.
extern char program_text[6];
extern const char options_text[8];

// Structs that are longer than known by so many bytes, and exactly that long.
CompileCall MakeCompileCall(size_t args_tail, size_t program_tail);
// Frees the call, and the executable if there is one.
void FreeCompileCall(CompileCall call);
// Compiles; what the framework handed in must be as it was.
PJRT_Error* Compile(CompileCall call);
// Compiles once with a callback that gets `user`.
PJRT_Error* CompileThrough(PjrtShardy_CompileCallback callback, void* user,
                           CompileCall call);
// Compiles a program within a callback, with the options "other".
int Try(PjrtShardy_Compilation* compilation, const char* program);
// Checks from what the executable was made.
void ExpectCompiled(CompileCall call, const char* program, const char* options);

#endif  // TEST_CSRC_COMPILE_CALL_H_
