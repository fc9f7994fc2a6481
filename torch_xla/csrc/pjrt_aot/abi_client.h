// Arguments of plugin, event and client functions; see abi.h.

#ifndef TORCH_XLA_CSRC_PJRT_AOT_ABI_CLIENT_H_
#define TORCH_XLA_CSRC_PJRT_AOT_ABI_CLIENT_H_

#include "torch_xla/csrc/pjrt_aot/abi.h"

// Declared by the shim's header, under other names.
typedef AbiCompileArgs AbiClientCompileArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
} AbiPluginInitializeArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Event* event;
} AbiEventDestroyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Event* event;
  bool is_ready;  // out
} AbiEventIsReadyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Event* event;
} AbiEventErrorArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Event* event;
} AbiEventAwaitArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Event* event;
  void (*callback)(PJRT_Error* error, void* user_arg);
  void* user_arg;
} AbiEventOnReadyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const AbiNamedValue* create_options;
  size_t num_options;
  AbiFunction kv_get_callback;
  void* kv_get_user_arg;
  AbiFunction kv_put_callback;
  void* kv_put_user_arg;
  PJRT_Client* client;  // out
} AbiClientCreateArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  const char* platform_name;  // out
  size_t platform_name_size;  // out
} AbiClientPlatformNameArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  const char* platform_version;  // out
  size_t platform_version_size;  // out
} AbiClientPlatformVersionArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  int process_index;  // out
} AbiClientProcessIndexArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  PJRT_TopologyDescription* topology;  // out
} AbiClientTopologyDescriptionArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  PJRT_Device* const* devices;  // out
  size_t num_devices;           // out
} AbiClientDevicesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  int id;
  PJRT_Device* device;  // out
} AbiClientLookupDeviceArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  int local_hardware_id;
  PJRT_Device* addressable_device;  // out
} AbiClientLookupAddressableDeviceArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  PJRT_Memory* const* addressable_memories;  // out
  size_t num_addressable_memories;           // out
} AbiClientAddressableMemoriesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  int num_replicas;
  int num_partitions;
  size_t default_assignment_size;
  int* default_assignment;  // out
} AbiClientDefaultDeviceAssignmentArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  int shape_element_type;
  void* shape_layout;
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer* buffer;  // out
} AbiClientCreateUninitializedBufferArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  const void* data;
  int type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;
  size_t num_byte_strides;
  int host_buffer_semantics;
  PJRT_Device* device;
  PJRT_Memory* memory;
  void* device_layout;
  PJRT_Event* done_with_host_buffer;  // out
  PJRT_Buffer* buffer;                // out
} AbiClientBufferFromHostBufferArgs;

#endif  // TORCH_XLA_CSRC_PJRT_AOT_ABI_CLIENT_H_
