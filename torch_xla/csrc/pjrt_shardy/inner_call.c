// Calls of the inner plugin's entries that return an error, and what ours
// return.

#include "torch_xla/csrc/pjrt_shardy/inner.h"

static const char* const names[] = {
#define ABI_FUNCTION(by, part, name, ...) "PJRT_" #part "_" #name,
#define ABI_BARE(by, name, ...) "PJRT_" #name,
#include "torch_xla/shardy/pjrt_abi.inc"
};

const char* ShardySlotName(int slot) { return names[slot]; }

PJRT_Error* ShardyInnerCall(int slot, void* args) {
  AbiErrorFunction function = (AbiErrorFunction)ShardyInnerSlot(slot);
  if (function == NULL) {
    return ShardyError(kAbiUnimplemented, "the inner PJRT plugin has no %s",
                       ShardySlotName(slot));
  }
  return function(args);
}

PJRT_Error* ShardyNoMemory(int slot) {
  return ShardyError(kAbiResourceExhausted, "%s: out of memory",
                     ShardySlotName(slot));
}

PJRT_Error* ShardyTooShort(int slot, size_t size, size_t needed) {
  return ShardyError(
      kAbiInvalidArgument,
      "%s: the argument struct has %zu bytes, at least %zu are needed",
      ShardySlotName(slot), size, needed);
}
