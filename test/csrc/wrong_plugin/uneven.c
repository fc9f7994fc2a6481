#include "test/csrc/wrong_plugin/uneven.h"

#include <stdint.h>
#include <string.h>

#include "test/csrc/wrong_plugin/fields.h"

enum { kMaxRank = 16 };

// The integers of a packed field; how many.
static size_t ReadDims(Wire message, int number, int64_t* dims) {
  size_t count = 0;
  WireField field;
  while (count < kMaxRank && NextOf(&message, number, &field)) {
    count += WireReadInts(&field, dims + count, kMaxRank - count);
  }
  return count;
}

static bool SplitsUnevenly(Wire sharding, const int64_t* dims, size_t rank) {
  int64_t tiles[kMaxRank];
  if (ReadDims(sharding, kShardingTiles, tiles) < rank) return false;
  for (size_t i = 0; i < rank; ++i) {
    if (tiles[i] > 0 && dims[i] % tiles[i] != 0) return true;
  }
  return false;
}

static void ReplicateParameter(Wire instruction) {
  Wire reading = instruction;
  WireField field, shape = {0}, sharding = {0};
  bool parameter = false;
  while (WireNextField(&reading, &field)) {
    if (field.number == kInstructionOpcode) {
      parameter = field.size == strlen("parameter") &&
                  memcmp(field.bytes, "parameter", field.size) == 0;
    }
    if (field.number == kInstructionShape) shape = field;
    if (field.number == kInstructionSharding) sharding = field;
  }
  if (!parameter || shape.bytes == NULL || sharding.bytes == NULL) return;
  int64_t dims[kMaxRank];
  const size_t rank = ReadDims(WireIn(&shape), kShapeDimensions, dims);
  if (SplitsUnevenly(WireIn(&sharding), dims, rank)) {
    Replicate(WireIn(&sharding));
  }
}

void ReplicateUneven(char* code, size_t size) {
  Wire module = WireOf(code, size);
  WireField computation, instruction;
  while (NextOf(&module, kModuleComputations, &computation)) {
    Wire in_computation = WireIn(&computation);
    while (NextOf(&in_computation, kComputationInstructions, &instruction)) {
      ReplicateParameter(WireIn(&instruction));
    }
  }
}
