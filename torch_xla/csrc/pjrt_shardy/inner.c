// The inner plugin: its function table, calls of entries that return an error,
// what ours return, and its named values, such as attributes and costs.

#include "torch_xla/csrc/pjrt_shardy/inner.h"

#include <stdatomic.h>
#include <string.h>

static const AbiApi* _Atomic inner_table = NULL;

void ShardySetInnerTable(const AbiApi* table) {
  atomic_store_explicit(&inner_table, table, memory_order_release);
}

const AbiApi* ShardyInnerTable(void) {
  return atomic_load_explicit(&inner_table, memory_order_acquire);
}

bool ShardyHoldsSlot(const AbiApi* table, int slot) {
  return table->struct_size >=
         offsetof(AbiApi, slots) + ((size_t)slot + 1) * sizeof(AbiFunction);
}

AbiFunction ShardyInnerSlot(int slot) {
  const AbiApi* inner = ShardyInnerTable();
  return inner != NULL && ShardyHoldsSlot(inner, slot) ? inner->slots[slot]
                                                       : NULL;
}

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
