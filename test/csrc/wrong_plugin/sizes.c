// Faults of arrays from some size on, as of a counter that is too narrow or of
// a path that only large arrays take.

#include <string.h>

#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/outputs.h"

static const size_t kMiB = 1 << 20;

static void FlipMiddle(PJRT_Buffer* buffer, size_t above) {
  size_t size = 0;
  unsigned char* bytes = Bytes(buffer, &size);
  if (bytes != NULL && size > above) bytes[size / 2] ^= 1;
}

// In the device's own memory, not in the caller's.
static PJRT_Error* Upload(AbiClientBufferFromHostBufferArgs* args,
                          size_t above) {
  enum { kImmutableUntilTransferCompletes = 1 };
  args->host_buffer_semantics = kImmutableUntilTransferCompletes;
  PJRT_Error* error = CallInner(kSlotClientBufferFromHostBuffer, args);
  if (error == NULL) FlipMiddle(args->buffer, above);
  return error;
}

static PJRT_Error* UploadOver64(AbiClientBufferFromHostBufferArgs* args) {
  return Upload(args, 64 * kMiB);
}

static PJRT_Error* UploadOver2048(AbiClientBufferFromHostBufferArgs* args) {
  return Upload(args, 2048 * kMiB);
}

static bool IsFirstDevice(PJRT_Device* device) {
  AbiDeviceGetDescriptionArgs get = {
      ABI_SIZE(AbiDeviceGetDescriptionArgs, device_description), NULL, device,
      NULL};
  if (!TryInner(kSlotDeviceGetDescription, &get)) return true;
  AbiDeviceDescriptionIdArgs id = {ABI_SIZE(AbiDeviceDescriptionIdArgs, id),
                                   NULL, get.device_description, 0};
  return !TryInner(kSlotDeviceDescriptionId, &id) || id.id == 0;
}

static PJRT_Error* ShardOver8(AbiClientBufferFromHostBufferArgs* args) {
  return Upload(args, IsFirstDevice(args->device) ? SIZE_MAX : 8 * kMiB);
}

static PJRT_Error* DownloadOver16(AbiBufferToHostBufferArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferToHostBuffer, args);
  if (error != NULL || args->dst == NULL || args->event == NULL) return error;
  AbiEventAwaitArgs await = {ABI_SIZE(AbiEventAwaitArgs, event), NULL,
                             args->event};
  if (TryInner(kSlotEventAwait, &await) && args->dst_size > 16 * kMiB) {
    ((unsigned char*)args->dst)[args->dst_size - 1] ^= 1;
  }
  return NULL;
}

static PJRT_Error* CopyOver32(AbiBufferCopyToDeviceArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferCopyToDevice, args);
  if (error == NULL) FlipMiddle(args->dst_buffer, 32 * kMiB);
  return error;
}

static PJRT_Error* ResultOver32(AbiLoadedExecutableExecuteArgs* args) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error != NULL) return error;
  const Outputs outputs = OutputsOf(args);
  for (size_t d = 0; d < outputs.devices; ++d) {
    for (size_t i = 0; i < outputs.count; ++i) {
      FlipMiddle(outputs.lists[d][i], 32 * kMiB);
    }
  }
  return NULL;
}

#define UPLOADS(function) {SPOILS(ClientBufferFromHostBuffer, function)}

const Fault kSizeFaults[] = {
    {.name = "upload-over-64-mib",
     .what = "one bit in the middle of an array of more than 64 MiB flips on "
             "the way to a device",
     .overrides = UPLOADS(UploadOver64)},
    {.name = "upload-over-2-gib",
     .what = "the same of more than 2 GiB",
     .overrides = UPLOADS(UploadOver2048)},
    {.name = "shard-over-8-mib",
     .what = "the same of more than 8 MiB, on other devices than the first",
     .overrides = UPLOADS(ShardOver8)},
    {.name = "download-over-16-mib",
     .what = "the last bit of an array of more than 16 MiB flips on the way to "
             "the host",
     .overrides = {SPOILS(BufferToHostBuffer, DownloadOver16)}},
    {.name = "copy-over-32-mib",
     .what = "one bit in the middle of an array of more than 32 MiB flips on "
             "the way to another device",
     .overrides = {SPOILS(BufferCopyToDevice, CopyOver32)}},
    {.name = "result-over-32-mib",
     .what = "one bit in the middle of a result of more than 32 MiB flips",
     .overrides = {SPOILS(LoadedExecutableExecute, ResultOver32)}},
    {.name = NULL},
};
