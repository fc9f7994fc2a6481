// Compile through the callback.

#include "test/csrc/compile_call.h"

// Without a callback the plugin gets the framework's very struct.
static void CompilePass(void) {
  const AbiApi* api = OpenInner();
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(Compile(call) == NULL);
  CHECK(Record()->compile_args == call.args);
  ExpectCompiled(call, "first", "options");
  FreeCompileCall(call);
  AbiClientCompileArgs args = {.struct_size = 8};
  ExpectError(api, Call(api, kSlotClientCompile, &args), kAbiInvalidArgument,
              "fake: ClientCompileArgs has 8");
  ExpectNothingAlive();
}

static void Replace(PjrtShardy_Compilation* compilation,
                    const PjrtShardy_CompileRequest* request, void* user) {
  CHECK(request->struct_size == sizeof(*request));
  CHECK(request->program == program_text && request->program_size == 5);
  CHECK(request->format_size == 3);
  CHECK(memcmp(request->format, "hlo", 3) == 0);
  CHECK(request->options == options_text && request->options_size == 7);
  ++*(int*)user;
  CHECK(Try(compilation, "replaced") == 0);
  size_t size = 1;
  CHECK(strcmp(shim.message(compilation, &size), "") == 0 && size == 0);
}

static void CompileReplaced(void) {
  OpenInner();
  const size_t tails[][2] = {{0, 0}, {8, 0}, {0, 8}, {512, 40}};
  int calls = 0;
  for (int i = 0; i < 4; ++i) {
    CompileCall call = MakeCompileCall(tails[i][0], tails[i][1]);
    CHECK(CompileThrough(Replace, &calls, call) == NULL);
    ExpectCompiled(call, "replaced", "other");
    if (tails[i][0] > 0) {
      const char* bytes = (const char*)call.args;
      CHECK(bytes[call.args->struct_size - 1] == kFakeTailOutput);
    }
    FreeCompileCall(call);
  }
  CHECK(calls == 4);
  ExpectNothingAlive();
}

// Structs that end too early are refused before the callback sees them.
static void CompileShort(void) {
  const AbiApi* api = OpenInner();
  int calls = 0;
  shim.set_callback(Replace, &calls);
  for (size_t size = 8; size < sizeof(AbiClientCompileArgs); size += 8) {
    AbiClientCompileArgs* args = calloc(1, size);
    CHECK(args != NULL);
    args->struct_size = size;
    ExpectError(api, Call(api, kSlotClientCompile, args), kAbiInvalidArgument,
                "at least 56 are needed");
    free(args);
  }
  AbiClientCompileArgs args = {.struct_size = sizeof(args)};
  ExpectError(api, Call(api, kSlotClientCompile, &args), kAbiInvalidArgument,
              "no program");
  for (size_t size = 8; size < sizeof(AbiProgram); size += 8) {
    AbiProgram* program = calloc(1, size);
    CHECK(program != NULL);
    program->struct_size = size;
    args.program = program;
    ExpectError(api, Call(api, kSlotClientCompile, &args), kAbiInvalidArgument,
                "at least 48 are needed");
    free(program);
  }
  CHECK(calls == 0);
}

// Compiles each of a NULL-ended list of programs; "bad" ones must fail.
static void TryAll(PjrtShardy_Compilation* compilation,
                   const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  for (const char** program = user; *program != NULL; ++program) {
    const int code = Try(compilation, *program);
    size_t size = 0;
    const char* message = shim.message(compilation, &size);
    CHECK(size == strlen(message));
    CHECK(shim.message(compilation, NULL) == message);
    if (strncmp(*program, "bad", 3) == 0) {
      CHECK(code == kAbiUnimplemented);
      CHECK_HAS(message, *program);
    } else {
      CHECK(code == 0 && size == 0);
    }
    // Only the last result is alive.
    CHECK(Record()->live_errors == (code != 0));
    CHECK(Record()->live_loaded_executables == (code == 0));
  }
}

static void CompileInnerError(void) {
  const AbiApi* api = OpenInner();
  const char* programs[][4] = {{"bad one", NULL},
                               {"good", "bad two", NULL},
                               {"bad three", "bad four", NULL}};
  const char* texts[] = {"bad one", "bad two", "bad four"};
  for (int i = 0; i < 3; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(TryAll, programs[i], call);
    CHECK(error == Record()->error);  // the plugin's own, not a copy
    ExpectError(api, error, kAbiUnimplemented, texts[i]);
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

static void CompileTwice(void) {
  OpenInner();
  const char* programs[][4] = {{"good", "better", NULL},
                               {"bad", "better", NULL},
                               {"good", "bad", "better", NULL}};
  for (int i = 0; i < 3; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    CHECK(CompileThrough(TryAll, programs[i], call) == NULL);
    ExpectCompiled(call, "better", "other");
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

// Each in a format that is not the request's, and then in that.
static void TryFormats(PjrtShardy_Compilation* compilation,
                       const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  (void)user;
  char format[] = "mlir and more";
  CHECK(shim.compile(compilation, "one", 3, format, 4, "", 0) == 0);
  CHECK(strcmp(Record()->compile_format, "mlir") == 0);
  CHECK(Try(compilation, "two") == 0);
  CHECK(strcmp(Record()->compile_format, "hlo") == 0);
  CHECK(shim.compile(compilation, "bad", 3, format, 4, "", 0) ==
        kAbiUnimplemented);
  // One that the compilation lent, and that it frees.
  size_t size;
  const char* message = shim.message(compilation, &size);
  CHECK(shim.compile(compilation, "three", 5, message, size, "", 0) ==
        kAbiInvalidArgument);
  CHECK_HAS(shim.message(compilation, NULL), "unknown format fake: c");
  CHECK(shim.compile(compilation, "last", 4, format, 4, "", 0) == 0);
}

static void CompileFormat(void) {
  OpenInner();
  CompileCall call = MakeCompileCall(0, 8);
  CHECK(CompileThrough(TryFormats, NULL, call) == NULL);
  CHECK(strcmp(Record()->compile_format, "mlir") == 0);
  CHECK(call.program->format_size == 3);
  ExpectCompiled(call, "last", "");
  FreeCompileCall(call);
  ExpectNothingAlive();
}

typedef struct {
  const char* program;  // compiled before, if not NULL
  int code;
  int expected;
} Failure;

static void FailAfter(PjrtShardy_Compilation* compilation,
                      const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  const Failure* failure = user;
  shim.fail(compilation, failure->code, "overridden", 10);
  if (failure->program != NULL) Try(compilation, failure->program);
  char text[] = "Python said no, and more";
  shim.fail(compilation, failure->code, text, 14);
  memset(text, 'x', sizeof(text));
}

static void CompileFail(void) {
  const AbiApi* api = OpenInner();
  const Failure failures[] = {{NULL, 13, 13}, {"good", 3, 3}, {"bad", 16, 16},
                              {"good", 0, 2}, {NULL, 17, 2},  {"good", -1, 2}};
  for (int i = 0; i < 6; ++i) {
    Failure failure = failures[i];
    CompileCall call = MakeCompileCall(8, 0);
    PJRT_Error* error = CompileThrough(FailAfter, &failure, call);
    AbiErrorMessageArgs text = {sizeof(text), NULL, error, NULL, 0};
    ((AbiVoidFunction)api->slots[kSlotErrorMessage])(&text);
    CHECK(text.message_size == 14);
    ExpectError(api, error, failure.expected, "Python said no");
    FreeCompileCall(call);
    ExpectNothingAlive();
  }
}

static void FailOddly(PjrtShardy_Compilation* compilation,
                      const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  shim.fail(compilation, 13, user, user == NULL ? 0 : 100000);
}

static void CompileFailMessages(void) {
  const AbiApi* api = OpenInner();
  char* huge = malloc(100000);
  CHECK(huge != NULL);
  memset(huge, 'y', 100000);
  void* messages[] = {NULL, huge};
  for (int i = 0; i < 2; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(FailOddly, messages[i], call);
    ExpectError(api, error, 13, i == 0 ? "" : "yyyy");
    FreeCompileCall(call);
  }
  free(huge);
}

static void DoNothing(PjrtShardy_Compilation* compilation,
                      const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  (void)user;
  CHECK(strcmp(shim.message(compilation, NULL), "") == 0);
}

static void CompileNothing(void) {
  CompileCall call = MakeCompileCall(0, 0);
  const AbiApi* api = OpenInner();
  ExpectError(api, CompileThrough(DoNothing, NULL, call), kAbiInternal,
              "compiled nothing");
  FreeCompileCall(call);
}

typedef struct {
  const char* program;
  int code;
  const char* text;
} Reading;

static void Read(PjrtShardy_Compilation* compilation,
                 const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  const Reading* reading = user;
  const char* program = "";
  const char* format = "";
  size_t size = 9;
  size_t format_size = 9;
  if (reading->program != NULL) Try(compilation, reading->program);
  for (int i = 0; i < 2; ++i) {
    const int code =
        shim.compiled(compilation, &program, &size, &format, &format_size);
    CHECK(code == reading->code);
    CHECK(Record()->live_executables == 0);
    if (code != 0) {
      CHECK_HAS(shim.message(compilation, NULL), reading->text);
      CHECK(program == NULL && format == NULL);
      CHECK(size == 0 && format_size == 0);
      continue;
    }
    CHECK(size == strlen(reading->text));
    CHECK(memcmp(program, reading->text, size) == 0);
    CHECK(format_size == 14);
    CHECK(memcmp(format, "fake_optimized", 14) == 0);
  }
}

static void CompiledProgram(void) {
  const AbiApi* api = OpenInner();
  const Reading readings[] = {
      {"good", 0, "fast:good"},
      {"", 0, "fast:"},
      {"opaque", kAbiUnimplemented, "fake: no optimized program"},
      {"closed", kAbiInternal, "fake: no executable"},
      {"bad", kAbiFailedPrecondition, "PjrtShardy_CompileProgram first"},
      {NULL, kAbiFailedPrecondition, "PjrtShardy_CompileProgram first"}};
  for (int i = 0; i < 6; ++i) {
    Reading reading = readings[i];
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(Read, &reading, call);
    // Reading, or failing to, changes nothing about the result.
    if (i < 4) {
      CHECK(error == NULL);
      ExpectCompiled(call, reading.program, "other");
    } else {
      ExpectError(api, error, i == 4 ? kAbiUnimplemented : kAbiInternal, "");
    }
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

static void CompiledProgramMissing(void) {
  OpenInner();
  Reading reading = {"good", kAbiUnimplemented,
                     "no PJRT_Executable_OptimizedProgram"};
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(CompileThrough(Read, &reading, call) == NULL);
  FreeCompileCall(call);
  ExpectNothingAlive();
}

const Scenario compile_scenarios[] = {
    {"compile_pass", CompilePass},
    {"compile_replaced", CompileReplaced},
    {"compile_short", CompileShort},
    {"compile_inner_error", CompileInnerError},
    {"compile_twice", CompileTwice},
    {"compile_format", CompileFormat},
    {"compile_fail", CompileFail},
    {"compile_fail_messages", CompileFailMessages},
    {"compile_nothing", CompileNothing},
    {"compiled_program", CompiledProgram},
    {"compiled_program_missing", CompiledProgramMissing},
    {NULL, NULL}};
