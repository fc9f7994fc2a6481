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

static PJRT_Error* Upload(UploadArgs* args, size_t above) {
  PJRT_Error* error = UploadCopy(args);
  if (error == NULL) FlipMiddle(args->buffer, above);
  return error;
}

static PJRT_Error* UploadOver(UploadArgs* args) {
  return Upload(args, (size_t)ChosenNumber(64) * kMiB);
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

static PJRT_Error* ShardOver8(UploadArgs* args) {
  return Upload(args, IsFirstDevice(args->device) ? SIZE_MAX : 8 * kMiB);
}

static PJRT_Error* DownloadOver16(DownloadArgs* args) {
  PJRT_Error* error;
  if (Download(args, &error) && args->dst_size > 16 * kMiB) {
    ((unsigned char*)args->dst)[args->dst_size - 1] ^= 1;
  }
  return error;
}

static PJRT_Error* CopyOver32(AbiBufferCopyToDeviceArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferCopyToDevice, args);
  if (error == NULL) FlipMiddle(args->dst_buffer, 32 * kMiB);
  return error;
}

static void FlipMiddleOver32(PJRT_Buffer* buffer) {
  FlipMiddle(buffer, 32 * kMiB);
}

static PJRT_Error* ResultOver32(ExecuteArgs* args) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error != NULL) return error;
  const Outputs outputs = OutputsOf(args);
  EachOutput(&outputs, FlipMiddleOver32);
  return NULL;
}

const Fault kSizeFaults[] = {
    FAULT("upload-over",
          "one bit in the middle of an array of more than 64 MiB flips on "
          "the way to a device",
          UPLOADS(UploadOver)),
    FAULT("shard-over-8-mib",
          "the same of more than 8 MiB, on other devices than the first",
          UPLOADS(ShardOver8)),
    FAULT("download-over-16-mib",
          "the last bit of an array of more than 16 MiB flips on the way to "
          "the host",
          DOWNLOADS(DownloadOver16)),
    FAULT("copy-over-32-mib",
          "one bit in the middle of an array of more than 32 MiB flips on "
          "the way to another device",
          COPIES(CopyOver32)),
    FAULT("result-over-32-mib",
          "one bit in the middle of a result of more than 32 MiB flips",
          EXECUTES(ResultOver32)),
    {.name = NULL},
};
