// Changes of the same length inside programs and options, which leave the other
// bytes as they are.

#ifndef TEST_CSRC_WRONG_PLUGIN_PATCHES_H_
#define TEST_CSRC_WRONG_PLUGIN_PATCHES_H_

#include <stdbool.h>
#include <stddef.h>

// Of serialized compile options.
bool AsksForShardy(const char* options, size_t size);
void AskNotForShardy(char* options, size_t size);
void AssignInOrder(char* options, size_t size);

// Of programs, in HLO or MLIR. Nothing where there is no such place.

// "p1" to "p9" behind the axes of a dimension become "p0".
void DropPriorities(char* code, size_t size);
// V2 shardings become those of the same tiles without a transposition.
void MisreadV2(char* code, size_t size);
// V1 shardings become those of devices in ascending order.
void MisreadV1(char* code, size_t size);
// The device_ids of Shardy's meshes are put into descending order.
void MisreadMeshes(char* code, size_t size);

#endif  // TEST_CSRC_WRONG_PLUGIN_PATCHES_H_
