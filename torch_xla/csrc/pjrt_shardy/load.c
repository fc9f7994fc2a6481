// Loads the plugin that stands behind ours, and checks its table.

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#include "torch_xla/csrc/pjrt_shardy/inner.h"

// The library is built on a newer glibc than the oldest it runs on. There these
// three live in libdl (linked explicitly), under their first version.
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");
#endif

typedef const AbiApi* (*GetPjrtApiFunction)(void);

int ShardyFailOpen(char* message, size_t message_size, int code,
                   const char* format, ...) {
  if (message == NULL || message_size == 0) return code;
  va_list args;
  va_start(args, format);
  vsnprintf(message, message_size, format, args);
  va_end(args);
  return code;
}

// Refuses a table that nobody can stand in front of, before reading
// anything that its size does not cover.
static int CheckTable(const AbiApi* api, const char* path, int last_slot,
                      char* message, size_t message_size) {
  if (api == NULL) {
    return ShardyFailOpen(message, message_size, kAbiInternal,
                          "%s: its GetPjrtApi returned no table; the plugin "
                          "failed to set itself up, see its log",
                          path);
  }
  const size_t header = offsetof(AbiApi, slots);
  if (api->struct_size >= header && api->version.major_version != kAbiMajor) {
    return ShardyFailOpen(
        message, message_size, kAbiFailedPrecondition,
        "%s: it speaks PJRT API %d.%d, and only major version %d is known; use "
        "a plugin of that version or a newer torch_xla",
        path, api->version.major_version, api->version.minor_version,
        kAbiMajor);
  }
  if (!ShardyHoldsSlot(api, last_slot)) {
    return ShardyFailOpen(
        message, message_size, kAbiFailedPrecondition,
        "%s: its PJRT function table has %zu bytes, at least %zu are needed; "
        "the library is no PJRT plugin or is damaged",
        path, api->struct_size,
        header + ((size_t)last_slot + 1) * sizeof(AbiFunction));
  }
  if (api->version.minor_version < kAbiOldestMinor) {
    return ShardyFailOpen(
        message, message_size, kAbiFailedPrecondition,
        "%s: it speaks PJRT API %d.%d, older than %d.%d; use a newer plugin",
        path, api->version.major_version, api->version.minor_version, kAbiMajor,
        kAbiOldestMinor);
  }
  if (api->slots[kSlotErrorDestroy] == NULL ||
      api->slots[kSlotErrorMessage] == NULL ||
      api->slots[kSlotErrorGetCode] == NULL) {
    return ShardyFailOpen(
        message, message_size, kAbiFailedPrecondition,
        "%s: its PJRT table lacks the error functions; use a complete plugin",
        path);
  }
  return kAbiOk;
}

// A library that was loaded stays loaded even if it is refused: a plugin may
// have started threads that unloading would pull the code from under.
int ShardyLoadPlugin(const char* path, const char* ourselves, int last_slot,
                     const AbiApi** table, char* message, size_t message_size) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char* reason = dlerror();
    return ShardyFailOpen(message, message_size, kAbiNotFound,
                          "cannot load the inner PJRT plugin %s: %s; check the "
                          "path and that what the library needs is installed",
                          path, reason != NULL ? reason : "no reason given");
  }
  if (dlsym(library, ourselves) != NULL) {
    return ShardyFailOpen(
        message, message_size, kAbiInvalidArgument,
        "%s is this library itself; name the plugin to stand before instead",
        path);
  }
  GetPjrtApiFunction get_api = (GetPjrtApiFunction)dlsym(library, "GetPjrtApi");
  if (get_api == NULL) {
    return ShardyFailOpen(message, message_size, kAbiInvalidArgument,
                          "%s is no PJRT plugin: it does not export "
                          "GetPjrtApi; name the vendor's plugin library",
                          path);
  }
  const AbiApi* inner = get_api();
  const int code = CheckTable(inner, path, last_slot, message, message_size);
  if (code == kAbiOk) *table = inner;
  return code;
}
