// Compiled programs out of, and into, the compile callback.

#include "test/csrc/compile_call.h"

static int Load(PjrtShardy_Compilation* compilation, const char* bytes) {
  return shim.load(compilation, bytes, strlen(bytes));
}

// Serializes; must succeed, and leave nothing in the plugin.
static void ExpectSerialized(PjrtShardy_Compilation* compilation,
                             const char* text) {
  const char* bytes = NULL;
  size_t size = 99;
  CHECK(shim.serialized(compilation, &bytes, &size) == 0);
  CHECK(strcmp(shim.message(compilation, NULL), "") == 0);
  CHECK(Record()->live_serialized == 0);
  CHECK(Record()->live_executables == 0);
  CHECK(bytes != NULL && size == strlen(text));
  CHECK(memcmp(bytes, text, size) == 0);
}

// As the fake plugin tells it, in a struct of whichever version.
static void ExpectMemory(PjrtShardy_Compilation* compilation, int code) {
  PjrtShardy_Memory memory = {.struct_size = sizeof(memory), .code = -1};
  CHECK(shim.memory(compilation, &memory) == code);
  CHECK(Record()->live_executables == 0);
  if (code == 0) {
    CHECK(memory.arguments == 101 && memory.outputs == 102);
    CHECK(memory.aliases == 103 && memory.temporaries == 104);
  }
  CHECK(memory.code == (code == 0 ? 100 : -1));
  memory.code = -1;
  memory.struct_size = offsetof(PjrtShardy_Memory, code);
  CHECK(shim.memory(compilation, &memory) == code);
  CHECK(memory.code == -1);
}

typedef struct {
  const char* program;  // compiled before, if not NULL
  int code;
  const char* text;  // what is serialized, or of the message
  int deleted;
} Serializing;

static void Serialize(PjrtShardy_Compilation* compilation,
                      const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  const Serializing* serializing = user;
  if (serializing->program != NULL) Try(compilation, serializing->program);
  for (int i = 0; i < 2; ++i) {
    const int deleted = Record()->deleted_serialized;
    if (serializing->code == 0) {
      ExpectSerialized(compilation, serializing->text);
    } else {
      const char* bytes = "";
      size_t size = 9;
      const int code = shim.serialized(compilation, &bytes, &size);
      CHECK(code == serializing->code);
      CHECK(bytes == NULL && size == 0);
      CHECK_HAS(shim.message(compilation, NULL), serializing->text);
    }
    CHECK(Record()->deleted_serialized == deleted + serializing->deleted);
    ExpectMemory(compilation, serializing->code);
    CHECK(Record()->live_executables == 0);
  }
}

static void CacheSerialized(void) {
  const AbiApi* api = OpenInner();
  const Serializing cases[] = {
      {"good", 0, "saved:good;other", 1},
      {"", 0, "saved:;other", 1},
      {"hollow", 0, "", 0},
      {"unsaved", kAbiUnimplemented, "fake: cannot serialize", 0},
      {"closed", kAbiInternal, "fake: no executable", 0},
      {"bad", kAbiFailedPrecondition, "PjrtShardy_CompileProgram first", 0},
      {NULL, kAbiFailedPrecondition, "PjrtShardy_CompileProgram first", 0}};
  for (int i = 0; i < 7; ++i) {
    Serializing serializing = cases[i];
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(Serialize, &serializing, call);
    // Serializing, or failing to, changes nothing about the result.
    if (i < 5) {
      CHECK(error == NULL);
      ExpectCompiled(call, serializing.program, "other");
    } else {
      ExpectError(api, error, i == 5 ? kAbiUnimplemented : kAbiInternal,
                  i == 5 ? "bad" : "compiled nothing");
    }
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

// What is loaded serves as what is compiled does.
static void LoadAndRead(PjrtShardy_Compilation* compilation,
                        const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  char* bytes = user;
  CHECK(Load(compilation, bytes) == 0);
  size_t size = 1;
  CHECK(strcmp(shim.message(compilation, &size), "") == 0 && size == 0);
  // The caller's bytes are needed no longer.
  memset(bytes, 'x', strlen(bytes));
  ExpectSerialized(compilation, "saved:kept;as then");
  const char* program = NULL;
  const char* format = NULL;
  size_t format_size = 0;
  CHECK(shim.compiled(compilation, &program, &size, &format, &format_size) ==
        0);
  CHECK(size == 9 && memcmp(program, "fast:kept", 9) == 0);
}

static void CacheLoaded(void) {
  OpenInner();
  const size_t tails[][2] = {{0, 0}, {8, 0}, {0, 8}, {512, 40}};
  int client = 0;
  for (int i = 0; i < 4; ++i) {
    char bytes[] = "saved:kept;as then";
    CompileCall call = MakeCompileCall(tails[i][0], tails[i][1]);
    call.args->client = (PJRT_Client*)&client;
    CHECK(CompileThrough(LoadAndRead, bytes, call) == NULL);
    ExpectCompiled(call, "kept", "as then");
    CHECK(call.args->client == (PJRT_Client*)&client);
    CHECK(Record()->load_client == (PJRT_Client*)&client);
    CHECK(Record()->load_calls == i + 1);
    CHECK(Record()->compile_args == NULL);  // never asked to compile
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

// Takes a NULL-ended list: what begins with "saved" or "junk" is loaded, all
// else compiled. "junk" and "bad" must fail.
static void TryEach(PjrtShardy_Compilation* compilation,
                    const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  for (const char** step = user; *step != NULL; ++step) {
    const bool junk = strncmp(*step, "junk", 4) == 0;
    const bool load = junk || strncmp(*step, "saved", 5) == 0;
    const int code = load ? Load(compilation, *step) : Try(compilation, *step);
    size_t size = 0;
    const char* message = shim.message(compilation, &size);
    CHECK(size == strlen(message));
    if (junk || strncmp(*step, "bad", 3) == 0) {
      CHECK(code == (junk ? kAbiInvalidArgument : kAbiUnimplemented));
      CHECK_HAS(message, *step);
      const char* bytes = "";
      CHECK(shim.serialized(compilation, &bytes, &size) ==
            kAbiFailedPrecondition);
      CHECK(bytes == NULL);
    } else {
      CHECK(code == 0 && size == 0);
    }
    // Only the last result is alive.
    CHECK(Record()->live_errors == (code != 0));
    CHECK(Record()->live_loaded_executables == (code == 0));
  }
}

static void CacheRefused(void) {
  const AbiApi* api = OpenInner();
  const char* steps[][4] = {{"junk one", NULL},
                            {"good", "junk two", NULL},
                            {"saved:kept;", "junk three", NULL},
                            {"bad", "junk four", NULL},
                            {"junk", "junk five", NULL},
                            {"junk", "bad six", NULL}};
  const char* texts[] = {"junk one",  "junk two",  "junk three",
                         "junk four", "junk five", "bad six"};
  for (int i = 0; i < 6; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(TryEach, steps[i], call);
    CHECK(Record()->live_errors == 1);
    ExpectError(api, error, i < 5 ? kAbiInvalidArgument : kAbiUnimplemented,
                texts[i]);
    FreeCompileCall(call);
    ExpectNothingAlive();
  }
}

static void CacheReplaced(void) {
  OpenInner();
  const char* steps[][4] = {
      {"junk", "better", NULL},        {"saved:kept;", "better", NULL},
      {"junk", "bad", "better", NULL}, {"good", "junk", "better", NULL},
      {"good", "saved:kept;", NULL},   {"bad", "saved:kept;", NULL},
      {"junk", "saved:kept;", NULL},   {"saved:old;", "saved:kept;", NULL}};
  for (int i = 0; i < 8; ++i) {
    CompileCall call = MakeCompileCall(8, 0);
    CHECK(CompileThrough(TryEach, steps[i], call) == NULL);
    ExpectCompiled(call, i < 4 ? "better" : "kept", i < 4 ? "other" : "");
    FreeCompileCall(call);
    ExpectNothingAlive();
  }
}

static void LoadAndFail(PjrtShardy_Compilation* compilation,
                        const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  const bool early = *(bool*)user;
  if (early) shim.fail(compilation, kAbiNotFound, "Python said no", 14);
  CHECK(Load(compilation, "saved:kept;") == 0);
  ExpectSerialized(compilation, "saved:kept;");
  if (!early) shim.fail(compilation, kAbiNotFound, "Python said no", 14);
}

static void CacheFail(void) {
  const AbiApi* api = OpenInner();
  for (int i = 0; i < 2; ++i) {
    bool early = i == 0;
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(LoadAndFail, &early, call);
    CHECK(Record()->live_loaded_executables == 0);
    ExpectError(api, error, kAbiNotFound, "Python said no");
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

// What one call lent may be handed to the next.
static void HandOn(PjrtShardy_Compilation* compilation,
                   const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  CHECK(Try(compilation, "good") == 0);
  const char* bytes = NULL;
  const char* format = NULL;
  size_t size = 0;
  size_t format_size = 0;
  CHECK(shim.compiled(compilation, &bytes, &size, &format, &format_size) == 0);
  CHECK(shim.compile(compilation, bytes, size, NULL, 0, format, format_size) ==
        0);
  CHECK(shim.serialized(compilation, &bytes, &size) == 0);
  CHECK(shim.load(compilation, bytes, size) == 0);
  ExpectSerialized(compilation, "saved:fast:good;fake_optimized");
  if (!*(bool*)user) return;
  CHECK(Load(compilation, "junk") == kAbiInvalidArgument);
  const char* message = shim.message(compilation, &size);
  shim.fail(compilation, kAbiInternal, message, size);
}

static void CacheLent(void) {
  const AbiApi* api = OpenInner();
  for (int i = 0; i < 2; ++i) {
    bool fail = i == 1;
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(HandOn, &fail, call);
    if (fail) {
      ExpectError(api, error, kAbiInternal, "fake: cannot load junk");
    } else {
      CHECK(error == NULL);
      ExpectCompiled(call, "fast:good", "fake_optimized");
    }
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

// A plugin without the entries, or whose table ends before them.
static void UseMissing(PjrtShardy_Compilation* compilation,
                       const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  CHECK(Try(compilation, "good") == 0);
  const char* bytes = "";
  size_t size = 9;
  CHECK(shim.serialized(compilation, &bytes, &size) == kAbiUnimplemented);
  CHECK(bytes == NULL && size == 0);
  CHECK_HAS(shim.message(compilation, NULL), "no PJRT_Executable_Serialize");
  CHECK(Record()->live_loaded_executables == 1);
  CHECK(Record()->live_executables == 0);
  CHECK(Load(compilation, "saved:kept;") == kAbiUnimplemented);
  CHECK_HAS(shim.message(compilation, NULL),
            "no PJRT_Executable_DeserializeAndLoad");
  CHECK(Record()->live_loaded_executables == 0);
  if (*(bool*)user) CHECK(Try(compilation, "better") == 0);
}

static void CacheMissing(void) {
  const AbiApi* api = OpenInner();
  CHECK(api->struct_size == InnerApi()->struct_size);
  for (int i = 0; i < 2; ++i) {
    bool compile = i == 1;
    CompileCall call = MakeCompileCall(0, 0);
    PJRT_Error* error = CompileThrough(UseMissing, &compile, call);
    if (compile) {
      CHECK(error == NULL);
      ExpectCompiled(call, "better", "other");
    } else {
      ExpectError(api, error, kAbiUnimplemented,
                  "no PJRT_Executable_DeserializeAndLoad");
    }
    FreeCompileCall(call);
  }
  ExpectNothingAlive();
}

const Scenario cache_scenarios[] = {{"cache_serialized", CacheSerialized},
                                    {"cache_loaded", CacheLoaded},
                                    {"cache_refused", CacheRefused},
                                    {"cache_replaced", CacheReplaced},
                                    {"cache_fail", CacheFail},
                                    {"cache_lent", CacheLent},
                                    {"cache_missing", CacheMissing},
                                    {NULL, NULL}};
