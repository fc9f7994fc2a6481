#include "test/csrc/scenario.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

// Ends a scenario that hangs.
enum { kScenarioSeconds = 60 };

void* FindSymbol(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) {
    fprintf(stderr, "no %s: %s\n", name, dlerror());
    exit(1);
  }
  return symbol;
}

void* LoadLibrary(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return library;
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

static void List(const Scenario* group) {
  for (const Scenario* s = group; s->name != NULL; ++s) puts(s->name);
}

static const Scenario* FindIn(const Scenario* group, const char* name) {
  for (const Scenario* s = group; s->name != NULL; ++s) {
    if (strcmp(name, s->name) == 0) return s;
  }
  return NULL;
}

static const Scenario* Find(const Scenario* const* groups, const char* name) {
  const Scenario* found = FindIn(canaries, name);
  for (; found == NULL && *groups != NULL; ++groups) {
    found = FindIn(*groups, name);
  }
  return found;
}

// Runs one in this process. Cuts `text`, SCENARIO[,VARIABLE=VALUE]..., up.
static int RunScenario(const Scenario* const* groups, void (*start)(void),
                       char* text) {
  char* rest = NULL;
  const char* name = strtok_r(text, ",", &rest);
  char* variable;
  while ((variable = strtok_r(NULL, ",", &rest)) != NULL) {
    CHECK(putenv(variable) == 0);
  }
  const Scenario* scenario = Find(groups, name);
  if (scenario == NULL) {
    fprintf(stderr, "no scenario %s\n", name);
    return 2;
  }
  start();
  scenario->run();
  printf("ok %s\n", name);
  return 0;
}

int RunScenarios(int count, char** arguments, const Scenario* const* groups,
                 void (*start)(void)) {
  if (count == 1 && strcmp(arguments[0], "--list") == 0) {
    for (; *groups != NULL; ++groups) List(*groups);
    List(canaries);
    return 0;
  }
  bool failed = false;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(kScenarioSeconds);
      return RunScenario(groups, start, arguments[i]);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    failed = failed || status != 0;
    printf("end %d %s\n",
           WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
           arguments[i]);
    // What is left in the buffer, the next child would print too.
    fflush(stdout);
  }
  return failed ? 1 : 0;
}
