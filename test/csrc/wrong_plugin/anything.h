// A program for those that should not have become one.

#ifndef TEST_CSRC_WRONG_PLUGIN_ANYTHING_H_
#define TEST_CSRC_WRONG_PLUGIN_ANYTHING_H_

#include "test/csrc/wrong_plugin/wrong_plugin.h"

// Compiles one of no inputs, for one device, that gives 0.0.
PJRT_Error* CompileAnything(PJRT_Client* client,
                            PJRT_LoadedExecutable** executable);
// The same without a client.
PJRT_Error* CompileAnythingAhead(const PJRT_TopologyDescription* topology,
                                 PJRT_Executable** executable);

#endif  // TEST_CSRC_WRONG_PLUGIN_ANYTHING_H_
