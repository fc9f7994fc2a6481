// Opens the inner plugin, checks its table and makes the one we hand out.

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// The library is built on a newer glibc than the oldest it runs on. There these
// three live in libdl (linked explicitly), under their first version.
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");
#endif

typedef const AbiApi* (*GetPjrtApiFunction)(void);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Both are set once, and never changed or freed.
static char* opened_path = NULL;
static AbiApi* _Atomic our_table = NULL;

const AbiApi* ShardyOurTable(void) {
  return atomic_load_explicit(&our_table, memory_order_acquire);
}

static int Fail(char* message, size_t message_size, int code,
                const char* format, ...) SHARDY_PRINTF(4, 5);
static int Fail(char* message, size_t message_size, int code,
                const char* format, ...) {
  if (message == NULL || message_size == 0) return code;
  va_list args;
  va_start(args, format);
  vsnprintf(message, message_size, format, args);
  va_end(args);
  return code;
}

// Refuses a table that the shim cannot stand in front of, before reading
// anything that its size does not cover.
static int CheckTable(const AbiApi* api, const char* path, char* message,
                      size_t message_size) {
  if (api == NULL) {
    return Fail(message, message_size, kAbiInternal,
                "%s: its GetPjrtApi returned no table; the plugin failed to "
                "set itself up, see its log",
                path);
  }
  const size_t header = offsetof(AbiApi, slots);
  if (api->struct_size >= header && api->version.major_version != kAbiMajor) {
    return Fail(message, message_size, kAbiFailedPrecondition,
                "%s: it speaks PJRT API %d.%d, and only major version %d is "
                "known; use a plugin of that version or a newer torch_xla",
                path, api->version.major_version, api->version.minor_version,
                kAbiMajor);
  }
  if (!ShardyHoldsSlot(api, kSlotLoadedExecutableExecute)) {
    return Fail(
        message, message_size, kAbiFailedPrecondition,
        "%s: its PJRT function table has %zu bytes, at least %zu are "
        "needed; the library is no PJRT plugin or is damaged",
        path, api->struct_size,
        header + (kSlotLoadedExecutableExecute + 1) * sizeof(AbiFunction));
  }
  if (api->version.minor_version < kAbiOldestMinor) {
    return Fail(message, message_size, kAbiFailedPrecondition,
                "%s: it speaks PJRT API %d.%d, older than %d.%d; use a newer "
                "plugin",
                path, api->version.major_version, api->version.minor_version,
                kAbiMajor, kAbiOldestMinor);
  }
  if (api->slots[kSlotErrorDestroy] == NULL ||
      api->slots[kSlotErrorMessage] == NULL ||
      api->slots[kSlotErrorGetCode] == NULL) {
    return Fail(message, message_size, kAbiFailedPrecondition,
                "%s: its PJRT table lacks the error functions; use a complete "
                "plugin",
                path);
  }
  return kAbiOk;
}

// An entry that the inner plugin lacks stays absent: the framework asks.
static void Override(AbiApi* table, int slot, AbiFunction function) {
  if (ShardyHoldsSlot(table, slot) && table->slots[slot] != NULL) {
    table->slots[slot] = function;
  }
}

// A copy of the inner plugin's table with our entries, or NULL without memory.
static AbiApi* MakeTable(const AbiApi* inner) {
  AbiApi* table = malloc(inner->struct_size);
  if (table == NULL) return NULL;
  memcpy(table, inner, inner->struct_size);
  Override(table, kSlotErrorDestroy, (AbiFunction)ShardyErrorDestroy);
  Override(table, kSlotErrorMessage, (AbiFunction)ShardyErrorMessage);
  Override(table, kSlotErrorGetCode, (AbiFunction)ShardyErrorGetCode);
  if (inner->version.minor_version >= kAbiPayloadMinor) {
    Override(table, kSlotErrorForEachPayload,
             (AbiFunction)ShardyErrorForEachPayload);
  }
  Override(table, kSlotClientCompile, (AbiFunction)ShardyClientCompile);
  // Even where the plugin has none: an answer of our own may take its place.
  table->slots[kSlotExecutableOptimizedProgram] =
      (AbiFunction)ShardyExecutableOptimizedProgram;
  Override(table, kSlotExecutableDestroy, (AbiFunction)ShardyExecutableDestroy);
  Override(table, kSlotLoadedExecutableDestroy,
           (AbiFunction)ShardyLoadedExecutableDestroy);
  Override(table, kSlotLoadedExecutableGetExecutable,
           (AbiFunction)ShardyLoadedExecutableGetExecutable);
  Override(table, kSlotLoadedExecutableExecute,
           (AbiFunction)ShardyLoadedExecutableExecute);
  return table;
}

// The caller must hold the mutex. A library that was loaded stays loaded even
// if it is refused: a plugin may have started threads that unloading would
// pull the code from under.
static int OpenLocked(const char* path, char* message, size_t message_size) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char* reason = dlerror();
    return Fail(message, message_size, kAbiNotFound,
                "cannot load the inner PJRT plugin %s: %s; check the path and "
                "that what the library needs is installed",
                path, reason != NULL ? reason : "no reason given");
  }
  if (dlsym(library, "PjrtShardy_Version") != NULL) {
    return Fail(message, message_size, kAbiInvalidArgument,
                "%s is pjrt_shardy itself; name the plugin to wrap instead",
                path);
  }
  GetPjrtApiFunction get_api = (GetPjrtApiFunction)dlsym(library, "GetPjrtApi");
  if (get_api == NULL) {
    return Fail(message, message_size, kAbiInvalidArgument,
                "%s is no PJRT plugin: it does not export GetPjrtApi; name "
                "the vendor's plugin library",
                path);
  }
  const AbiApi* inner = get_api();
  int code = CheckTable(inner, path, message, message_size);
  if (code != kAbiOk) return code;
  AbiApi* table = MakeTable(inner);
  char* copy = strdup(path);
  if (table == NULL || copy == NULL) {
    free(table);
    free(copy);
    return Fail(message, message_size, kAbiResourceExhausted,
                "%s: out of memory while opening it", path);
  }
  opened_path = copy;
  ShardySetInnerTable(inner);
  atomic_store_explicit(&our_table, table, memory_order_release);
  return kAbiOk;
}

SHARDY_EXPORT int PjrtShardy_Open(const char* library_path, char* message,
                                  size_t message_size) {
  if (message != NULL && message_size > 0) message[0] = '\0';
  if (library_path == NULL || library_path[0] == '\0') {
    return Fail(message, message_size, kAbiInvalidArgument,
                "no inner PJRT plugin was named; give the path of the "
                "vendor's plugin library");
  }
  pthread_mutex_lock(&mutex);
  int code = kAbiOk;
  if (opened_path == NULL) {
    code = OpenLocked(library_path, message, message_size);
  } else if (strcmp(opened_path, library_path) != 0) {
    code = Fail(message, message_size, kAbiFailedPrecondition,
                "cannot wrap %s: this process already wraps %s; use one "
                "plugin per process",
                library_path, opened_path);
  }
  pthread_mutex_unlock(&mutex);
  return code;
}
