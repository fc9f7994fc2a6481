// Compiled programs, as the HloModuleProtoWithConfig that XLA's plugins tell.

#ifndef TEST_CSRC_WRONG_PLUGIN_COMPILED_H_
#define TEST_CSRC_WRONG_PLUGIN_COMPILED_H_

#include <stdbool.h>
#include <stddef.h>

// True if a parameter is split over devices.
bool SplitsParameters(const char* code, size_t size);
// These say of every output, or parameter, that it is replicated.
void ReplicateOutputs(char* code, size_t size);
void ReplicateParameters(char* code, size_t size);

#endif  // TEST_CSRC_WRONG_PLUGIN_COMPILED_H_
