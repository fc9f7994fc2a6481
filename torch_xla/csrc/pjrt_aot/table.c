// The function table that the framework gets, and who answers each entry.

#include "torch_xla/csrc/pjrt_aot/internal.h"

// The version whose structs are declared here, and against whose header they
// are tested. Clients ask for no entry that came later, except for one: of
// errors' payloads.
enum { kAnnouncedMinor = 81 };

static PJRT_Error* Missing(int slot) {
  PJRT_Error* error = AotEnter(slot, 0, 0);
  if (error != NULL) return error;
  return ShardyError(
      kAbiUnimplemented,
      "%s: this plugin compiles ahead of time and has no such function",
      ShardySlotName(slot));
}

#define ANSWER_ERRORS(part, name)
#define ANSWER_OWN(part, name)
#define ANSWER_FORWARD(part, name)                           \
  PJRT_Error* Aot##part##name(Abi##part##name##Args* args) { \
    return AotForward(kSlot##part##name, args);              \
  }
#define ANSWER_INNER(part, name)                             \
  PJRT_Error* Aot##part##name(Abi##part##name##Args* args) { \
    return AotForwardExecutable(kSlot##part##name, args);    \
  }
#define ANSWER_MISSING(part, name)                           \
  PJRT_Error* Aot##part##name(Abi##part##name##Args* args) { \
    (void)args;                                              \
    return Missing(kSlot##part##name);                       \
  }
#define ABI_FUNCTION(by, part, name, ...) ANSWER_##by(part, name)
#define ABI_BARE(by, name, ...) ANSWER_##by(, name)
#include "torch_xla/shardy/pjrt_abi.inc"

static const struct {
  size_t struct_size;
  void* extension_start;
  AbiVersion version;
  AbiFunction slots[kAbiSlots];
} table = {
    sizeof(table),
    NULL,
    {ABI_SIZE(AbiVersion, minor_version), NULL, kAbiMajor, kAnnouncedMinor},
    {
#define ENTRY_ERRORS(name) (AbiFunction) Shardy##name,
#define ENTRY_OWN(name) (AbiFunction) Aot##name,
#define ENTRY_FORWARD ENTRY_OWN
#define ENTRY_INNER ENTRY_OWN
#define ENTRY_MISSING ENTRY_OWN
#define ABI_FUNCTION(by, part, name, ...) ENTRY_##by(part##name)
#define ABI_BARE(by, name, ...) ENTRY_##by(name)
#include "torch_xla/shardy/pjrt_abi.inc"
    }};

const AbiApi* GetPjrtApi(void);
SHARDY_EXPORT const AbiApi* GetPjrtApi(void) { return (const AbiApi*)&table; }
