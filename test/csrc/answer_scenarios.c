// What the framework reads in place of the plugin's own optimized program.

#include <pthread.h>

#include "test/csrc/compile_call.h"

static void Answer(PjrtShardy_Compilation* compilation, const char* text,
                   const char* format) {
  shim.set_optimized(compilation, text, strlen(text), format, strlen(format));
}

static PJRT_Executable* Get(PJRT_LoadedExecutable* loaded) {
  AbiLoadedExecutableGetExecutableArgs get = {sizeof(get), NULL, loaded, NULL};
  CHECK(Call(shim.get_api(), kSlotLoadedExecutableGetExecutable, &get) == NULL);
  CHECK(get.executable != NULL);
  return get.executable;
}

static void Put(PJRT_Executable* executable) {
  AbiExecutableDestroyArgs destroy = {sizeof(destroy), NULL, executable};
  CHECK(Call(shim.get_api(), kSlotExecutableDestroy, &destroy) == NULL);
}

static PJRT_Error* Ask(PJRT_Executable* executable, AbiProgram* program) {
  AbiExecutableOptimizedProgramArgs args = {sizeof(args), NULL, executable,
                                            program};
  return Call(shim.get_api(), kSlotExecutableOptimizedProgram, &args);
}

// Reads as a framework does.
static void ExpectRead(PJRT_Executable* executable, const char* text,
                       const char* format) {
  AbiProgram program = {.struct_size = sizeof(program)};
  CHECK(Ask(executable, &program) == NULL);
  CHECK(program.code_size == strlen(text));
  char* code = malloc(program.code_size + 1);
  CHECK(code != NULL);
  program.code = code;
  CHECK(Ask(executable, &program) == NULL);
  CHECK(program.code == code && program.code_size == strlen(text));
  CHECK(memcmp(code, text, program.code_size) == 0);
  CHECK(program.format_size == strlen(format));
  CHECK(memcmp(program.format, format, program.format_size) == 0);
  free(code);
}

// Reads from an executable of the call's, and frees both.
static void ExpectReadAndFree(CompileCall call, const char* text,
                              const char* format) {
  PJRT_Executable* executable = Get(call.args->executable);
  ExpectRead(executable, text, format);
  Put(executable);
  FreeCompileCall(call);
  ExpectNothingAlive();
}

static const char kInnerFormat[] = "fake_optimized";

// Each of a NULL-ended list is loaded if it begins with "saved", becomes the
// answer after an equals sign, and is compiled else.
static void DoEach(PjrtShardy_Compilation* compilation,
                   const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  for (const char** step = user; *step != NULL; ++step) {
    if ((*step)[0] == '=') {
      char* copy = strdup(*step + 1);
      char format[] = "mlir and more";
      CHECK(copy != NULL);
      shim.set_optimized(compilation, copy, strlen(copy), format, 4);
      memset(copy, 'x', strlen(copy));
      memset(format, 'x', sizeof(format));
      free(copy);
    } else if (strncmp(*step, "saved", 5) == 0) {
      CHECK(shim.load(compilation, *step, strlen(*step)) == 0);
    } else {
      Try(compilation, *step);
    }
  }
}

static void AnswerGiven(void) {
  OpenInner();
  const char* steps[][4] = {{"good", "=a text", NULL},
                            {"opaque", "=a text", NULL},
                            {"good", "=", NULL},
                            {"saved:kept;", "=a text", NULL},
                            {"good", "=first", "=a text", NULL},
                            {"bad", "good", "=a text", NULL}};
  for (int i = 0; i < 6; ++i) {
    CompileCall call = MakeCompileCall(8, 0);
    CHECK(CompileThrough(DoEach, steps[i], call) == NULL);
    ExpectReadAndFree(call, i == 2 ? "" : "a text", "mlir");
  }
  CHECK(Record()->optimized_calls == 0);
}

// A later result is not what the answer was given for.
static void AnswerDropped(void) {
  const AbiApi* api = OpenInner();
  const char* steps[][4] = {{"good", "=a text", "better", NULL},
                            {"=a text", "better", NULL},
                            {"good", "=a text", "saved:better;", NULL}};
  for (int i = 0; i < 3; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    CHECK(CompileThrough(DoEach, steps[i], call) == NULL);
    ExpectReadAndFree(call, "fast:better", kInnerFormat);
  }
  const char* failing[][4] = {{"good", "=a text", "bad", NULL},
                              {"bad", "=a text", NULL},
                              {"=a text", NULL}};
  for (int i = 0; i < 3; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(DoEach, failing[i], call);
    ExpectError(api, error, i < 2 ? kAbiUnimplemented : kAbiInternal,
                i < 2 ? "bad" : "compiled nothing");
    FreeCompileCall(call);
    ExpectNothingAlive();
  }
}

static void AnswerAndFail(PjrtShardy_Compilation* compilation,
                          const PjrtShardy_CompileRequest* request,
                          void* user) {
  (void)request;
  const bool early = *(bool*)user;
  if (early) shim.fail(compilation, kAbiNotFound, "Python said no", 14);
  CHECK(Try(compilation, "good") == 0);
  Answer(compilation, "a text", "mlir");
  if (!early) shim.fail(compilation, kAbiNotFound, "Python said no", 14);
}

static void AnswerFail(void) {
  const AbiApi* api = OpenInner();
  for (int i = 0; i < 2; ++i) {
    bool early = i == 0;
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(AnswerAndFail, &early, call);
    ExpectError(api, error, kAbiNotFound, "Python said no");
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

// In the callback the plugin's own is read, and may become the answer.
static void AnswerLent(PjrtShardy_Compilation* compilation,
                       const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  (void)user;
  CHECK(Try(compilation, "good") == 0);
  const char* program;
  const char* format;
  size_t size;
  size_t format_size;
  for (int i = 0; i < 2; ++i) {
    CHECK(shim.compiled(compilation, &program, &size, &format, &format_size) ==
          0);
    CHECK(size == 9 && memcmp(program, "fast:good", 9) == 0);
    CHECK(format_size == 14 && memcmp(format, kInnerFormat, 14) == 0);
    shim.set_optimized(compilation, program + 1, size - 1, format + 5, 9);
  }
}

static void AnswerNotForCompile(void) {
  OpenInner();
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(CompileThrough(AnswerLent, NULL, call) == NULL);
  ExpectReadAndFree(call, "ast:good", "optimized");
}

// Asked while a loaded executable or one that was got from it is there.
static void AnswerLifetime(void) {
  OpenInner();
  const char* steps[] = {"good", "=a text", NULL};
  const char* others[] = {"good", "=another", NULL};
  for (int i = 0; i < 3; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    CompileCall other = MakeCompileCall(0, 0);
    CHECK(CompileThrough(DoEach, steps, call) == NULL);
    CHECK(CompileThrough(DoEach, others, other) == NULL);
    PJRT_Executable* first = Get(call.args->executable);
    PJRT_Executable* second = Get(call.args->executable);
    PJRT_Executable* third = Get(other.args->executable);
    if (i == 0) FreeCompileCall(call);
    ExpectRead(first, "a text", "mlir");
    Put(first);
    if (i == 1) FreeCompileCall(call);
    ExpectRead(second, "a text", "mlir");
    Put(second);
    if (i == 2) {
      second = Get(call.args->executable);
      ExpectRead(second, "a text", "mlir");
      Put(second);
      FreeCompileCall(call);
    }
    ExpectRead(third, "another", "mlir");
    FreeCompileCall(other);
    ExpectRead(third, "another", "mlir");
    Put(third);
    ExpectNothingAlive();
  }
}

// An address that had an answer may be that of another executable.
static void AnswerOfAnother(void) {
  OpenInner();
  const char* steps[] = {"good", "=a text", NULL};
  for (int i = 0; i < 4; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    const bool answered = i % 2 == 0;
    if (answered) {
      CHECK(CompileThrough(DoEach, steps, call) == NULL);
    } else {
      CHECK(Compile(call) == NULL);
    }
    ExpectReadAndFree(call, answered ? "a text" : "fast:first",
                      answered ? "mlir" : kInnerFormat);
  }
}

// A plugin without the entry.
static void AnswerMissing(void) {
  const AbiApi* api = OpenInner();
  const char* steps[] = {"good", "=a text", NULL};
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(CompileThrough(DoEach, steps, call) == NULL);
  ExpectReadAndFree(call, "a text", "mlir");
  call = MakeCompileCall(0, 0);
  CHECK(Compile(call) == NULL);
  PJRT_Executable* executable = Get(call.args->executable);
  for (int i = 0; i < 2; ++i) {
    AbiProgram program = {.struct_size = sizeof(program)};
    ExpectError(api, Ask(executable, &program), kAbiUnimplemented,
                "no PJRT_Executable_OptimizedProgram");
  }
  Put(executable);
  FreeCompileCall(call);
  ExpectNothingAlive();
}

static void AnswerMisuse(void) {
  const AbiApi* api = OpenInner();
  const char* steps[] = {"good", "=a text", NULL};
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(CompileThrough(DoEach, steps, call) == NULL);
  PJRT_Executable* executable = Get(call.args->executable);
  char buffer[8] = "same";
  AbiProgram program = {
      .struct_size = sizeof(program), .code = buffer, .code_size = 5};
  ExpectError(api, Ask(executable, &program), kAbiInvalidArgument,
              "the buffer has 5 bytes, the program needs 6");
  CHECK(strcmp(buffer, "same") == 0 && program.code_size == 5);
  CHECK(program.format == NULL);
  // With room to spare, it is told how much there is.
  program.code_size = 8;
  CHECK(Ask(executable, &program) == NULL);
  CHECK(program.code_size == 6 && memcmp(buffer, "a text", 7) == 0);
  for (size_t size = 8; size < sizeof(program); size += 8) {
    program.struct_size = size;
    ExpectError(api, Ask(executable, &program), kAbiInvalidArgument,
                "no program struct of at least 48");
  }
  ExpectError(api, Ask(executable, NULL), kAbiInvalidArgument, "no program");
  AbiExecutableOptimizedProgramArgs args = {24, NULL, executable, NULL};
  ExpectError(api, Call(api, kSlotExecutableOptimizedProgram, &args),
              kAbiInvalidArgument, "the argument struct of 24 bytes");
  // The plugin's to refuse; what it does not destroy keeps its answer.
  const int slots[] = {kSlotExecutableDestroy, kSlotLoadedExecutableDestroy,
                       kSlotLoadedExecutableGetExecutable};
  for (int i = 0; i < 3; ++i) {
    size_t* words = calloc(1, 16);
    CHECK(words != NULL);
    words[0] = 16;
    ExpectError(api, Call(api, slots[i], words), kAbiInvalidArgument,
                "has 16 bytes");
    free(words);
  }
  ExpectRead(executable, "a text", "mlir");
  Put(executable);
  FreeCompileCall(call);
  ExpectNothingAlive();
}

static void AnswerInnerError(void) {
  const AbiApi* api = OpenInner();
  const char* steps[] = {"closed", "=a text", NULL};
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(CompileThrough(DoEach, steps, call) == NULL);
  AbiLoadedExecutableGetExecutableArgs get = {sizeof(get), NULL,
                                              call.args->executable, NULL};
  ExpectError(api, Call(api, kSlotLoadedExecutableGetExecutable, &get),
              kAbiInternal, "fake: no executable");
  FreeCompileCall(call);
  ExpectNothingAlive();
}

// Answers with the program itself.
static void Echo(PjrtShardy_Compilation* compilation,
                 const PjrtShardy_CompileRequest* request, void* user) {
  (void)user;
  CHECK(shim.compile(compilation, request->program, request->program_size, NULL,
                     0, "", 0) == 0);
  shim.set_optimized(compilation, request->program, request->program_size,
                     "mlir", 4);
}

static void* CompileMany(void* name) {
  const AbiApi* api = shim.get_api();
  for (int i = 0; i < 100; ++i) {
    AbiProgram program = {sizeof(program), NULL, name, strlen(name), "hlo", 3};
    AbiClientCompileArgs args = {.struct_size = sizeof(args),
                                 .program = &program,
                                 .compile_options = "",
                                 .compile_options_size = 0};
    CHECK(Call(api, kSlotClientCompile, &args) == NULL);
    PJRT_Executable* executable = Get(args.executable);
    ExpectRead(executable, name, "mlir");
    AbiLoadedExecutableDestroyArgs destroy = {sizeof(destroy), NULL,
                                              args.executable};
    CHECK(Call(api, kSlotLoadedExecutableDestroy, &destroy) == NULL);
    ExpectRead(executable, name, "mlir");
    Put(executable);
  }
  return NULL;
}

static void AnswerThreads(void) {
  OpenInner();
  shim.set_callback(Echo, NULL);
  char* names[] = {"one", "another", "the third of them"};
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], NULL, CompileMany, names[i]) == 0);
  }
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  shim.set_callback(NULL, NULL);
  ExpectNothingAlive();
}

const Scenario answer_scenarios[] = {
    {"answer_given", AnswerGiven},
    {"answer_dropped", AnswerDropped},
    {"answer_fail", AnswerFail},
    {"answer_not_for_compile", AnswerNotForCompile},
    {"answer_lifetime", AnswerLifetime},
    {"answer_of_another", AnswerOfAnother},
    {"answer_missing", AnswerMissing},
    {"answer_misuse", AnswerMisuse},
    {"answer_inner_error", AnswerInnerError},
    {"answer_threads", AnswerThreads},
    {NULL, NULL}};
