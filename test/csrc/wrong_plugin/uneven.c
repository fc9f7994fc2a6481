#include "test/csrc/wrong_plugin/uneven.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/fields.h"

enum { kMaxRank = 16 };

// The integers of a packed field; how many.
static size_t ReadDims(AotWire message, int number, int64_t* dims) {
  size_t count = 0;
  AotField field;
  while (NextOf(&message, number, &field)) {
    AotInts ints = {NULL, 0, 0};
    if (AotReadInts(&field, &ints) == kAotRead) {
      for (size_t i = 0; i < ints.count && count < kMaxRank; ++i) {
        dims[count++] = ints.values[i];
      }
    }
    free(ints.values);
  }
  return count;
}

static bool SplitsUnevenly(AotWire sharding, const int64_t* dims, size_t rank) {
  int64_t tiles[kMaxRank];
  if (ReadDims(sharding, kShardingTiles, tiles) < rank) return false;
  for (size_t i = 0; i < rank; ++i) {
    if (tiles[i] > 0 && dims[i] % tiles[i] != 0) return true;
  }
  return false;
}

static void ReplicateParameter(AotWire instruction) {
  AotWire reading = instruction;
  AotField field, shape = {0}, sharding = {0};
  bool parameter = false;
  while (AotNextField(&reading, &field)) {
    if (field.number == kInstructionOpcode) {
      parameter = field.size == strlen("parameter") &&
                  memcmp(field.bytes, "parameter", field.size) == 0;
    }
    if (field.number == kInstructionShape) shape = field;
    if (field.number == kInstructionSharding) sharding = field;
  }
  if (!parameter || shape.bytes == NULL || sharding.bytes == NULL) return;
  int64_t dims[kMaxRank];
  const size_t rank = ReadDims(AotWireIn(&shape), kShapeDimensions, dims);
  if (SplitsUnevenly(AotWireIn(&sharding), dims, rank)) {
    Replicate(AotWireIn(&sharding));
  }
}

void ReplicateUneven(char* code, size_t size) {
  AotWire module = AotWireOf(code, size);
  AotField computation, instruction;
  while (NextOf(&module, kModuleComputations, &computation)) {
    AotWire in_computation = AotWireIn(&computation);
    while (NextOf(&in_computation, kComputationInstructions, &instruction)) {
      ReplicateParameter(AotWireIn(&instruction));
    }
  }
}
