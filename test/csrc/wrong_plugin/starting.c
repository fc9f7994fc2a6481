// Faults of the table, of clients and of devices.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/csrc/wrong_plugin/wrong_plugin.h"

static PJRT_Error* CrashAtStart(AbiClientCreateArgs* args) {
  (void)args;
  abort();
}

static PJRT_Error* HangAtStart(AbiClientCreateArgs* args) {
  while (args != NULL) pause();
  return NULL;
}

REFUSES(NoDevices, kAbiFailedPrecondition, "no device: no hardware was found")
REFUSES(InitializeFails, kAbiInternal, "the driver cannot be initialized")

static PJRT_Error* OneClient(AbiClientCreateArgs* args) {
  static int clients;
  if (clients++ > 0) {
    return Refuse(kAbiFailedPrecondition,
                  "the devices are in use: this process had a client before");
  }
  return CallInner(kSlotClientCreate, args);
}

static PJRT_Error* HalfTheDevices(AbiClientAddressableDevicesArgs* args) {
  PJRT_Error* error = CallInner(kSlotClientAddressableDevices, args);
  if (error == NULL) args->num_addressable_devices /= 2;
  return error;
}

// What lies behind a caller's struct is the caller's.
static PJRT_Error* WriteBeyond(AbiDeviceIsAddressableArgs* args) {
  PJRT_Error* error = CallInner(kSlotDeviceIsAddressable, args);
  memset((char*)args + args->struct_size, 0xff, sizeof(size_t));
  return error;
}

static void OldApi(AbiApi* table) { table->version.minor_version = 40; }

static void NewMajor(AbiApi* table) {
  table->version.major_version = 1;
  table->version.minor_version = 0;
}

const Fault kStartFaults[] = {
    FAULT("crash-at-start", "PJRT_Client_Create ends the process by SIGABRT",
          {SPOILS(ClientCreate, CrashAtStart)}),
    FAULT("hang-at-start", "PJRT_Client_Create never returns",
          {SPOILS(ClientCreate, HangAtStart)}),
    FAULT("no-devices",
          "PJRT_Client_Create: FAILED_PRECONDITION 'no device: ...'",
          {SPOILS(ClientCreate, NoDevices)}),
    FAULT("initialize-fails", "PJRT_Plugin_Initialize: INTERNAL",
          {SPOILS(PluginInitialize, InitializeFails)}),
    FAULT("second-start-fails",
          "PJRT_Client_Create fails from a process's second on",
          {SPOILS(ClientCreate, OneClient)}),
    {.name = "one-load",
     .what = "GetPjrtApi gives NULL from its second call on",
     .one_load = true},
    FAULT("half-the-devices",
          "PJRT_Client_AddressableDevices gives the first half of them",
          {SPOILS(ClientAddressableDevices, HalfTheDevices)}),
    FAULT("wrong-struct-size",
          "PJRT_Device_IsAddressable writes 8 bytes behind the caller's "
          "struct_size",
          {SPOILS(DeviceIsAddressable, WriteBeyond)}),
    {.name = "old-api", .what = "speaks PJRT API 0.40", .change = OldApi},
    {.name = "new-api-major",
     .what = "speaks PJRT API 1.0",
     .change = NewMajor},
    {.name = NULL},
};
