// The entry point of the plugin, and the table that stands in for a plugin
// that could not be opened.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// More than any framework of our day looks at.
enum { kBrokenSlots = 256 };

typedef struct {
  size_t struct_size;
  void* extension_start;
  AbiVersion version;
  AbiFunction slots[kBrokenSlots];
} BrokenTable;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static BrokenTable broken;  // filled once, by the first failure
static int broken_code = kAbiOk;
static char broken_reason[2048];

// Every entry of the broken table but the error functions: a new error with
// the reason why there is no plugin.
static PJRT_Error* FailWithReason(void* args) {
  (void)args;
  pthread_mutex_lock(&mutex);
  PJRT_Error* error = ShardyError(broken_code, "%s", broken_reason);
  pthread_mutex_unlock(&mutex);
  return error;
}

// A table in place of NULL, which frameworks dereference. The mutex is held.
static const AbiApi* BrokenLocked(void) {
  if (broken.struct_size == 0) {
    broken.version.struct_size = ABI_SIZE(AbiVersion, minor_version);
    broken.version.major_version = kAbiMajor;
    broken.version.minor_version = kAbiKnownMinor;
    for (int i = 0; i < kBrokenSlots; ++i) {
      broken.slots[i] = (AbiFunction)FailWithReason;
    }
    broken.slots[kSlotErrorDestroy] = (AbiFunction)ShardyErrorDestroy;
    broken.slots[kSlotErrorMessage] = (AbiFunction)ShardyErrorMessage;
    broken.slots[kSlotErrorGetCode] = (AbiFunction)ShardyErrorGetCode;
    broken.slots[kSlotErrorForEachPayload] =
        (AbiFunction)ShardyErrorForEachPayload;
    broken.struct_size = sizeof(broken);
  }
  return (const AbiApi*)&broken;
}

SHARDY_EXPORT int PjrtShardy_Version(void) { return PJRT_SHARDY_VERSION; }

// The table of the wrapped plugin. Without PjrtShardy_Open the environment
// names it; without either, or if it cannot be opened, a table whose entries
// all fail with the reason. Owned by the library, valid for ever.
SHARDY_EXPORT const AbiApi* GetPjrtApi(void) {
  const AbiApi* table = ShardyOurTable();
  if (table != NULL) return table;
  char reason[sizeof(broken_reason)];
  int code;
  const char* path = getenv("PJRT_SHARDY_INNER_LIBRARY");
  if (path == NULL || path[0] == '\0') {
    code = kAbiFailedPrecondition;
    strcpy(
        reason,
        "pjrt_shardy has no PJRT plugin to wrap: call PjrtShardy_Open, or set "
        "PJRT_SHARDY_INNER_LIBRARY to the path of the vendor's plugin library");
  } else {
    code = PjrtShardy_Open(path, reason, sizeof(reason));
    table = ShardyOurTable();
    if (table != NULL) return table;
  }
  pthread_mutex_lock(&mutex);
  broken_code = code;
  memcpy(broken_reason, reason, sizeof(broken_reason));
  table = BrokenLocked();
  pthread_mutex_unlock(&mutex);
  return table;
}
