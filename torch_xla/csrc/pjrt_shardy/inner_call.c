// Calls of the inner plugin's entries that return an error.

#include "torch_xla/csrc/pjrt_shardy/inner.h"

PJRT_Error* ShardyInnerCall(int slot, const char* name, void* args) {
  AbiErrorFunction function = (AbiErrorFunction)ShardyInnerSlot(slot);
  if (function == NULL) {
    return ShardyError(kAbiUnimplemented, "the inner PJRT plugin has no %s",
                       name);
  }
  return function(args);
}
