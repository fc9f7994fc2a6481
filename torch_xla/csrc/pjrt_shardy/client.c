// The framework's client: what its first device is, and its end.

#include <stdatomic.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// As the framework was told, which asks when it makes the client.
static PJRT_Device* _Atomic first_device = NULL;

PJRT_Error* ShardyClientAddressableDevices(
    AbiClientAddressableDevicesArgs* args) {
  PJRT_Error* error = ShardyInnerCall(kSlotClientAddressableDevices, args);
  if (error == NULL &&
      ABI_HOLDS(AbiClientAddressableDevicesArgs, num_addressable_devices,
                args->struct_size) &&
      args->num_addressable_devices > 0) {
    first_device = args->addressable_devices[0];
  }
  return error;
}

PJRT_Error* ShardyClientDestroy(AbiClientDestroyArgs* args) {
  first_device = NULL;
  if (ABI_HOLDS(AbiClientDestroyArgs, client, args->struct_size)) {
    ShardyEndKept(args->client);
  }
  return ShardyInnerCall(kSlotClientDestroy, args);
}

SHARDY_EXPORT int PjrtShardy_DeviceKind(char* kind, size_t capacity,
                                        size_t* size) {
  *size = 0;
  AbiDeviceGetDescriptionArgs get = {
      ABI_SIZE(AbiDeviceGetDescriptionArgs, device_description), NULL,
      first_device, NULL};
  if (get.device == NULL) return kAbiFailedPrecondition;
  PJRT_Error* error = ShardyInnerCall(kSlotDeviceGetDescription, &get);
  AbiDeviceDescriptionKindArgs args = {
      ABI_SIZE(AbiDeviceDescriptionKindArgs, device_kind_size), NULL,
      get.device_description, "", 0};
  if (error == NULL) {
    error = ShardyInnerCall(kSlotDeviceDescriptionKind, &args);
  }
  if (error != NULL) return ShardyTakeCode(error);
  *size = args.device_kind_size;
  const size_t copied = *size < capacity ? *size : capacity;
  if (copied > 0) memcpy(kind, args.device_kind, copied);
  return kAbiOk;
}
