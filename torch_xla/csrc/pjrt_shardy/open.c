// Opens the inner plugin and makes the table that we hand out.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Both are set once, and never changed or freed.
static char* opened_path = NULL;
static AbiApi* _Atomic our_table = NULL;

SHARDY_EXPORT int PjrtShardy_Version(void) { return PJRT_SHARDY_VERSION; }

// The table of the wrapped plugin. Owned by the library, valid for ever.
SHARDY_EXPORT const AbiApi* GetPjrtApi(void) {
  const AbiApi* table = atomic_load_explicit(&our_table, memory_order_acquire);
  if (table == NULL) {
    // Frameworks would dereference it.
    fputs("pjrt_shardy has no PJRT plugin to wrap: call PjrtShardy_Open\n",
          stderr);
    abort();
  }
  return table;
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
  table->extension_start = ShardyExtensions(inner->extension_start);
  Override(table, kSlotErrorDestroy, (AbiFunction)ShardyErrorDestroy);
  Override(table, kSlotErrorMessage, (AbiFunction)ShardyErrorMessage);
  Override(table, kSlotErrorGetCode, (AbiFunction)ShardyErrorGetCode);
  if (inner->version.minor_version >= kAbiPayloadMinor) {
    Override(table, kSlotErrorForEachPayload,
             (AbiFunction)ShardyErrorForEachPayload);
  }
  Override(table, kSlotClientDestroy, (AbiFunction)ShardyClientDestroy);
  Override(table, kSlotClientAddressableDevices,
           (AbiFunction)ShardyClientAddressableDevices);
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

// The caller must hold the mutex.
static int OpenLocked(const char* path, char* message, size_t message_size) {
  const AbiApi* inner = NULL;
  const int code =
      ShardyLoadPlugin(path, "PjrtShardy_Version", kSlotLoadedExecutableExecute,
                       &inner, message, message_size);
  if (code != kAbiOk) return code;
  AbiApi* table = MakeTable(inner);
  char* copy = strdup(path);
  if (table == NULL || copy == NULL) {
    free(table);
    free(copy);
    return ShardyFailOpen(message, message_size, kAbiResourceExhausted,
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
    return ShardyFailOpen(message, message_size, kAbiInvalidArgument,
                          "no inner PJRT plugin was named; give the path of "
                          "the vendor's plugin library");
  }
  pthread_mutex_lock(&mutex);
  int code = kAbiOk;
  if (opened_path == NULL) {
    code = OpenLocked(library_path, message, message_size);
  } else if (strcmp(opened_path, library_path) != 0) {
    code = ShardyFailOpen(message, message_size, kAbiFailedPrecondition,
                          "cannot wrap %s: this process already wraps %s; use "
                          "one plugin per process",
                          library_path, opened_path);
  }
  pthread_mutex_unlock(&mutex);
  return code;
}
