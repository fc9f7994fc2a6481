// A plugin that has topologies and compiles, for the tests of the compile-only
// plugin. Tests reach its state and let any call of it fail.
//
// Topology "fake:N" has N devices, four to a host; with the option num_slices
// there are as many of them, whose ids begin at 0, 100000 and so on. It lists
// them backwards. Its attributes are those of libtpu.
//
// It wants argument structs that are larger than any version's yet, and aborts
// on an error or object that is not its own.

#ifndef TEST_CSRC_AOT_FAKE_PLUGIN_H_
#define TEST_CSRC_AOT_FAKE_PLUGIN_H_

#include <stdbool.h>

#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

enum {
  kFakeSlice = 100000,
  kFakePerHost = 4,
  kFakeMostOutputs = 8,
  kFakeMostDims = 4,
  kFakeArgumentBytes = 100,  // and one more for each number after it
};

// What a program of the fake plugin is, in whatever format: all of its code.
typedef struct {
  size_t num_outputs;
  int types[kFakeMostOutputs];
  size_t num_dims[kFakeMostOutputs];
  int64_t dims[kFakeMostOutputs * kFakeMostDims];  // one after the other
  const char* memory_kinds[kFakeMostOutputs];
  size_t optimized_size;
  char optimized[256];
  char optimized_format[32];
} FakeProgram;

typedef struct {
  // Set by tests.
  int fail_at;       // this call, counted from 1, fails; 0: none does
  int fail_code;     // with this code; 0: INTERNAL
  int missing_slot;  // this entry is not implemented; 0: all are
  int odd_slot;      // this entry tells of one output too many; 0: none does
  size_t smallest;   // no argument struct may have fewer bytes
  // Seen. A call is of any entry that returns an error.
  int calls;
  int initialized;
  char compile_options[256];
  size_t compile_options_size;
  // What there is.
  int live_errors;
  int live_topologies;
  int live_executables;
} FakeAot;

// Exported under this name.
FakeAot* FakeAot_State(void);
#define FAKE_AOT_STATE "FakeAot_State"

#endif  // TEST_CSRC_AOT_FAKE_PLUGIN_H_
