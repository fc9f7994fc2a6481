// To the device, from it, and on it: values go nowhere and come from nowhere.

#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

static PJRT_Error* Deleted(const char* function) {
  return ShardyError(kAbiFailedPrecondition,
                     "%s: the buffer was donated or deleted", function);
}

// Makes a buffer in `memory` or, if that is NULL, in the device's own.
static PJRT_Error* Make(const char* function, int type, const int64_t* dims,
                        size_t num_dims, PJRT_Device* device,
                        PJRT_Memory* memory, PJRT_Buffer** made) {
  if (memory == NULL && device != NULL) {
    memory = device->memory_list[kAotDeviceMemory];
    if (memory == NULL) {
      return ShardyError(kAbiInvalidArgument,
                         "%s: device %d is not addressable from this host",
                         function, (int)device->facts.id);
    }
  }
  if (memory == NULL) {
    return ShardyError(kAbiInvalidArgument, "%s: no device was given",
                       function);
  }
  if (type != kAbiTypeToken && AotElementSize(type) == 0) {
    return ShardyError(kAbiInvalidArgument, "%s: unknown element type %d",
                       function, type);
  }
  size_t bytes = AotElementSize(type);
  for (size_t i = 0; i < num_dims; ++i) {
    if (dims == NULL || dims[i] < 0 ||
        __builtin_mul_overflow(bytes, (size_t)dims[i], &bytes)) {
      return ShardyError(
          kAbiInvalidArgument,
          "%s: dimension %zu of %zu is not there, negative or too large",
          function, i, num_dims);
    }
  }
  *made = AotMakeBuffer(type, dims, num_dims, memory);
  if (*made != NULL) return NULL;
  return ShardyError(kAbiResourceExhausted, "%s: out of memory", function);
}

PJRT_Error* AotClientBufferFromHostBuffer(
    AbiClientBufferFromHostBufferArgs* args) {
  AOT_ENTER_WITH(Client, BufferFromHostBuffer, client, buffer);
  PJRT_Error* error =
      Make("PJRT_Client_BufferFromHostBuffer", args->type, args->dims,
           args->num_dims, args->device, args->memory, &args->buffer);
  if (error == NULL) args->done_with_host_buffer = AotReadyEvent();
  return error;
}

PJRT_Error* AotBufferCopyToMemory(AbiBufferCopyToMemoryArgs* args) {
  AOT_ENTER_WITH(Buffer, CopyToMemory, buffer, dst_buffer);
  const PJRT_Buffer* buffer = args->buffer;
  if (atomic_load(&buffer->deleted)) return Deleted("PJRT_Buffer_CopyToMemory");
  return Make("PJRT_Buffer_CopyToMemory", buffer->type, buffer->dims,
              buffer->num_dims, NULL, args->dst_memory, &args->dst_buffer);
}

// Counts a read and fills the destination with zeros, or refuses.
static PJRT_Error* Read(void* to, size_t size) {
  AotCountRead();
  if (AotGetWorld()->refuse_reads) {
    return ShardyError(kAbiFailedPrecondition,
                       "a value was read, %zu bytes, and there are no values "
                       "ahead of time: nothing is computed (--strict)",
                       size);
  }
  if (size > 0) memset(to, 0, size);
  return NULL;
}

PJRT_Error* AotBufferToHostBuffer(AbiBufferToHostBufferArgs* args) {
  AOT_ENTER_WITH(Buffer, ToHostBuffer, src, event);
  if (atomic_load(&args->src->deleted)) {
    return Deleted("PJRT_Buffer_ToHostBuffer");
  }
  const size_t bytes = AotBufferBytes(args->src);
  if (args->dst == NULL) {
    args->dst_size = bytes;
    return NULL;
  }
  if (args->dst_size < bytes) {
    return ShardyError(kAbiInvalidArgument,
                       "PJRT_Buffer_ToHostBuffer: the value has %zu bytes, and "
                       "there is room for %zu",
                       bytes, args->dst_size);
  }
  // All of the room: with a layout of the caller's, elements may be anywhere.
  PJRT_Error* error = Read(args->dst, args->dst_size);
  if (error == NULL) args->event = AotReadyEvent();
  return error;
}

// Fails as PJRT says it does, by its event: clients end the process if this
// returns an error.
AOT_ANSWER(Buffer, ReadyEvent, buffer, event,
           args->event = atomic_load(&args->buffer->deleted) ? AotDeletedEvent()
                                                             : AotReadyEvent())
