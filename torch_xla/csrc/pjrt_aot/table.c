// The function table that the framework gets, and who answers each entry.

#include "torch_xla/csrc/pjrt_aot/internal.h"

// The version whose structs are declared here, and against whose header they
// are tested. Clients ask for no entry that came later, except for one: of
// errors' payloads.
enum { kAnnouncedMinor = 81 };

static PJRT_Error* Missing(int slot) {
  PJRT_Error* error = AotEnter(slot, 0, 0);
  if (error != NULL) return error;
  return ShardyError(kAbiUnimplemented,
                     "%s: this plugin compiles ahead of time and has no such "
                     "function",
                     AotSlotName(slot));
}

#define NOTHING(part, name)
#define NOTHING_BARE(name)

#define FORWARD(part, name)                           \
  static PJRT_Error* Answer##part##name(void* args) { \
    return AotForward(kAotSlot##part##name, args);    \
  }
#define INNER(part, name)                                    \
  static PJRT_Error* Answer##part##name(void* args) {        \
    return AotForwardExecutable(kAotSlot##part##name, args); \
  }
#define MISSING(part, name)                           \
  static PJRT_Error* Answer##part##name(void* args) { \
    (void)args;                                       \
    return Missing(kAotSlot##part##name);             \
  }
#define MISSING_BARE(name)                      \
  static PJRT_Error* Answer##name(void* args) { \
    (void)args;                                 \
    return Missing(kAotSlot##name);             \
  }
PJRT_AOT_SLOTS(NOTHING, NOTHING, FORWARD, INNER, MISSING, MISSING_BARE)

// Entries that came after all that we know, for callers that do not look at
// the table's size. It does not count them.
#define UNKNOWN(tens, ones)                                            \
  static PJRT_Error* Unknown##tens##ones(void* args) {                 \
    (void)args;                                                        \
    return ShardyError(kAbiUnimplemented, "entry " #tens #ones         \
                                          " of PJRT's table is newer " \
                                          "than this plugin");         \
  }
#define TEN(X, tens) \
  X(tens, 0)         \
  X(tens, 1)         \
  X(tens, 2)         \
  X(tens, 3) X(tens, 4) X(tens, 5) X(tens, 6) X(tens, 7) X(tens, 8) X(tens, 9)
#define UNKNOWN_SLOTS(X) \
  X(13, 6) X(13, 7) X(13, 8) X(13, 9) TEN(X, 14) TEN(X, 15)
UNKNOWN_SLOTS(UNKNOWN)

#define ERRORS_ENTRY(part, name) (AbiFunction) Shardy##part##name,
#define OWN_ENTRY(part, name) (AbiFunction) Aot##part##name,
#define ANSWER_ENTRY(part, name) (AbiFunction) Answer##part##name,
#define ANSWER_ENTRY_BARE(name) (AbiFunction) Answer##name,
#define UNKNOWN_ENTRY(tens, ones) (AbiFunction) Unknown##tens##ones,

enum { kAllSlots = 160 };

static const struct {
  size_t struct_size;
  void* extension_start;
  AbiVersion version;
  AbiFunction slots[kAllSlots];
} table = {
    offsetof(AbiApi, slots) + kAotSlots * sizeof(AbiFunction),
    NULL,
    {ABI_SIZE(AbiVersion, minor_version), NULL, kAbiMajor, kAnnouncedMinor},
    {PJRT_AOT_SLOTS(ERRORS_ENTRY, OWN_ENTRY, ANSWER_ENTRY, ANSWER_ENTRY,
                    ANSWER_ENTRY, ANSWER_ENTRY_BARE)
         UNKNOWN_SLOTS(UNKNOWN_ENTRY)}};

const AbiApi* GetPjrtApi(void);
SHARDY_EXPORT const AbiApi* GetPjrtApi(void) { return (const AbiApi*)&table; }
