// Execute with options of another version than the plugin's.

#include "test/csrc/driver.h"

enum { kLargest = 384 };

typedef struct {
  const AbiApi* api;
  AbiLoadedExecutableExecuteArgs args;
  void* output;
  void* outputs[1];
  void* event;
} Run;

// Options of `size` bytes that are exactly as long, so that reading on is seen.
static AbiExecuteOptions* MakeOptions(size_t size) {
  AbiExecuteOptions* options = calloc(1, size);
  CHECK(options != NULL);
  options->struct_size = size;
  if (size >= 16) options->extension_start = &shim;
  if (size >= 72) {
    options->launch_id = 4711;
    options->num_non_donatable_input_indices = 3;
  }
  return options;
}

static PJRT_Error* Execute(Run* run, AbiExecuteOptions* options) {
  run->api = shim.get_api();
  run->output = run->event = NULL;
  run->outputs[0] = &run->output;
  run->args =
      (AbiLoadedExecutableExecuteArgs){.struct_size = sizeof(run->args),
                                       .options = options,
                                       .num_devices = 1,
                                       .output_lists = run->outputs,
                                       .device_complete_events = &run->event};
  AbiLoadedExecutableExecuteArgs before = run->args;
  PJRT_Error* error = Call(run->api, kSlotLoadedExecutableExecute, &run->args);
  CHECK(memcmp(&before, &run->args, sizeof(before)) == 0);
  CHECK(error != NULL || run->output == Record());
  CHECK(error != NULL || run->event != NULL);
  return error;
}

// The size that the fake plugin insists on.
static size_t Wanted(const AbiApi* api) {
  const int minor = api->version.minor_version;
  if (minor > 105) return 256;
  if (minor >= 97) return 120;
  if (minor >= 78) return 112;
  if (minor >= 76) return 88;
  return minor >= 64 ? 80 : 72;
}

// Unset options of every size get through, with what they set.
static void ExecuteSkew(void) {
  const AbiApi* api = OpenInner();
  const size_t wanted = Wanted(api);
  const size_t sizes[] = {72, 80, 88, 112, 120, 128, 256, kLargest};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    AbiExecuteOptions* options = MakeOptions(sizes[i]);
    Run run;
    PJRT_Error* error = Execute(&run, options);
    if (error != NULL) ExpectError(api, error, kAbiOk, "unexpected");
    const FakeRecord* record = Record();
    const bool direct =
        sizes[i] == wanted || (wanted == 256 && sizes[i] > wanted);
    CHECK((record->execute_args == &run.args) == direct);
    CHECK((record->execute_options == options) == direct);
    CHECK(record->execute_options_size == (direct ? sizes[i] : wanted));
    const AbiExecuteOptions* seen =
        (const AbiExecuteOptions*)record->execute_options_bytes;
    CHECK(seen->extension_start == (void*)&shim);
    CHECK(seen->launch_id == 4711);
    CHECK(seen->num_non_donatable_input_indices == 3);
    for (size_t j = 72; j < wanted; ++j) {
      CHECK(record->execute_options_bytes[j] == 0);
    }
    free(options);
  }
  ExpectNothingAlive();
}

// Sets one byte and looks what becomes of it: dropped only if it may be.
static void ExpectByte(size_t offset, bool droppable) {
  const AbiApi* api = shim.get_api();
  const size_t wanted = Wanted(api);
  AbiExecuteOptions* options = MakeOptions(kLargest);
  ((char*)options)[offset] = 1;
  Run run;
  PJRT_Error* error = Execute(&run, options);
  const size_t seen = wanted == 256 ? kLargest : wanted;
  if (offset < seen) {
    CHECK(error == NULL);
    CHECK(Record()->execute_options_bytes[offset] == 1);
  } else if (droppable) {
    CHECK(error == NULL);
  } else {
    char part[64];
    snprintf(part, sizeof(part), "byte %zu of the options", offset);
    ExpectError(api, error, kAbiUnimplemented, part);
  }
  free(options);
}

static void ExecuteDropped(void) {
  OpenInner();
  ExpectByte(72, false);
  ExpectByte(79, false);
  ExpectByte(80, true);
  ExpectByte(88, false);
  ExpectByte(96, true);  // without a count they are no ids
  ExpectByte(104, true);
  ExpectByte(112, false);
  ExpectByte(120, false);
  ExpectByte(kLargest - 1, false);
  ExpectNothingAlive();
}

// The caller's later fields are not read if its struct ends before them.
static void ExecuteOddSizes(void) {
  const AbiApi* api = OpenInner();
  const size_t wanted = Wanted(api);
  for (size_t size = 16; size < 130; ++size) {
    AbiExecuteOptions* options = MakeOptions(size);
    // Half a count is none, and its other half is not there to be read.
    if (size > 88 && size < 96) ((char*)options)[size - 1] = 1;
    Run run;
    CHECK(Execute(&run, options) == NULL);
    CHECK(Record()->execute_options_size == wanted);
    free(options);
  }
  ExpectNothingAlive();
}

static void ExecuteMisuse(void) {
  const AbiApi* api = OpenInner();
  Run run;
  CHECK(Execute(&run, NULL) == NULL);
  CHECK(Record()->execute_args == &run.args);
  size_t* nothing = malloc(sizeof(size_t));
  CHECK(nothing != NULL);
  for (*nothing = 0; *nothing < 16; ++*nothing) {
    ExpectError(api, Execute(&run, (AbiExecuteOptions*)nothing),
                kAbiInvalidArgument, "set its struct_size");
  }
  for (*nothing = 0; *nothing < 32; *nothing += 8) {
    AbiLoadedExecutableExecuteArgs* args =
        calloc(1, *nothing < 8 ? 8 : *nothing);
    CHECK(args != NULL);
    args->struct_size = *nothing;
    ExpectError(api, Call(api, kSlotLoadedExecutableExecute, args),
                kAbiInvalidArgument, "at least 32 are needed");
    free(args);
  }
  free(nothing);
}

// The plugin's own error about the arguments comes through, options adapted.
static void ExecuteInnerError(void) {
  const AbiApi* api = OpenInner();
  AbiExecuteOptions* options = MakeOptions(72);
  AbiLoadedExecutableExecuteArgs* args = calloc(1, 40);
  CHECK(args != NULL);
  args->struct_size = 40;
  args->options = options;
  PJRT_Error* error = Call(api, kSlotLoadedExecutableExecute, args);
  CHECK(error == Record()->error);
  ExpectError(api, error, kAbiInvalidArgument,
              "fake: LoadedExecutableExecuteArgs has 40");
  CHECK(args->options == options);
  free(args);
  free(options);
  ExpectNothingAlive();
}

// Argument structs of the future: all of them is passed on, and back.
static void ExecuteLargeArgs(void) {
  const AbiApi* api = OpenInner();
  const size_t sizes[] = {88, 256, 264, 512};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    AbiExecuteOptions* options = MakeOptions(72);
    AbiLoadedExecutableExecuteArgs* args = calloc(1, sizes[i]);
    CHECK(args != NULL);
    args->struct_size = sizes[i];
    args->options = options;
    CHECK(Call(api, kSlotLoadedExecutableExecute, args) == NULL);
    CHECK(args->options == options);
    CHECK(((char*)args)[sizes[i] - 1] == kFakeTailOutput);
    free(args);
    free(options);
  }
}

const Scenario execute_scenarios[] = {
    {"execute_skew", ExecuteSkew},
    {"execute_dropped", ExecuteDropped},
    {"execute_odd_sizes", ExecuteOddSizes},
    {"execute_misuse", ExecuteMisuse},
    {"execute_inner_error", ExecuteInnerError},
    {"execute_large_args", ExecuteLargeArgs},
    {NULL, NULL}};
