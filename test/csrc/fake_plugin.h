// A PJRT plugin with faults, for the tests of the shim. The environment chooses
// them when the library hands out its table:
//
// FAKE_PLUGIN_MINOR  the API version it speaks, 0.81 unless told
// FAKE_PLUGIN_FAULT  null: no table; tiny: a table shorter than its header;
//                    short: one that ends before Execute; old: one that ends
//                    with it and cannot serialize; major: version 1.0;
//                    no_errors: without error functions; bare: without the
//                    entries that a plugin may lack; untold: attributes are
//                    not implemented; secret: it refuses to tell them;
//                    long_values: they are longer than known; short_value: one
//                    is too short
//
// It checks every struct that it is handed as strictly as any plugin does, and
// aborts on an error that is not its own.

#ifndef TEST_CSRC_FAKE_PLUGIN_H_
#define TEST_CSRC_FAKE_PLUGIN_H_

#include <stddef.h>

#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

enum {
  // Argument structs of a version that does not exist yet: more fields, of
  // which the last is an output.
  kFakeMaxTail = 512,
  kFakeTailOutput = 0x5a,
};

// What the plugin saw last.
typedef struct {
  const void* compile_args;
  char compile_format[8];
  PJRT_Error* error;  // the last one made
  const void* optimized_args;
  const void* execute_args;
  const void* execute_options;
  size_t execute_options_size;
  char execute_options_bytes[kFakeMaxTail];
  PJRT_Client* load_client;
  int optimized_calls;
  int load_calls;
  int deleted_serialized;  // ever, where the others count what is there
  int live_errors;
  int live_loaded_executables;
  int live_executables;
  int live_serialized;
  int alive_at_client_destroy;  // of the loaded executables, the last time
} FakeRecord;

// Exported under this name.
const FakeRecord* FakePlugin_Record(void);
#define FAKE_PLUGIN_RECORD "FakePlugin_Record"

// Its attributes: a string "text", a bool "flag", the integer "number", 42, and
// lists: "versions" of 1, 13 and 3, "many" of 0 to 11, and "none". "flag" is
// the one that may be too short; "number" and "none" stand before it.
enum { kFakeMany = 12 };

// A client has one device, of the kind "fake kind"; NULL, which is none, has
// no device.

// What a loaded executable of the fake plugin is: it remembers its source.
//
// A program that begins with "bad" fails to compile, one with "opaque" has no
// optimized program, one with "shy" tells only its size, one with "growing" has
// more than it told, one with "closed" has no executable, one with "unsaved"
// cannot be serialized, one with "hollow" is serialized to nothing, which has
// no deleter. One that begins with "deleted" counts as deleted, and of one with
// "mute" it cannot be said.
//
// Serialized, it is "saved:PROGRAM;OPTIONS"; nothing else can be loaded.
typedef struct {
  char* program;
  size_t program_size;
  char* options;
  size_t options_size;
} FakeLoadedExecutable;

#endif  // TEST_CSRC_FAKE_PLUGIN_H_
