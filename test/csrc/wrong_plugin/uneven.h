// Parameters with a dimension that their sharding splits unevenly.

#ifndef TEST_CSRC_WRONG_PLUGIN_UNEVEN_H_
#define TEST_CSRC_WRONG_PLUGIN_UNEVEN_H_

#include <stddef.h>

// Makes those of an HloModuleProto replicated. Shardy's programs have none:
// what lowers to it pads them.
void ReplicateUneven(char* code, size_t size);

#endif  // TEST_CSRC_WRONG_PLUGIN_UNEVEN_H_
