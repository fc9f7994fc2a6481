// Opening the inner plugin, the table, and the errors.

#include <pthread.h>

#include "test/csrc/driver.h"

// Opens, must fail with the code, and with a message that has both texts.
static void ExpectRefused(const char* path, int code, const char* part) {
  char message[512] = "unwritten";
  CHECK(shim.open(path, message, sizeof(message)) == code);
  CHECK_HAS(message, part);
  if (path != NULL) CHECK_HAS(message, path);
}

static void Version(void) { CHECK(shim.version() == PJRT_SHARDY_VERSION); }

static void OpenErrors(void) {
  ExpectRefused(NULL, kAbiInvalidArgument, "give the path");
  ExpectRefused("", kAbiInvalidArgument, "give the path");
  ExpectRefused("./no/such/plugin.so", kAbiNotFound, "check the path");
  ExpectRefused(__FILE__, kAbiNotFound, "cannot load");
  ExpectRefused(not_a_plugin_path, kAbiInvalidArgument, "no PJRT plugin");
  ExpectRefused(shim_path, kAbiInvalidArgument, "is this library itself");
  // A short buffer is cut, none is fine.
  char small[8] = "1234567";
  CHECK(shim.open("./no/such/plugin.so", small, 5) == kAbiNotFound);
  CHECK(strcmp(small, "cann") == 0 && small[5] == '6');
  CHECK(shim.open("./no/such/plugin.so", NULL, 0) == kAbiNotFound);
  // None of that is for ever.
  const AbiApi* api = OpenInner();
  CHECK(api->struct_size == InnerApi()->struct_size);
  CHECK(OpenInner() == api);
  ExpectRefused(not_a_plugin_path, kAbiFailedPrecondition, inner_path);
  CHECK(shim.get_api() == api);
}

// The fake plugin refuses or breaks; EXPECT_TEXT says what must be told.
static void Refused(void) {
  const char* text = getenv("EXPECT_TEXT");
  CHECK(text != NULL);
  char message[512];
  const int code = shim.open(inner_path, message, sizeof(message));
  CHECK(code == kAbiFailedPrecondition || code == kAbiInternal);
  CHECK_HAS(message, inner_path);
  CHECK_HAS(message, text);
}

// All is the inner plugin's but for the entries that are overridden.
static void Table(void) {
  const AbiApi* api = OpenInner();
  const AbiApi* inner = InnerApi();
  CHECK(api != inner);
  CHECK(api->struct_size == inner->struct_size);
  CHECK(inner->extension_start != NULL);
  CHECK(memcmp(&api->version, &inner->version, sizeof(api->version)) == 0);
  const size_t slots =
      (api->struct_size - offsetof(AbiApi, slots)) / sizeof(AbiFunction);
  const bool payloads = api->version.minor_version >= 99;
  for (int i = 0; i < (int)slots; ++i) {
    const bool ours = i == kSlotErrorDestroy || i == kSlotErrorMessage ||
                      i == kSlotErrorGetCode || i == kSlotClientDestroy ||
                      i == kSlotClientAddressableDevices ||
                      i == kSlotClientCompile || i == kSlotExecutableDestroy ||
                      i == kSlotLoadedExecutableDestroy ||
                      i == kSlotLoadedExecutableGetExecutable ||
                      i == kSlotExecutableOptimizedProgram ||
                      i == kSlotLoadedExecutableExecute ||
                      (payloads && i == kSlotErrorForEachPayload);
    CHECK((api->slots[i] != inner->slots[i]) == ours);
  }
}

// Calls a function of the profiler that the framework finds first.
static void* CallProfiler(const AbiApi* api, int function, void* args) {
  const size_t* extension = api->extension_start;
  CHECK(extension[0] >= 32 && extension[1] == 1);
  const size_t* profiler = (const size_t*)extension[3];
  CHECK(profiler[0] == 80);
  void* (*call)(void*);
  *(size_t*)&call = profiler[2 + function];
  return call(args);
}

// A plugin without a profiler gets one that collects nothing.
static void ProfilerMade(void) {
  const AbiApi* api = OpenInner();
  CHECK(((void**)api->extension_start)[2] == InnerApi()->extension_start);
  size_t create[] = {0, 0, 0, 7}, collect[] = {0, 0, 0, 7};
  for (int i = 0; i < 7; ++i) CHECK(CallProfiler(api, i, create) == NULL);
  CHECK(create[3] == 0);
  CHECK(CallProfiler(api, 7, collect) == NULL);
  CHECK(collect[3] == 0);
}

static void ProfilerKept(void) {
  CHECK(OpenInner()->extension_start == InnerApi()->extension_start);
}

// One with functions that the framework does not know is cut to those it does.
static void ProfilerCut(void) {
  const size_t* extension = OpenInner()->extension_start;
  const size_t* profiler = (const size_t*)extension[3];
  CHECK(profiler[0] == 80 && profiler[9] == 9);
}

// What the plugin does not have, the shim does not promise. But for one entry,
// which answers may take the place of.
static void BareTable(void) {
  const AbiApi* api = OpenInner();
  CHECK(api->slots[kSlotLoadedExecutableExecute] == NULL);
  CHECK(InnerApi()->slots[kSlotExecutableOptimizedProgram] == NULL);
  CHECK(api->slots[kSlotExecutableOptimizedProgram] != NULL);
  CHECK(api->slots[kSlotErrorForEachPayload] == NULL);
  CHECK(api->slots[kSlotClientCompile] != NULL);
}

// An error of the shim's own: Execute with a struct that holds nothing.
static PJRT_Error* OwnError(const AbiApi* api) {
  AbiLoadedExecutableExecuteArgs args = {.struct_size = 8};
  return Call(api, kSlotLoadedExecutableExecute, &args);
}

static void Errors(void) {
  const AbiApi* api = OpenInner();
  // Both kinds at once, destroyed in another order than made.
  PJRT_Error* own = OwnError(api);
  PJRT_Error* inner = Call(api, 3, NULL);
  CHECK(inner == Record()->error);
  PJRT_Error* second = OwnError(api);
  PJRT_Error* third = OwnError(api);
  ExpectError(api, second, kAbiInvalidArgument, "8 bytes");
  ExpectError(api, inner, kAbiUnimplemented, "fake: no such function");
  ExpectError(api, own, kAbiInvalidArgument, "8 bytes");
  ExpectError(api, third, kAbiInvalidArgument, "8 bytes");
  ExpectNothingAlive();
  AbiErrorDestroyArgs none = {sizeof(none), NULL, NULL};
  ((AbiVoidFunction)api->slots[kSlotErrorDestroy])(&none);
}

// Argument structs of error functions that are too short are left alone.
static void ShortErrorArgs(void) {
  const AbiApi* api = OpenInner();
  PJRT_Error* own = OwnError(api);
  AbiErrorMessageArgs text = {24, NULL, own, NULL, 7};
  ((AbiVoidFunction)api->slots[kSlotErrorMessage])(&text);
  CHECK(text.message == NULL && text.message_size == 7);
  AbiErrorGetCodeArgs code = {24, NULL, own, 77};
  ExpectError(api, Call(api, kSlotErrorGetCode, &code), kAbiInvalidArgument,
              "24 bytes");
  CHECK(code.code == 77);
  AbiErrorDestroyArgs destroy = {8, NULL, own};
  ((AbiVoidFunction)api->slots[kSlotErrorDestroy])(&destroy);
  ExpectError(api, own, kAbiInvalidArgument, "8 bytes");
}

static void Payloads(void) {
  const AbiApi* api = OpenInner();
  PJRT_Error* own = OwnError(api);
  AbiErrorForEachPayloadArgs args = {40, NULL, own};
  CHECK(Call(api, kSlotErrorForEachPayload, &args) == NULL);
  PJRT_Error* inner = Call(api, 3, NULL);
  args.error = inner;
  ExpectError(api, Call(api, kSlotErrorForEachPayload, &args), kAbiInternal,
              "payloads were asked for");
  ExpectError(api, inner, kAbiUnimplemented, "fake");
  ExpectError(api, own, kAbiInvalidArgument, "8 bytes");
  ExpectNothingAlive();
}

static void* OpenOnce(void* unused) {
  (void)unused;
  return (void*)OpenInner();
}

// Every thread sees the same table, and errors do not get lost.
static void* ManyErrors(void* api) {
  for (int i = 0; i < 200; ++i) {
    ExpectError(api, OwnError(api), kAbiInvalidArgument, "8 bytes");
  }
  return NULL;
}

static void OpenThreads(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    CHECK(pthread_create(&threads[i], NULL, OpenOnce, NULL) == 0);
  }
  void* tables[4];
  for (int i = 0; i < 4; ++i) CHECK(!pthread_join(threads[i], &tables[i]));
  for (int i = 0; i < 4; ++i) CHECK(tables[i] == shim.get_api());
  for (int i = 0; i < 4; ++i) {
    CHECK(pthread_create(&threads[i], NULL, ManyErrors, tables[0]) == 0);
  }
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

const Scenario open_scenarios[] = {{"version", Version},
                                   {"open_errors", OpenErrors},
                                   {"refused", Refused},
                                   {"table", Table},
                                   {"bare_table", BareTable},
                                   {"profiler_made", ProfilerMade},
                                   {"profiler_kept", ProfilerKept},
                                   {"profiler_cut", ProfilerCut},
                                   {"errors", Errors},
                                   {"short_error_args", ShortErrorArgs},
                                   {"payloads", Payloads},
                                   {"open_threads", OpenThreads},
                                   {NULL, NULL}};
