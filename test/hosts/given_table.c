// A PJRT plugin whose table its process gives it; see answered_table.py.

#define EXPORT __attribute__((visibility("default")))

void GivePjrtApi(const void* table);
const void* GetPjrtApi(void);

static const void* given;

EXPORT void GivePjrtApi(const void* table) { given = table; }

EXPORT const void* GetPjrtApi(void) { return given; }
