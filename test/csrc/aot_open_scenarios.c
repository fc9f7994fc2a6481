// PjrtAot_Open, the devices it finds, and what there is before it.

#include "test/csrc/aot_driver.h"

// As an argument struct of any entry, which has no object.
typedef struct {
  size_t struct_size;
  void* extension_start;
  char rest[512];
} Nothing;

static void Closed(void) {
  const AbiApi* api = aot.get_api();
  CHECK(api->version.major_version == 0 && api->version.minor_version == 81);
  CHECK(api->struct_size ==
        offsetof(AbiApi, slots) + kAbiSlots * sizeof(AbiFunction));
  for (int slot = 3; slot < kAbiSlots; ++slot) {
    if (slot == kSlotErrorForEachPayload) continue;
    Nothing args = {.struct_size = sizeof(args)};
    ExpectError(api, Call(api, slot, &args), kAbiFailedPrecondition,
                "call PjrtAot_Open first");
  }
  CHECK(aot.version() == PJRT_AOT_VERSION);
  const char* text;
  size_t size;
  CHECK(aot.platform(&text, &size, &text, &size) == kAbiFailedPrecondition);
  PjrtAot_Device device;
  CHECK(aot.device(0, &device) == kAbiFailedPrecondition);
  CHECK(aot.last_program() == -1);
  PjrtAot_Program program;
  CHECK(aot.program(0, &program) == kAbiNotFound);
  CHECK(aot.end_step() == 0);
  CHECK(Counters().steps == 0);
}

static void ExpectRefused(const PjrtAot_Options* options, int code,
                          const char* part) {
  char message[512] = "unwritten";
  CHECK(aot.open(options, message, sizeof(message)) == code);
  CHECK_HAS(message, part);
  // Cut, and not at all.
  char cut[8];
  CHECK(aot.open(options, cut, sizeof(cut)) == code);
  CHECK(strlen(cut) == sizeof(cut) - 1);
  CHECK(strncmp(cut, message, sizeof(cut) - 1) == 0);
  CHECK(aot.open(options, NULL, 0) == code);
}

static void OpenErrors(void) {
  PjrtAot_Options options = Options("fake:8");
  options.library = "/nowhere/plugin.so";
  ExpectRefused(&options, kAbiNotFound, "/nowhere/plugin.so");
  options.library = other_path;
  ExpectRefused(&options, kAbiInvalidArgument, "does not export GetPjrtApi");
  options.library = aot_path;
  ExpectRefused(&options, kAbiInvalidArgument, "is this library itself");
  CHECK(Fake()->initialized == 0);

  options = Options("v9:4");
  ExpectRefused(&options, kAbiInvalidArgument,
                "topology v9:4: fake: no topology is named 'v9:4'");
  options = Options("");
  ExpectRefused(&options, kAbiInvalidArgument, "no topology is named ''");
  options = Options("fake:0");
  ExpectRefused(&options, kAbiInvalidArgument, "it has 0 devices");
  options = Options("fake:6");
  options.host = 2;
  ExpectRefused(&options, kAbiInvalidArgument,
                "no device of the topology is of host 2; it has 6 devices on "
                "hosts 0 to 1");
  options.host = -1;
  ExpectRefused(&options, kAbiInvalidArgument, "of host -1");
  CHECK(Fake()->initialized == 1);
  CHECK(Fake()->live_topologies == 0);
  // What was refused can be asked for again.
  World world = Open("fake:8");
  const PjrtAot_Options again = Options("fake:4");
  ExpectRefused(&again, kAbiFailedPrecondition, "already has topology fake:8");
  Close(world);
}

// Whichever call fails, the reason is given and nothing is left.
static void OpenFails(void) {
  const PjrtAot_Options options = Options("fake:2");
  char message[512];
  Fake()->fail_at = 1;
  CHECK(aot.open(&options, message, sizeof(message)) == kAbiInternal);
  CHECK_HAS(message, fake_path);
  CHECK(Fake()->initialized == 0 && Fake()->live_errors == 0);
  // Sets it up.
  const PjrtAot_Options unknown = Options("unknown");
  CHECK(aot.open(&unknown, message, sizeof(message)) == kAbiInvalidArgument);
  CHECK(Fake()->initialized == 1);
  // A topology, its name and version, its devices, and of each its id, process,
  // kind and attributes, which it need not have.
  for (int call = 1; call <= 7; ++call) {
    Fake()->fail_at = Fake()->calls + call;
    CHECK(aot.open(&options, message, sizeof(message)) == kAbiInternal);
    CHECK_HAS(message, "topology fake:2: fake: call");
    CHECK(Fake()->live_errors == 0 && Fake()->live_topologies == 0);
  }
  Fake()->fail_at = Fake()->calls + 8;
  Close(OpenWith(&options));
  CHECK(Fake()->initialized == 1);
}

static void OpenOptions(void) {
  const AbiNamedValue slices = {.struct_size = sizeof(slices),
                                .name = "num_slices",
                                .name_size = 10,
                                .type = kAbiValueInt64,
                                .int64_value = 2,
                                .value_size = 1};
  PjrtAot_Options options = Options("fake:4");
  options.topology_options = &slices;
  options.num_topology_options = 1;
  options.host = 1;
  World world = OpenWith(&options);
  PjrtAot_Device device;
  CHECK(aot.device(4, &device) == 0);
  CHECK(device.id == kFakeSlice && device.slice == 1 && device.process == 1);
  CHECK(device.addressable == 1);
  Close(world);
}

static void Devices(void) {
  World world = Open("fake:8");
  PjrtAot_Device device;
  for (size_t i = 0; i < 8; ++i) {
    CHECK(aot.device(i, &device) == 0);
    CHECK(device.id == (int64_t)i && device.process == (int)i / 4);
    CHECK(device.addressable == (i < 4));
    CHECK(device.kind_size == 7 && memcmp(device.kind, "Fake v1", 7) == 0);
    CHECK(device.num_coordinates == 3);
    CHECK(device.coordinates[0] == (int64_t)i % 4);
    CHECK(device.coordinates[1] == (int64_t)i / 4);
    CHECK(device.slice == 0);
  }
  CHECK(aot.device(8, &device) == kAbiNotFound);
  const char* name;
  const char* version;
  size_t name_size;
  size_t version_size;
  CHECK(aot.platform(&name, &name_size, &version, &version_size) == 0);
  CHECK(name_size == 4 && memcmp(name, "fake", 4) == 0);
  CHECK(version_size == 6 && memcmp(version, "fake 1", 6) == 0);
  Close(world);
}

static void DevicesWithoutAttributes(void) {
  Fake()->missing_slot = kSlotDeviceDescriptionAttributes;
  World world = Open("fake:2");
  PjrtAot_Device device;
  CHECK(aot.device(1, &device) == 0);
  CHECK(device.id == 1 && device.num_coordinates == 0);
  CHECK(device.slice == -1);
  Close(world);
}

const Scenario aot_open_scenarios[] = {
    {"closed", Closed},
    {"open_errors", OpenErrors},
    {"open_fails", OpenFails},
    {"open_options", OpenOptions},
    {"devices", Devices},
    {"devices_without_attributes", DevicesWithoutAttributes},
    {NULL, NULL}};
