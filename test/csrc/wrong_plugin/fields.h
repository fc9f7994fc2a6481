// Where things stand in XLA's messages and in texts, to be changed in place.
// The bytes have to be ours.

#ifndef TEST_CSRC_WRONG_PLUGIN_FIELDS_H_
#define TEST_CSRC_WRONG_PLUGIN_FIELDS_H_

#include <stdbool.h>
#include <stddef.h>

#include "test/csrc/wrong_plugin/wire.h"

// Fields of XLA's messages.
enum {
  kCompileOptionsBuild = 3,
  kBuildAssignment = 9,
  kBuildShardy = 19,
  kAssignmentComputations = 3,
  kComputationIds = 1,
  kWithConfigModule = 1,
  kModuleComputations = 3,
  kModuleOutputSharding = 12,
  kModuleParameterShardings = 14,
  kComputationInstructions = 2,
  kInstructionOpcode = 2,
  kInstructionShape = 3,
  kInstructionSharding = 40,
  kShapeDimensions = 3,
  kShardingType = 1,
  kShardingTiles = 3,
  kShardingDevices = 4,
  kShardingTuple = 5,
  kShardingPerm = 10,
};

// Moves behind the next field of that number.
bool NextOf(Wire* wire, int number, WireField* field);
// Makes an OpSharding, but not one of a tuple, a replicated one.
void Replicate(Wire sharding);

typedef struct {
  char* at;
  char* end;
} Text;

// Moves behind the next occurrence of `what`.
bool FindText(Text* text, const char* what);
bool IsDigit(const Text* text);

#endif  // TEST_CSRC_WRONG_PLUGIN_FIELDS_H_
