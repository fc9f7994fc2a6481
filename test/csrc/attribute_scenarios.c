// What the plugin tells of itself.

#include "test/csrc/driver.h"

static void ExpectAttribute(const char* name, const int64_t* values,
                            size_t size) {
  int64_t found[16];
  size_t count = 99;
  for (size_t capacity = 0; capacity <= size + 1; ++capacity) {
    memset(found, -1, sizeof(found));
    CHECK(shim.attribute(name, found, capacity, &count) == 0);
    CHECK(count == size);
    for (size_t i = 0; i < 16; ++i) {
      CHECK(found[i] == (i < size && i < capacity ? values[i] : -1));
    }
  }
  CHECK(shim.attribute(name, NULL, 0, &count) == 0 && count == size);
}

static void ExpectNoAttribute(const char* name, int code) {
  int64_t value = -1;
  size_t count = 99;
  CHECK(shim.attribute(name, &value, 1, &count) == code);
  CHECK(value == -1 && count == 0);
  CHECK(Record()->live_errors == 0);
}

static void Attributes(void) {
  ExpectNoAttribute("number", kAbiFailedPrecondition);
  OpenInner();
  const int64_t number[] = {42};
  const int64_t versions[] = {1, 13, 3};
  int64_t many[kFakeMany];
  for (int i = 0; i < kFakeMany; ++i) many[i] = i;
  ExpectAttribute("number", number, 1);
  ExpectAttribute("versions", versions, 3);
  ExpectAttribute("many", many, kFakeMany);
  ExpectAttribute("none", NULL, 0);
  ExpectNoAttribute("text", kAbiInvalidArgument);
  ExpectNoAttribute("flag", kAbiInvalidArgument);
  const char* names[] = {"", "numbe", "numbers", "Number", "other"};
  for (int i = 0; i < 5; ++i) ExpectNoAttribute(names[i], kAbiNotFound);
}

// A plugin that tells nothing, or whose table has no such entry.
static void AttributesMissing(void) {
  OpenInner();
  ExpectNoAttribute("number", kAbiNotFound);
}

static void AttributesRefused(void) {
  OpenInner();
  ExpectNoAttribute("number", kAbiInternal);
}

// Where the next would begin cannot be known.
static void AttributesShort(void) {
  OpenInner();
  const int64_t number[] = {42};
  ExpectAttribute("number", number, 1);
  ExpectAttribute("none", NULL, 0);
  ExpectNoAttribute("flag", kAbiNotFound);
  ExpectNoAttribute("versions", kAbiNotFound);
}

static void ExpectNoKind(int code) {
  char kind[] = "same";
  size_t size = 99;
  CHECK(shim.device_kind(kind, sizeof(kind), &size) == code);
  CHECK(strcmp(kind, "same") == 0 && size == 0);
  CHECK(Record()->live_errors == 0);
}

static void MakeDevices(void* client) {
  AbiClientAddressableDevicesArgs args = {.struct_size = sizeof(args),
                                          .client = client};
  CHECK(Call(shim.get_api(), kSlotClientAddressableDevices, &args) == NULL);
  CHECK(args.num_addressable_devices == (client != NULL));
}

static void DeviceKind(void) {
  ExpectNoKind(kAbiFailedPrecondition);
  OpenInner();
  MakeDevices(NULL);
  ExpectNoKind(kAbiFailedPrecondition);
  int client;
  MakeDevices(&client);
  for (size_t capacity = 0; capacity <= 10; ++capacity) {
    char kind[] = "----------";
    size_t size = 0;
    CHECK(shim.device_kind(kind, capacity, &size) == 0 && size == 9);
    const size_t written = capacity < 9 ? capacity : 9;
    CHECK(memcmp(kind, "fake kind", written) == 0 && kind[written] == '-');
  }
  AbiClientDestroyArgs end = {sizeof(end), NULL, (PJRT_Client*)&client};
  CHECK(Call(shim.get_api(), kSlotClientDestroy, &end) == NULL);
  ExpectNoKind(kAbiFailedPrecondition);
}

static void DeviceKindUntold(void) {
  OpenInner();
  int client;
  MakeDevices(&client);
  ExpectNoKind(kAbiUnimplemented);
}

static void DeviceKindRefused(void) {
  OpenInner();
  int client;
  MakeDevices(&client);
  ExpectNoKind(kAbiInternal);
}

const Scenario attribute_scenarios[] = {
    {"attributes", Attributes},
    {"attributes_missing", AttributesMissing},
    {"attributes_refused", AttributesRefused},
    {"attributes_short", AttributesShort},
    {"device_kind", DeviceKind},
    {"device_kind_untold", DeviceKindUntold},
    {"device_kind_refused", DeviceKindRefused},
    {NULL, NULL}};
