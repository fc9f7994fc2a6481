// Buffers: a type, dimensions and a place. There are no bytes.

#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

size_t AotElementSize(int type) {
  // By PJRT's number.
  static const unsigned char sizes[] = {
      0, 1, 1, 2, 4, 8,   // invalid pred s8 s16 s32 s64
      1, 2, 4, 8,         // u8 u16 u32 u64
      2, 4, 8, 2, 8, 16,  // f16 f32 f64 bf16 c64 c128
      1, 1, 1, 1, 1,      // f8e5m2 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz
      1, 1, 0, 1, 1,      // s4 u4 token s2 u2
      1, 1, 1, 1, 1, 1,   // f8e4m3 f8e3m4 f8e8m0fnu f4e2m1fn s1 u1
  };
  return type >= 0 && type < (int)sizeof(sizes) ? sizes[type] : 0;
}

PJRT_Buffer* AotMakeBuffer(int type, const int64_t* dims, size_t num_dims,
                           PJRT_Memory* memory) {
  PJRT_Buffer* buffer =
      malloc(sizeof(*buffer) + 2 * num_dims * sizeof(int64_t));
  if (buffer == NULL) return NULL;
  buffer->type = type;
  buffer->memory = memory;
  atomic_init(&buffer->deleted, false);
  buffer->num_dims = num_dims;
  buffer->minor_to_major = buffer->dims + num_dims;
  for (size_t i = 0; i < num_dims; ++i) {
    buffer->dims[i] = dims[i];
    buffer->minor_to_major[i] = (int64_t)(num_dims - 1 - i);
  }
  AotCountBuffer(1);
  atomic_fetch_add(&memory->held, (int64_t)AotBufferBytes(buffer));
  return buffer;
}

void AotDeleteBuffer(PJRT_Buffer* buffer) {
  if (atomic_exchange(&buffer->deleted, true)) return;
  atomic_fetch_sub(&buffer->memory->held, (int64_t)AotBufferBytes(buffer));
}

void AotFreeBuffer(PJRT_Buffer* buffer) {
  if (buffer == NULL) return;
  AotDeleteBuffer(buffer);
  AotCountBuffer(-1);
  free(buffer);
}

size_t AotBufferBytes(const PJRT_Buffer* buffer) {
  size_t bytes = AotElementSize(buffer->type);
  for (size_t i = 0; i < buffer->num_dims; ++i) {
    bytes *= (size_t)buffer->dims[i];
  }
  return bytes;
}

PJRT_Error* AotBufferDestroy(AbiBufferDestroyArgs* args) {
  AOT_ENTER(Buffer, Destroy, buffer);
  AotFreeBuffer(args->buffer);
  return NULL;
}

AOT_ANSWER(Buffer, ElementType, buffer, type, args->type = args->buffer->type)

AOT_ANSWER(Buffer, Dimensions, buffer, num_dims,
           args->dims = args->buffer->dims,
           args->num_dims = args->buffer->num_dims)

AOT_ANSWER(Buffer, UnpaddedDimensions, buffer, num_dims,
           args->unpadded_dims = args->buffer->dims,
           args->num_dims = args->buffer->num_dims)

// What a bounded dimension would hold is not known, so none is dynamic.
AOT_ANSWER(Buffer, DynamicDimensionIndices, buffer, num_dynamic_dims,
           args->dynamic_dim_indices = NULL, args->num_dynamic_dims = 0)

// As on the host: the layouts that the compiler chose are in its program.
PJRT_Error* AotBufferGetMemoryLayout(AbiBufferGetMemoryLayoutArgs* args) {
  AOT_ENTER_WITH(Buffer, GetMemoryLayout, buffer, layout.type);
  const PJRT_Buffer* buffer = args->buffer;
  args->layout = (AbiBufferMemoryLayout){
      .struct_size = sizeof(args->layout),
      .tiled = {.struct_size = sizeof(args->layout.tiled),
                .minor_to_major = buffer->minor_to_major,
                .minor_to_major_size = buffer->num_dims}};
  return NULL;
}

AOT_ANSWER(Buffer, OnDeviceSizeInBytes, buffer, on_device_size_in_bytes,
           args->on_device_size_in_bytes = AotBufferBytes(args->buffer))

AOT_ANSWER(Buffer, Device, buffer, device,
           args->device = args->buffer->memory->device)

AOT_ANSWER(Buffer, Memory, buffer, memory, args->memory = args->buffer->memory)

AOT_ANSWER(Buffer, Delete, buffer, buffer, AotDeleteBuffer(args->buffer))

AOT_ANSWER(Buffer, IsDeleted, buffer, is_deleted,
           args->is_deleted = atomic_load(&args->buffer->deleted))

AOT_ANSWER(Buffer, IsOnCpu, buffer, is_on_cpu, args->is_on_cpu = false)
