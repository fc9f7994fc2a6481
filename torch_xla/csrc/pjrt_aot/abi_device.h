// Arguments of the functions of topologies, devices and memories; see abi.h.

#ifndef TORCH_XLA_CSRC_PJRT_AOT_ABI_DEVICE_H_
#define TORCH_XLA_CSRC_PJRT_AOT_ABI_DEVICE_H_

#include "torch_xla/csrc/pjrt_aot/abi.h"

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_DeviceDescription* device_description;
  int id;  // out
} AbiDeviceDescriptionIdArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_DeviceDescription* device_description;
  int process_index;  // out
} AbiDeviceDescriptionProcessIndexArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_DeviceDescription* device_description;
  size_t num_attributes;            // out
  const AbiNamedValue* attributes;  // out
} AbiDeviceDescriptionAttributesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Device* device;
  bool is_addressable;  // out
} AbiDeviceIsAddressableArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Device* device;
  int local_hardware_id;  // out
} AbiDeviceLocalHardwareIdArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Device* device;
  PJRT_Memory* const* memories;  // out
  size_t num_memories;           // out
} AbiDeviceAddressableMemoriesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Device* device;
  PJRT_Memory* memory;  // out
} AbiDeviceDefaultMemoryArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Device* device;
  int64_t bytes_in_use;            // out
  int64_t peak_bytes_in_use;       // out
  bool peak_bytes_in_use_is_set;   // out
  int64_t num_allocs;              // out
  bool num_allocs_is_set;          // out
  int64_t largest_alloc_size;      // out
  bool largest_alloc_size_is_set;  // out
  int64_t bytes_limit;             // out
  bool bytes_limit_is_set;         // out
} AbiDeviceMemoryStatsArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Memory* memory;
  int id;  // out
} AbiMemoryIdArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Memory* memory;
  const char* kind;  // out
  size_t kind_size;  // out
} AbiMemoryKindArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Memory* memory;
  int kind_id;  // out
} AbiMemoryKind_IdArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Memory* memory;
  const char* debug_string;  // out
  size_t debug_string_size;  // out
} AbiMemoryDebugStringArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Memory* memory;
  const char* to_string;  // out
  size_t to_string_size;  // out
} AbiMemoryToStringArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Memory* memory;
  PJRT_Device* const* devices;  // out
  size_t num_devices;           // out
} AbiMemoryAddressableByDevicesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const char* topology_name;
  size_t topology_name_size;
  const AbiNamedValue* create_options;
  size_t num_options;
  PJRT_TopologyDescription* topology;  // out
} AbiTopologyDescriptionCreateArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_TopologyDescription* topology;
} AbiTopologyDescriptionDestroyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const PJRT_TopologyDescription* topology;
  const char* platform_name;  // out
  size_t platform_name_size;  // out
} AbiTopologyDescriptionPlatformNameArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_TopologyDescription* topology;
  const char* platform_version;  // out
  size_t platform_version_size;  // out
} AbiTopologyDescriptionPlatformVersionArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const PJRT_TopologyDescription* topology;
  PJRT_DeviceDescription* const* descriptions;  // out
  size_t num_descriptions;                      // out
} AbiTopologyDescriptionGetDeviceDescriptionsArgs;

#endif  // TORCH_XLA_CSRC_PJRT_AOT_ABI_DEVICE_H_
