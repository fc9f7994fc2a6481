// What every plugin of ours that stands before another needs: the inner plugin
// and its table, errors of either side, and attributes.

#ifndef TORCH_XLA_CSRC_PJRT_SHARDY_INNER_H_
#define TORCH_XLA_CSRC_PJRT_SHARDY_INNER_H_

#include <stdbool.h>
#include <stddef.h>

#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

#define SHARDY_EXPORT __attribute__((visibility("default")))
#define SHARDY_PRINTF(text, first) __attribute__((format(printf, text, first)))

// load.c

// Loads the plugin at `path` and checks that its table can be stood before.
//
// Args:
//   path: the library; a plugin that was loaded stays loaded.
//   ourselves: a function that only the caller's own library exports.
//   last_slot: the table must be as long as to hold this entry.
//   table: gets the plugin's table.
//   message: gets the reason of a failure, which names path and remedy.
//
// Returns a code: NOT_FOUND, INVALID_ARGUMENT of what is no plugin, or
// FAILED_PRECONDITION of one that does not fit.
int ShardyLoadPlugin(const char* path, const char* ourselves, int last_slot,
                     const AbiApi** table, char* message, size_t message_size);
// Writes a reason, cut to `message_size`, and returns the code.
int ShardyFailOpen(char* message, size_t message_size, int code,
                   const char* format, ...) SHARDY_PRINTF(4, 5);

// inner.c

// The inner plugin's own table, or NULL while none is open. Never freed.
const AbiApi* ShardyInnerTable(void);
// Called once, before GetPjrtApi gives a table.
void ShardySetInnerTable(const AbiApi* table);
// Whether a table, of whichever plugin, is long enough to have the slot.
bool ShardyHoldsSlot(const AbiApi* table, int slot);
// The inner plugin's entry, or NULL if it has none.
AbiFunction ShardyInnerSlot(int slot);
// The PJRT name of an entry.
const char* ShardySlotName(int slot);
// Calls an entry that returns an error; a missing one is UNIMPLEMENTED.
PJRT_Error* ShardyInnerCall(int slot, void* args);
// What an entry of ours returns without memory, and where its argument struct
// is shorter than is needed.
PJRT_Error* ShardyNoMemory(int slot);
PJRT_Error* ShardyTooShort(int slot, size_t size, size_t needed);
// The value of that name among `count` of the inner plugin's, or NULL.
const AbiNamedValue* ShardyFindValue(const AbiNamedValue* values, size_t count,
                                     const char* name);

// errors.c

// A new error of our own, never NULL. The caller hands it to the framework,
// which frees it through Error_Destroy.
PJRT_Error* ShardyError(int code, const char* format, ...) SHARDY_PRINTF(2, 3);
// The same from bytes that need not be NUL-terminated.
PJRT_Error* ShardyErrorFromBytes(int code, const char* message, size_t size);
// Its code, never 0. The error stays the caller's.
int ShardyErrorCode(PJRT_Error* error);
// The same, and frees the error; 0 for NULL.
int ShardyTakeCode(PJRT_Error* error);
// Frees an error, ours or the inner plugin's; NULL is none.
void ShardyFreeError(PJRT_Error* error);

// errors.c: entries that know our errors and the inner plugin's apart.

void ShardyErrorDestroy(AbiErrorDestroyArgs* args);
void ShardyErrorMessage(AbiErrorMessageArgs* args);
PJRT_Error* ShardyErrorGetCode(AbiErrorGetCodeArgs* args);
PJRT_Error* ShardyErrorForEachPayload(AbiErrorForEachPayloadArgs* args);

#endif  // TORCH_XLA_CSRC_PJRT_SHARDY_INNER_H_
