// Types of elements: PJRT's numbers, XLA's, names and sizes.

#include <stdio.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

typedef struct {
  const char* name;
  unsigned char size;  // on the host, where each small one has a byte
  unsigned char xla;   // its PrimitiveType in xla/xla_data.proto
} Type;

// By PJRT's number.
static const Type types[] = {
    {"invalid", 0, 0},
    {"pred", 1, 1},
    {"s8", 1, 2},
    {"s16", 2, 3},
    {"s32", 4, 4},
    {"s64", 8, 5},
    {"u8", 1, 6},
    {"u16", 2, 7},
    {"u32", 4, 8},
    {"u64", 8, 9},
    {"f16", 2, 10},
    {"f32", 4, 11},
    {"f64", 8, 12},
    {"bf16", 2, 16},
    {"c64", 8, 15},
    {"c128", 16, 18},
    {"f8e5m2", 1, 19},
    {"f8e4m3fn", 1, 20},
    {"f8e4m3b11fnuz", 1, 23},
    {"f8e5m2fnuz", 1, 24},
    {"f8e4m3fnuz", 1, 25},
    {"s4", 1, 21},
    {"u4", 1, 22},
    {"token", 0, 17},
    {"s2", 1, 26},
    {"u2", 1, 27},
    {"f8e4m3", 1, 28},
    {"f8e3m4", 1, 29},
    {"f8e8m0fnu", 1, 33},
    {"f4e2m1fn", 1, 32},
    {"s1", 1, 30},
    {"u1", 1, 31},
};

enum { kTypes = sizeof(types) / sizeof(types[0]) };

size_t AotElementSize(int type) {
  return type >= 0 && type < kTypes ? types[type].size : 0;
}

int AotTypeOfXla(uint64_t primitive_type) {
  for (int type = 1; type < kTypes; ++type) {
    if (types[type].xla == primitive_type) return type;
  }
  return kAbiTypeInvalid;
}

void AotWriteShape(char text[kAotShapeText], int type, const int64_t* dims,
                   size_t num_dims) {
  const bool known = type >= 0 && type < kTypes;
  int size = snprintf(text, kAotShapeText, "%s[",
                      known ? types[type].name : "unknown");
  for (size_t i = 0; i < num_dims && size < kAotShapeText; ++i) {
    size += snprintf(text + size, (size_t)(kAotShapeText - size), "%s%lld",
                     i > 0 ? "," : "", (long long)dims[i]);
  }
  if (size < kAotShapeText) {
    snprintf(text + size, (size_t)(kAotShapeText - size), "]");
  }
}
