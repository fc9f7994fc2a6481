// What the framework reads back from an executable, through the callback.

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test/csrc/compile_call.h"

// An executable, and a question about it whose structs may be longer than any
// known version's.
typedef struct {
  FakeLoadedExecutable* loaded;
  PJRT_Executable* executable;
  AbiExecutableOptimizedProgramArgs* args;
  AbiProgram* program;
} Question;

static Question MakeQuestion(const char* text, size_t args_tail,
                             size_t program_tail) {
  const AbiApi* api = shim.get_api();
  AbiProgram source = {sizeof(source), NULL,  (char*)text,
                       strlen(text),   "hlo", 3};
  AbiClientCompileArgs compile = {.struct_size = sizeof(compile),
                                  .program = &source,
                                  .compile_options = "",
                                  .compile_options_size = 0};
  CHECK(Call(api, kSlotClientCompile, &compile) == NULL);
  AbiLoadedExecutableGetExecutableArgs get = {sizeof(get), NULL,
                                              compile.executable, NULL};
  CHECK(Call(api, kSlotLoadedExecutableGetExecutable, &get) == NULL);
  Question question = {
      (FakeLoadedExecutable*)compile.executable, get.executable,
      calloc(1, sizeof(AbiExecutableOptimizedProgramArgs) + args_tail),
      calloc(1, sizeof(AbiProgram) + program_tail)};
  CHECK(question.args != NULL && question.program != NULL);
  *question.args = (AbiExecutableOptimizedProgramArgs){
      sizeof(AbiExecutableOptimizedProgramArgs) + args_tail, NULL,
      get.executable, question.program};
  question.program->struct_size = sizeof(AbiProgram) + program_tail;
  return question;
}

static void FreeQuestion(Question question) {
  const AbiApi* api = shim.get_api();
  AbiExecutableDestroyArgs destroy = {sizeof(destroy), NULL,
                                      question.executable};
  CHECK(Call(api, kSlotExecutableDestroy, &destroy) == NULL);
  AbiLoadedExecutableDestroyArgs unload = {
      sizeof(unload), NULL, (PJRT_LoadedExecutable*)question.loaded};
  CHECK(Call(api, kSlotLoadedExecutableDestroy, &unload) == NULL);
  free(question.args);
  free(question.program);
}

// What the framework handed in must be as it was.
static PJRT_Error* Ask(Question question, char* code, size_t code_size) {
  question.program->code = code;
  question.program->code_size = code_size;
  question.program->format = NULL;
  question.program->format_size = 0;
  PJRT_Error* error =
      Call(shim.get_api(), kSlotExecutableOptimizedProgram, question.args);
  CHECK(question.args->program == question.program);
  CHECK(question.args->executable == question.executable);
  CHECK(question.program->code == code);
  if (error == NULL) {
    CHECK(question.program->format_size == 14);
    CHECK(memcmp(question.program->format, "fake_optimized", 14) == 0);
  }
  return error;
}

static size_t AskSize(Question question) {
  CHECK(Ask(question, NULL, 0) == NULL);
  return question.program->code_size;
}

// Fetches the bytes into a buffer of that size, which must suffice.
static void ExpectBytes(Question question, size_t size, const char* text) {
  char* code = malloc(size > 0 ? size : 1);
  CHECK(code != NULL);
  CHECK(Ask(question, code, size) == NULL);
  CHECK(question.program->code_size == strlen(text));
  CHECK(memcmp(code, text, strlen(text)) == 0);
  free(code);
}

// Reads as a framework does.
static void ExpectRead(Question question, const char* text) {
  const size_t size = AskSize(question);
  CHECK(size == strlen(text));
  ExpectBytes(question, size, text);
}

static void ReadbackPass(void) {
  const AbiApi* api = OpenInner();
  Question question = MakeQuestion("good", 0, 0);
  ExpectRead(question, "fast:good");
  // The plugin gets the framework's very struct.
  CHECK(Record()->optimized_args == question.args);
  CHECK(Record()->optimized_calls == 2);
  AbiExecutableOptimizedProgramArgs args = {.struct_size = 8};
  ExpectError(api, Call(api, kSlotExecutableOptimizedProgram, &args),
              kAbiInvalidArgument, "fake: OptimizedProgramArgs has 8");
  FreeQuestion(question);
  ExpectNothingAlive();
}

typedef struct {
  const char* text;  // NULL: unchanged
  atomic_int calls;
} Rewrite;

static void Replace(PjrtShardy_Readback* readback, const char* program,
                    size_t program_size, const char* format, size_t format_size,
                    void* user) {
  Rewrite* rewrite = user;
  ++rewrite->calls;
  CHECK(program_size >= 5 && memcmp(program, "fast:", 5) == 0);
  CHECK(format_size == 14 && memcmp(format, "fake_optimized", 14) == 0);
  if (rewrite->text == NULL) return;
  shim.replace(readback, "overridden", 10);
  char* copy = strdup(rewrite->text);
  CHECK(copy != NULL);
  shim.replace(readback, copy, strlen(copy));
  free(copy);
}

static void ReadbackReplaced(void) {
  OpenInner();
  const char* texts[] = {"much longer than it was", "short", "", NULL,
                         "same size"};
  const size_t tails[][2] = {{0, 0}, {8, 0}, {0, 8}, {512, 40}};
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 4; ++j) {
      Rewrite rewrite = {texts[i], 0};
      shim.set_readback(Replace, &rewrite);
      Question question = MakeQuestion("good", tails[j][0], tails[j][1]);
      ExpectRead(question, texts[i] != NULL ? texts[i] : "fast:good");
      CHECK(rewrite.calls == 2);
      if (tails[j][0] > 0) {
        const char* bytes = (const char*)question.args;
        CHECK(bytes[question.args->struct_size - 1] == kFakeTailOutput);
      }
      if (tails[j][1] > 0) {
        const char* bytes = (const char*)question.program;
        CHECK(bytes[question.program->struct_size - 1] == kFakeTailOutput);
      }
      FreeQuestion(question);
    }
  }
  shim.set_readback(NULL, NULL);
  ExpectNothingAlive();
}

// Structs that end too early are refused before the callback sees anything.
static void ReadbackShort(void) {
  const AbiApi* api = OpenInner();
  Rewrite rewrite = {"new", 0};
  shim.set_readback(Replace, &rewrite);
  for (size_t size = 8; size < sizeof(AbiExecutableOptimizedProgramArgs);
       size += 8) {
    AbiExecutableOptimizedProgramArgs* args = calloc(1, size);
    CHECK(args != NULL);
    args->struct_size = size;
    ExpectError(api, Call(api, kSlotExecutableOptimizedProgram, args),
                kAbiInvalidArgument, "too short");
    free(args);
  }
  AbiExecutableOptimizedProgramArgs args = {.struct_size = sizeof(args)};
  ExpectError(api, Call(api, kSlotExecutableOptimizedProgram, &args),
              kAbiInvalidArgument, "no program struct");
  for (size_t size = 8; size < sizeof(AbiProgram); size += 8) {
    AbiProgram* program = calloc(1, size);
    CHECK(program != NULL);
    program->struct_size = size;
    args.program = program;
    ExpectError(api, Call(api, kSlotExecutableOptimizedProgram, &args),
                kAbiInvalidArgument, "at least 48");
    free(program);
  }
  CHECK(rewrite.calls == 0);
  CHECK(Record()->optimized_calls == 0);
}

static void ReadbackInnerError(void) {
  const AbiApi* api = OpenInner();
  Rewrite rewrite = {"new", 0};
  shim.set_readback(Replace, &rewrite);
  const char* programs[] = {"opaque", "shy", "growing"};
  const int codes[] = {kAbiUnimplemented, kAbiInternal, kAbiInternal};
  const char* texts[] = {"fake: no optimized program", "fake: only the size",
                         "announced 12 bytes and then had 13"};
  for (int i = 0; i < 3; ++i) {
    Question question = MakeQuestion(programs[i], 0, 0);
    char buffer[64];
    for (int j = 0; j < 2; ++j) {
      PJRT_Error* error = Ask(question, j == 0 ? NULL : buffer, 64);
      // The plugin's own, not a copy.
      CHECK((error == Record()->error) == (i < 2));
      ExpectError(api, error, codes[i], texts[i]);
      CHECK(question.program->code_size == 64);
      CHECK(question.program->format == NULL);
    }
    FreeQuestion(question);
  }
  CHECK(rewrite.calls == 0);
  shim.set_readback(NULL, NULL);
  ExpectNothingAlive();
}

static void Fail(PjrtShardy_Readback* readback, const char* program,
                 size_t program_size, const char* format, size_t format_size,
                 void* user) {
  (void)format;
  (void)format_size;
  shim.replace(readback, program, program_size);
  shim.fail_readback(readback, 1, NULL, 0);
  char text[] = "Python said no, and more";
  shim.fail_readback(readback, *(int*)user, text, 14);
  memset(text, 'x', sizeof(text));
  shim.replace(readback, program, program_size);
}

static void ReadbackFail(void) {
  const AbiApi* api = OpenInner();
  const int codes[][2] = {{13, 13}, {3, 3}, {16, 16}, {0, 2}, {17, 2}, {-1, 2}};
  Question question = MakeQuestion("good", 8, 8);
  for (int i = 0; i < 6; ++i) {
    int code = codes[i][0];
    shim.set_readback(Fail, &code);
    char buffer[64];
    for (int j = 0; j < 2; ++j) {
      PJRT_Error* error = Ask(question, j == 0 ? NULL : buffer, 64);
      AbiErrorMessageArgs text = {sizeof(text), NULL, error, NULL, 0};
      ((AbiVoidFunction)api->slots[kSlotErrorMessage])(&text);
      CHECK(text.message_size == 14);
      ExpectError(api, error, codes[i][1], "Python said no");
      CHECK(question.program->code_size == 64);
    }
    shim.set_readback(NULL, NULL);
  }
  FreeQuestion(question);
  ExpectNothingAlive();
}

static void ReadbackBytesOnly(void) {
  OpenInner();
  Rewrite rewrite = {"new text", 0};
  shim.set_readback(Replace, &rewrite);
  Question question = MakeQuestion("good", 0, 0);
  ExpectBytes(question, 8, "new text");
  ExpectBytes(question, 100, "new text");
  CHECK(rewrite.calls == 2);
  FreeQuestion(question);
  shim.set_readback(NULL, NULL);
  ExpectNothingAlive();
}

static void ReadbackSmallBuffer(void) {
  const AbiApi* api = OpenInner();
  Rewrite rewrite = {"new text", 0};
  shim.set_readback(Replace, &rewrite);
  Question question = MakeQuestion("good", 0, 0);
  char buffer[7] = "before";
  // After the size, and without having asked for it.
  CHECK(AskSize(question) == 8);
  for (int i = 0; i < 2; ++i) {
    ExpectError(api, Ask(question, buffer, sizeof(buffer)), kAbiInvalidArgument,
                "the buffer has 7 bytes, the program needs 8");
    CHECK(strcmp(buffer, "before") == 0);
    CHECK(question.program->code_size == sizeof(buffer));
    CHECK(question.program->format == NULL);
  }
  ExpectBytes(question, 8, "new text");
  FreeQuestion(question);
  shim.set_readback(NULL, NULL);
  ExpectNothingAlive();
}

static void ReadCompiled(PjrtShardy_Compilation* compilation,
                         const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  (void)user;
  CHECK(Try(compilation, "good") == 0);
  const char* program;
  const char* format;
  size_t size;
  size_t format_size;
  CHECK(shim.compiled(compilation, &program, &size, &format, &format_size) ==
        0);
  CHECK(size == 9 && memcmp(program, "fast:good", 9) == 0);
}

// Within a compile the program is read as the plugin has it.
static void ReadbackNotForCompile(void) {
  OpenInner();
  Rewrite rewrite = {"new text", 0};
  shim.set_readback(Replace, &rewrite);
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(CompileThrough(ReadCompiled, NULL, call) == NULL);
  CHECK(rewrite.calls == 0);
  FreeCompileCall(call);
  shim.set_readback(NULL, NULL);
  ExpectNothingAlive();
}

static void ReplaceSelf(PjrtShardy_Readback* readback, const char* program,
                        size_t program_size, const char* format,
                        size_t format_size, void* user) {
  shim.set_readback(Fail, "unused");
  shim.set_readback(NULL, NULL);
  shim.set_callback(ReadCompiled, NULL);
  shim.set_callback(NULL, NULL);
  Replace(readback, program, program_size, format, format_size, user);
}

// Replaced from within, the running callback still has its user data.
static void ReadbackReplacesItself(void) {
  OpenInner();
  Rewrite rewrite = {"new text", 0};
  shim.set_readback(ReplaceSelf, &rewrite);
  Question question = MakeQuestion("good", 0, 0);
  ExpectBytes(question, 8, "new text");
  ExpectRead(question, "fast:good");
  CHECK(rewrite.calls == 1);
  FreeQuestion(question);
  ExpectNothingAlive();
}

static void ReadAnother(PjrtShardy_Readback* readback, const char* program,
                        size_t program_size, const char* format,
                        size_t format_size, void* user) {
  (void)format;
  (void)format_size;
  if (program_size > 9) {
    shim.replace(readback, program + 5, program_size - 5);
    return;
  }
  ExpectRead(*(Question*)user, "other program");
  shim.replace(readback, "outer", 5);
}

// A callback may itself read, through the table.
static void ReadbackNested(void) {
  OpenInner();
  Question question = MakeQuestion("good", 0, 0);
  Question other = MakeQuestion("other program", 0, 0);
  shim.set_readback(ReadAnother, &other);
  ExpectRead(question, "outer");
  shim.set_readback(NULL, NULL);
  FreeQuestion(other);
  FreeQuestion(question);
  ExpectNothingAlive();
}

// Replaces each program by one that names it.
static void Name(PjrtShardy_Readback* readback, const char* program,
                 size_t program_size, const char* format, size_t format_size,
                 void* user) {
  (void)format;
  (void)format_size;
  char text[64];
  const int size = snprintf(text, sizeof(text), "%s of %.*s", (char*)user,
                            (int)program_size, program);
  CHECK(size > 0 && size < (int)sizeof(text));
  shim.replace(readback, text, (size_t)size);
}

static void* ReadMany(void* name) {
  Question question = MakeQuestion(name, 0, 0);
  char text[64];
  snprintf(text, sizeof(text), "copy of fast:%s", (char*)name);
  for (int i = 0; i < 100; ++i) ExpectRead(question, text);
  FreeQuestion(question);
  return NULL;
}

static void ReadbackThreads(void) {
  OpenInner();
  shim.set_readback(Name, "copy");
  char* names[] = {"one", "another", "the third of them"};
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], NULL, ReadMany, names[i]) == 0);
  }
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  shim.set_readback(NULL, NULL);
  ExpectNothingAlive();
}

// Whichever callback it was, the program is whole.
static void* ReadWhatever(void* name) {
  Question question = MakeQuestion(name, 0, 0);
  const size_t name_size = strlen(name);
  for (int i = 0; i < 200; ++i) {
    char code[64];
    CHECK(Ask(question, code, sizeof(code)) == NULL);
    const size_t size = question.program->code_size;
    CHECK(size > name_size);
    CHECK(memcmp(code + size - name_size, name, name_size) == 0);
    CHECK(memcmp(code, "a copy", 6) == 0 || memcmp(code, "text", 4) == 0);
  }
  FreeQuestion(question);
  return NULL;
}

// The user data of a callback may be freed as soon as it is replaced.
static void ReadbackSwapped(void) {
  OpenInner();
  char* previous = strdup("a copy");
  CHECK(previous != NULL);
  shim.set_readback(Name, previous);
  pthread_t threads[2];
  char* names[] = {"one", "another"};
  for (int i = 0; i < 2; ++i) {
    CHECK(pthread_create(&threads[i], NULL, ReadWhatever, names[i]) == 0);
  }
  for (int i = 0; i < 200; ++i) {
    char* text = strdup(i % 2 == 0 ? "text" : "a copy");
    CHECK(text != NULL);
    shim.set_readback(Name, text);
    free(previous);
    previous = text;
  }
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  shim.set_readback(NULL, NULL);
  free(previous);
  ExpectNothingAlive();
}

static atomic_bool inside;
static atomic_bool may_leave;
static atomic_bool left;

static void Linger(PjrtShardy_Readback* readback, const char* program,
                   size_t program_size, const char* format, size_t format_size,
                   void* user) {
  inside = true;
  while (!may_leave) usleep(1000);
  usleep(100000);
  Name(readback, program, program_size, format, format_size, user);
  left = true;
}

static void* AskSizeOnce(void* question) {
  return (void*)AskSize(*(Question*)question);
}

// Replacing the callback waits for it, and for no compile callback.
static void ReadbackAwaited(void) {
  OpenInner();
  Question question = MakeQuestion("good", 0, 0);
  char* text = strdup("copy");
  CHECK(text != NULL);
  shim.set_readback(Linger, text);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, AskSizeOnce, &question) == 0);
  while (!inside) usleep(1000);
  shim.set_callback(ReadCompiled, NULL);
  shim.set_callback(NULL, NULL);
  CHECK(!left);
  may_leave = true;
  shim.set_readback(NULL, NULL);
  CHECK(left);
  free(text);
  void* size;
  CHECK(pthread_join(thread, &size) == 0);
  CHECK((size_t)size == 17);
  FreeQuestion(question);
  ExpectNothingAlive();
}

const Scenario readback_scenarios[] = {
    {"readback_pass", ReadbackPass},
    {"readback_replaced", ReadbackReplaced},
    {"readback_short", ReadbackShort},
    {"readback_inner_error", ReadbackInnerError},
    {"readback_fail", ReadbackFail},
    {"readback_bytes_only", ReadbackBytesOnly},
    {"readback_small_buffer", ReadbackSmallBuffer},
    {"readback_not_for_compile", ReadbackNotForCompile},
    {"readback_replaces_itself", ReadbackReplacesItself},
    {"readback_nested", ReadbackNested},
    {"readback_threads", ReadbackThreads},
    {"readback_swapped", ReadbackSwapped},
    {"readback_awaited", ReadbackAwaited},
    {NULL, NULL}};
