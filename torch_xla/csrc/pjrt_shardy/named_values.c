// Named values of the inner plugin: attributes, costs.

#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/inner.h"

// The value after this one, or NULL if this is too short to be read or to tell
// where the next begins. A later version's may be longer than we know.
static const AbiNamedValue* Next(const AbiNamedValue* value) {
  if (!ABI_HOLDS(AbiNamedValue, value_size, value->struct_size)) return NULL;
  const size_t alignment = _Alignof(AbiNamedValue);
  const size_t stride =
      (value->struct_size + alignment - 1) / alignment * alignment;
  return (const AbiNamedValue*)((const char*)value + stride);
}

const AbiNamedValue* ShardyFindValue(const AbiNamedValue* values, size_t count,
                                     const char* name) {
  const size_t name_size = strlen(name);
  const AbiNamedValue* value = values;
  for (size_t i = 0; i < count && value != NULL; ++i) {
    const AbiNamedValue* next = Next(value);
    if (next != NULL && value->name_size == name_size &&
        memcmp(value->name, name, name_size) == 0) {
      return value;
    }
    value = next;
  }
  return NULL;
}
