// Attributes of the inner plugin, such as the versions that it understands.

#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// The value after this one, or NULL if this is too short to be read or to tell
// where the next begins. A later version's may be longer than we know.
static const AbiNamedValue* Next(const AbiNamedValue* value) {
  if (!ABI_HOLDS(AbiNamedValue, value_size, value->struct_size)) return NULL;
  const size_t alignment = _Alignof(AbiNamedValue);
  const size_t stride =
      (value->struct_size + alignment - 1) / alignment * alignment;
  return (const AbiNamedValue*)((const char*)value + stride);
}

static const AbiNamedValue* Find(const AbiPluginAttributesArgs* args,
                                 const char* name) {
  const size_t name_size = strlen(name);
  const AbiNamedValue* value = args->attributes;
  for (size_t i = 0; i < args->num_attributes && value != NULL; ++i) {
    const AbiNamedValue* next = Next(value);
    if (next != NULL && value->name_size == name_size &&
        memcmp(value->name, name, name_size) == 0) {
      return value;
    }
    value = next;
  }
  return NULL;
}

// Frees the error. A plugin that lacks the function has no attributes.
static int Refusal(PJRT_Error* error) {
  const int code = ShardyErrorCode(error);
  ShardyFreeError(error);
  return code == kAbiUnimplemented ? kAbiNotFound : code;
}

SHARDY_EXPORT int PjrtShardy_PluginAttribute(const char* name, int64_t* values,
                                             size_t capacity, size_t* count) {
  *count = 0;
  if (ShardyInnerTable() == NULL) return kAbiFailedPrecondition;
  AbiPluginAttributesArgs args = {
      ABI_SIZE(AbiPluginAttributesArgs, num_attributes), NULL, NULL, 0};
  PJRT_Error* error =
      ShardyInnerCall(kSlotPluginAttributes, "PJRT_Plugin_Attributes", &args);
  if (error != NULL) return Refusal(error);
  const AbiNamedValue* value = Find(&args, name);
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
