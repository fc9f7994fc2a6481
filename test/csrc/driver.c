// Runs scenarios against the shim, each in a process of its own: the shim opens
// one plugin per process. Meant to be run under valgrind and, built with
// them, under the address and undefined-behaviour sanitizers. The processes are
// forked, one after the other, so that valgrind has to start only once.
//
//   driver SHIM INNER NOT_A_PLUGIN SCENARIO[,VARIABLE=VALUE]...  ...
//   driver --list
//
// After what each prints comes a line "end STATUS SCENARIO...", where a signal
// is a negative status.

#include "test/csrc/driver.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

// Ends a scenario that hangs.
enum { kScenarioSeconds = 60 };

Shim shim;
const char* shim_path;
const char* inner_path;
const char* not_a_plugin_path;

static void* Symbol(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) {
    fprintf(stderr, "no %s: %s\n", name, dlerror());
    exit(1);
  }
  return symbol;
}

static void* Load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return library;
}

static void LoadShim(void) {
  void* library = Load(shim_path);
  *(void**)&shim.get_api = Symbol(library, "GetPjrtApi");
  *(void**)&shim.version = Symbol(library, "PjrtShardy_Version");
  *(void**)&shim.open = Symbol(library, "PjrtShardy_Open");
  *(void**)&shim.set_callback =
      Symbol(library, "PjrtShardy_SetCompileCallback");
  *(void**)&shim.attribute = Symbol(library, "PjrtShardy_PluginAttribute");
  *(void**)&shim.compile = Symbol(library, "PjrtShardy_CompileProgram");
  *(void**)&shim.message = Symbol(library, "PjrtShardy_CompileMessage");
  *(void**)&shim.compiled = Symbol(library, "PjrtShardy_CompiledProgram");
  *(void**)&shim.serialized =
      Symbol(library, "PjrtShardy_SerializedExecutable");
  *(void**)&shim.load = Symbol(library, "PjrtShardy_LoadExecutable");
  *(void**)&shim.set_optimized =
      Symbol(library, "PjrtShardy_SetOptimizedProgram");
  *(void**)&shim.fail = Symbol(library, "PjrtShardy_Fail");
  *(void**)&shim.set_readback =
      Symbol(library, "PjrtShardy_SetReadbackCallback");
  *(void**)&shim.replace = Symbol(library, "PjrtShardy_ReplaceProgram");
  *(void**)&shim.fail_readback = Symbol(library, "PjrtShardy_FailReadback");
}

const AbiApi* OpenInner(void) {
  char message[512] = "unwritten";
  int code = shim.open(inner_path, message, sizeof(message));
  if (code != 0) fprintf(stderr, "%s\n", message);
  CHECK(code == 0);
  CHECK(message[0] == '\0');
  return shim.get_api();
}

const AbiApi* InnerApi(void) {
  const AbiApi* (*get)(void);
  *(void**)&get = Symbol(Load(inner_path), "GetPjrtApi");
  return get();
}

const FakeRecord* Record(void) {
  const FakeRecord* (*get)(void);
  *(void**)&get = Symbol(Load(inner_path), FAKE_PLUGIN_RECORD);
  return get();
}

PJRT_Error* Call(const AbiApi* api, int slot, void* args) {
  return ((AbiErrorFunction)api->slots[slot])(args);
}

void ExpectError(const AbiApi* api, PJRT_Error* error, int code,
                 const char* part) {
  CHECK(error != NULL);
  AbiErrorGetCodeArgs get = {ABI_SIZE(AbiErrorGetCodeArgs, code), NULL, error,
                             -1};
  CHECK(Call(api, kSlotErrorGetCode, &get) == NULL);
  AbiErrorMessageArgs text = {sizeof(text), NULL, error, NULL, 0};
  ((AbiVoidFunction)api->slots[kSlotErrorMessage])(&text);
  CHECK(text.message != NULL && strlen(text.message) == text.message_size);
  CHECK_HAS(text.message, part);
  if (get.code != code) fprintf(stderr, "%d: %s\n", get.code, text.message);
  CHECK(get.code == code);
  AbiErrorDestroyArgs destroy = {sizeof(destroy), NULL, error};
  ((AbiVoidFunction)api->slots[kSlotErrorDestroy])(&destroy);
}

void ExpectNothingAlive(void) {
  CHECK(Record()->live_errors == 0);
  CHECK(Record()->live_loaded_executables == 0);
  CHECK(Record()->live_executables == 0);
  CHECK(Record()->live_serialized == 0);
}

// The canaries do what the checkers must see; a run that passes is a failure.
static void CanaryRead(void) {
  volatile char* bytes = malloc(8);
  CHECK(bytes != NULL);
  bytes[0] = 1;
  if (bytes[8] == 42) puts("unlikely");
  free((void*)bytes);
}

static void* volatile canary;

static void CanaryLeak(void) {
  canary = malloc(8);
  canary = NULL;
}

static const Scenario canaries[] = {
    {"canary_read", CanaryRead}, {"canary_leak", CanaryLeak}, {NULL, NULL}};

static const Scenario* const groups[] = {
    open_scenarios,    attribute_scenarios, compile_scenarios,
    answer_scenarios,  cache_scenarios,     callback_scenarios,
    execute_scenarios, readback_scenarios,  canaries};
enum { kGroups = sizeof(groups) / sizeof(groups[0]) };

static void List(void) {
  for (int i = 0; i < kGroups; ++i) {
    for (const Scenario* s = groups[i]; s->name != NULL; ++s) puts(s->name);
  }
}

static const Scenario* Find(const char* name) {
  for (int i = 0; i < kGroups; ++i) {
    for (const Scenario* s = groups[i]; s->name != NULL; ++s) {
      if (strcmp(name, s->name) == 0) return s;
    }
  }
  return NULL;
}

// Runs one in this process. Cuts `text`, SCENARIO[,VARIABLE=VALUE]..., up.
static int RunScenario(char* text) {
  char* rest = NULL;
  const char* name = strtok_r(text, ",", &rest);
  char* variable;
  while ((variable = strtok_r(NULL, ",", &rest)) != NULL) {
    CHECK(putenv(variable) == 0);
  }
  const Scenario* scenario = Find(name);
  if (scenario == NULL) {
    fprintf(stderr, "no scenario %s\n", name);
    return 2;
  }
  LoadShim();
  scenario->run();
  printf("ok %s\n", name);
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    List();
    return 0;
  }
  if (argc < 5) {
    fprintf(stderr, "usage: driver SHIM INNER NOT_A_PLUGIN SCENARIO...\n");
    return 2;
  }
  shim_path = argv[1];
  inner_path = argv[2];
  not_a_plugin_path = argv[3];
  for (int i = 4; i < argc; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(kScenarioSeconds);
      return RunScenario(argv[i]);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    printf("end %d %s\n",
           WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
           argv[i]);
    // What is left in the buffer, the next child would print too.
    fflush(stdout);
  }
  return 0;
}
