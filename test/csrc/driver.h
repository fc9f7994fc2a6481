// What the scenarios of the test driver share.

#ifndef TEST_CSRC_DRIVER_H_
#define TEST_CSRC_DRIVER_H_

#include "test/csrc/fake_plugin.h"
#include "test/csrc/scenario.h"
#include "torch_xla/csrc/pjrt_shardy/pjrt_shardy.h"

// The exported functions of the shim.
typedef struct {
  const AbiApi* (*get_api)(void);
  int (*version)(void);
  int (*open)(const char*, char*, size_t);
  void (*set_callback)(PjrtShardy_CompileCallback, void*);
  void (*leave_first_thread)(int (*)(void));
  int (*attribute)(const char*, int64_t*, size_t, size_t*);
  int (*device_kind)(char*, size_t, size_t*);
  int (*compile)(PjrtShardy_Compilation*, const char*, size_t, const char*,
                 size_t, const char*, size_t);
  const char* (*message)(PjrtShardy_Compilation*, size_t*);
  int (*compiled)(PjrtShardy_Compilation*, const char**, size_t*, const char**,
                  size_t*);
  int (*memory)(PjrtShardy_Compilation*, PjrtShardy_Memory*);
  int (*serialized)(PjrtShardy_Compilation*, const char**, size_t*);
  int (*load)(PjrtShardy_Compilation*, const char*, size_t);
  int (*reuse)(PjrtShardy_Compilation*, uint64_t);
  void (*keep)(PjrtShardy_Compilation*, uint64_t);
  void (*set_optimized)(PjrtShardy_Compilation*, const char*, size_t,
                        const char*, size_t);
  void (*fail)(PjrtShardy_Compilation*, int, const char*, size_t);
} Shim;

extern Shim shim;
extern const char* shim_path;
extern const char* inner_path;
extern const char* not_a_plugin_path;

// Opens the fake plugin through the shim; returns the shim's table.
const AbiApi* OpenInner(void);
// The fake plugin's own table and what it saw.
const AbiApi* InnerApi(void);
const FakeRecord* Record(void);

// No errors, executables or serialized ones may be left in the plugin.
void ExpectNothingAlive(void);

extern const Scenario answer_scenarios[];
extern const Scenario attribute_scenarios[];
extern const Scenario open_scenarios[];
extern const Scenario cache_scenarios[];
extern const Scenario callback_scenarios[];
extern const Scenario compile_scenarios[];
extern const Scenario execute_scenarios[];
extern const Scenario kept_scenarios[];

#endif  // TEST_CSRC_DRIVER_H_
