// Arguments of the functions of executables; see abi.h.

#ifndef TORCH_XLA_CSRC_PJRT_AOT_ABI_EXECUTABLE_H_
#define TORCH_XLA_CSRC_PJRT_AOT_ABI_EXECUTABLE_H_

#include "torch_xla/csrc/pjrt_aot/abi.h"

// Declared by the shim's header, under other names.
typedef AbiOptimizedProgramArgs AbiExecutableOptimizedProgramArgs;
typedef AbiSerializeArgs AbiExecutableSerializeArgs;
typedef AbiDeserializeAndLoadArgs AbiExecutableDeserializeAndLoadArgs;
typedef AbiGetExecutableArgs AbiLoadedExecutableGetExecutableArgs;
typedef AbiExecuteArgs AbiLoadedExecutableExecuteArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;  // out
} AbiExecutableNumOutputsArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
  size_t num_properties;            // out
  const AbiNamedValue* properties;  // out
} AbiExecutableGetCostAnalysisArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
  int64_t generated_code_size_in_bytes;       // out
  int64_t argument_size_in_bytes;             // out
  int64_t output_size_in_bytes;               // out
  int64_t alias_size_in_bytes;                // out
  int64_t temp_size_in_bytes;                 // out
  int64_t host_generated_code_size_in_bytes;  // out
  int64_t host_argument_size_in_bytes;        // out
  int64_t host_output_size_in_bytes;          // out
  int64_t host_alias_size_in_bytes;           // out
  int64_t host_temp_size_in_bytes;            // out
  int64_t peak_memory_in_bytes;               // out
} AbiExecutableGetCompiledMemoryStatsArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
  int* output_types;        // out
  size_t num_output_types;  // out
} AbiExecutableOutputElementTypesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;
  const int64_t* dims;      // out
  const size_t* dim_sizes;  // out
} AbiExecutableOutputDimensionsArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;
  const char* const* memory_kinds;  // out
  const size_t* memory_kind_sizes;  // out
} AbiExecutableOutputMemoryKindsArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
  const char* executable_fingerprint;  // out
  size_t executable_fingerprint_size;  // out
} AbiExecutableFingerprintArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_LoadedExecutable* executable;
  const char* executable_fingerprint;  // out
  size_t executable_fingerprint_size;  // out
} AbiLoadedExecutableFingerprintArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_LoadedExecutable* executable;
  PJRT_Device* const* addressable_devices;  // out
  size_t num_addressable_devices;           // out
} AbiLoadedExecutableAddressableDevicesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_LoadedExecutable* executable;
} AbiLoadedExecutableDeleteArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_LoadedExecutable* executable;
  const char* serialized_bytes;                                   // out
  size_t serialized_bytes_size;                                   // out
  PJRT_DeviceAssignmentSerialized* serialized_device_assignment;  // out
  void (*serialized_device_assignment_deleter)(
      PJRT_DeviceAssignmentSerialized*);  // out
} AbiLoadedExecutableGetDeviceAssignmentArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const PJRT_TopologyDescription* topology;
  const AbiProgram* program;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_Client* client;
  PJRT_Executable* executable;  // out
} AbiTopologyCompileArgs;

#endif  // TORCH_XLA_CSRC_PJRT_AOT_ABI_EXECUTABLE_H_
