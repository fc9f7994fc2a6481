// Attributes of the inner plugin, such as the versions that it understands.

#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

SHARDY_EXPORT int PjrtShardy_PluginAttribute(const char* name, int64_t* values,
                                             size_t capacity, size_t* count) {
  *count = 0;
  if (ShardyInnerTable() == NULL) return kAbiFailedPrecondition;
  AbiPluginAttributesArgs args = {
      ABI_SIZE(AbiPluginAttributesArgs, num_attributes), NULL, NULL, 0};
  const int code =
      ShardyTakeCode(ShardyInnerCall(kSlotPluginAttributes, &args));
  // A plugin that lacks the function has no attributes.
  if (code != kAbiOk) return code == kAbiUnimplemented ? kAbiNotFound : code;
  const AbiNamedValue* value =
      ShardyFindValue(args.attributes, args.num_attributes, name);
  if (value == NULL) return kAbiNotFound;
  const int64_t* found = &value->int64_value;
  size_t size = 1;
  if (value->type == kAbiValueInt64List) {
    found = value->int64_array_value;
    size = value->value_size;
  } else if (value->type != kAbiValueInt64) {
    return kAbiInvalidArgument;
  }
  const size_t copied = size < capacity ? size : capacity;
  if (copied > 0) memcpy(values, found, copied * sizeof(int64_t));
  *count = size;
  return kAbiOk;
}
