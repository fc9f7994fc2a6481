// The inner plugin's function table. Knows nothing else.

#include <stdatomic.h>

#include "torch_xla/csrc/pjrt_shardy/inner.h"

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
