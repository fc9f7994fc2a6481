// PJRT's profiler extension. The runtime of torch_xla 2.9 calls the functions
// of a plugin's profiler without a look whether there are any, or as many as it
// knows, and ends with the process.

#include "torch_xla/csrc/pjrt_shardy/internal.h"

enum { kTypeProfiler = 1, kFunctions = 8 };

// PLUGIN_Profiler_Api, of which later versions may have more.
typedef struct {
  size_t struct_size;
  void* unused;
  // Error_Destroy, Error_Message, Error_GetCode, Create, Destroy, Start, Stop,
  // CollectData.
  void* (*functions[kFunctions])(void* args);
} Profiler;

typedef struct Extension {
  size_t struct_size;
  int type;
  const struct Extension* next;
} Extension;

typedef struct {
  Extension base;
  const Profiler* profiler;
  int64_t context;  // of a call's arguments only
} ProfilerExtension;

// Each returns no error. These two have one result, as their fourth word: the
// session, and the size of what it collected.
static void* DoNothing(void* args) {
  (void)args;
  return NULL;
}

static void* AnswerNothing(void* args) {
  ((size_t*)args)[3] = 0;
  return NULL;
}

// Filled when the plugin is opened.
static Profiler profiler;
static ProfilerExtension extension;

static const Profiler* Find(const Extension* next) {
  while (next != NULL && next->type != kTypeProfiler) next = next->next;
  return next != NULL &&
                 next->struct_size >= offsetof(ProfilerExtension, context)
             ? ((const ProfilerExtension*)next)->profiler
             : NULL;
}

void* ShardyExtensions(void* inner) {
  const Profiler* usable = Find(inner);
  if (usable != NULL && usable->struct_size == sizeof(Profiler)) return inner;
  profiler = usable != NULL && usable->struct_size > sizeof(Profiler)
                 ? *usable
                 : (Profiler){.functions = {DoNothing, DoNothing, DoNothing,
                                            AnswerNothing, DoNothing, DoNothing,
                                            DoNothing, AnswerNothing}};
  profiler.struct_size = sizeof(Profiler);
  extension = (ProfilerExtension){
      {sizeof(extension), kTypeProfiler, inner}, &profiler, 0};
  return &extension;
}
