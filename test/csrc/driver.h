// What the scenarios of the test driver share.

#ifndef TEST_CSRC_DRIVER_H_
#define TEST_CSRC_DRIVER_H_

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/fake_plugin.h"
#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"
#include "torch_xla/csrc/pjrt_shardy/pjrt_shardy.h"

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) {                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, \
              #condition);                                         \
      exit(1);                                                     \
    }                                                              \
  } while (0)

// Checks that a text holds another, and shows both if it does not.
#define CHECK_HAS(text, part)                                           \
  do {                                                                  \
    const char* text_ = (text);                                         \
    if (strstr(text_, (part)) == NULL) {                                \
      fprintf(stderr, "%s:%d: \"%s\" does not have \"%s\"\n", __FILE__, \
              __LINE__, text_, (part));                                 \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

// The exported functions of the shim.
typedef struct {
  const AbiApi* (*get_api)(void);
  int (*version)(void);
  int (*open)(const char*, char*, size_t);
  void (*set_callback)(PjrtShardy_CompileCallback, void*);
  int (*attribute)(const char*, int64_t*, size_t, size_t*);
  int (*compile)(PjrtShardy_Compilation*, const char*, size_t, const char*,
                 size_t, const char*, size_t);
  const char* (*message)(PjrtShardy_Compilation*, size_t*);
  int (*compiled)(PjrtShardy_Compilation*, const char**, size_t*, const char**,
                  size_t*);
  int (*serialized)(PjrtShardy_Compilation*, const char**, size_t*);
  int (*load)(PjrtShardy_Compilation*, const char*, size_t);
  void (*set_optimized)(PjrtShardy_Compilation*, const char*, size_t,
                        const char*, size_t);
  void (*fail)(PjrtShardy_Compilation*, int, const char*, size_t);
  void (*set_readback)(PjrtShardy_ReadbackCallback, void*);
  void (*replace)(PjrtShardy_Readback*, const char*, size_t);
  void (*fail_readback)(PjrtShardy_Readback*, int, const char*, size_t);
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

// Calls an entry that returns an error.
PJRT_Error* Call(const AbiApi* api, int slot, void* args);
// Checks code and part of the message through the table, and destroys.
void ExpectError(const AbiApi* api, PJRT_Error* error, int code,
                 const char* part);
// No errors, executables or serialized ones may be left in the plugin.
void ExpectNothingAlive(void);

// Fills a table of scenarios; main finds them by name.
typedef struct {
  const char* name;
  void (*run)(void);
} Scenario;
extern const Scenario answer_scenarios[];
extern const Scenario attribute_scenarios[];
extern const Scenario open_scenarios[];
extern const Scenario cache_scenarios[];
extern const Scenario callback_scenarios[];
extern const Scenario compile_scenarios[];
extern const Scenario execute_scenarios[];
extern const Scenario readback_scenarios[];

#endif  // TEST_CSRC_DRIVER_H_
