// Arguments of the functions of buffers; see abi.h.

#ifndef TORCH_XLA_CSRC_PJRT_AOT_ABI_BUFFER_H_
#define TORCH_XLA_CSRC_PJRT_AOT_ABI_BUFFER_H_

#include "torch_xla/csrc/pjrt_aot/abi.h"

typedef struct {
  size_t struct_size;
  void* extension_start;
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
} AbiBufferMemoryLayoutTiled;

typedef struct {
  size_t struct_size;
  void* extension_start;
  AbiBufferMemoryLayoutTiled tiled;
  int type;  // 0: tiled
} AbiBufferMemoryLayout;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
} AbiBufferDestroyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  int type;  // out
} AbiBufferElementTypeArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  const int64_t* dims;  // out
  size_t num_dims;      // out
} AbiBufferDimensionsArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  const int64_t* unpadded_dims;  // out
  size_t num_dims;               // out
} AbiBufferUnpaddedDimensionsArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  const size_t* dynamic_dim_indices;  // out
  size_t num_dynamic_dims;            // out
} AbiBufferDynamicDimensionIndicesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  AbiBufferMemoryLayout layout;  // out
} AbiBufferGetMemoryLayoutArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* src;
  void* host_layout;
  void* dst;
  size_t dst_size;
  PJRT_Event* event;  // out
} AbiBufferToHostBufferArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  size_t on_device_size_in_bytes;  // out
} AbiBufferOnDeviceSizeInBytesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
} AbiBufferDeleteArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  bool is_deleted;  // out
} AbiBufferIsDeletedArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  void* dst;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event* event;  // out
} AbiBufferCopyRawToHostArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Device* dst_device;
  PJRT_Buffer* dst_buffer;  // out
} AbiBufferCopyToDeviceArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Memory* dst_memory;
  PJRT_Buffer* dst_buffer;  // out
} AbiBufferCopyToMemoryArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  bool is_on_cpu;  // out
} AbiBufferIsOnCpuArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Device* device;  // out
} AbiBufferDeviceArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Memory* memory;  // out
} AbiBufferMemoryArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Event* event;  // out
} AbiBufferReadyEventArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
  uintptr_t buffer_pointer;  // out
} AbiBufferUnsafePointerArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
} AbiBufferIncreaseExternalReferenceCountArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Buffer* buffer;
} AbiBufferDecreaseExternalReferenceCountArgs;

#endif  // TORCH_XLA_CSRC_PJRT_AOT_ABI_BUFFER_H_
