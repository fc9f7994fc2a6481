// The part of the PJRT C ABI that the shim touches, declared by hand.
//
// The shim wraps plugins built against many versions of PJRT's own header, so
// it depends on none of them: these structs hold only what is read or replaced
// here, and the rest of the function table stays opaque. The names are ours
// (Abi*), the layout is a fact of the ABI; test/csrc checks every offset and
// slot against the real header of an installed plugin.
//
// Every PJRT struct starts with its own size in bytes. Nothing in the shim may
// read or write past that size, on either side.

#ifndef TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_ABI_H_
#define TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_SerializedExecutable PJRT_SerializedExecutable;

// True if a struct of `struct_size` bytes holds all of `field`.
#define ABI_HOLDS(type, field, struct_size) \
  ((struct_size) >= offsetof(type, field) + sizeof(((type*)0)->field))

// The size that a caller has to announce: up to the last field, no padding.
#define ABI_SIZE(type, last_field) \
  (offsetof(type, last_field) + sizeof(((type*)0)->last_field))

enum {
  kAbiOk = 0,
  kAbiUnknown = 2,
  kAbiInvalidArgument = 3,
  kAbiNotFound = 5,
  kAbiResourceExhausted = 8,
  kAbiFailedPrecondition = 9,
  kAbiAborted = 10,
  kAbiUnimplemented = 12,
  kAbiInternal = 13,
  kAbiLastCode = 16,
};

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Error* error;
} AbiErrorDestroyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const PJRT_Error* error;
  const char* message;  // out, lives as long as the error
  size_t message_size;  // out
} AbiErrorMessageArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const PJRT_Error* error;
  int code;  // out
} AbiErrorGetCodeArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const PJRT_Error* error;
  // More follows, which is the inner plugin's business.
} AbiErrorForEachPayloadArgs;

// Types of a named value; there are more.
enum {
  kAbiValueString = 0,
  kAbiValueInt64 = 1,
  kAbiValueInt64List = 2,
  kAbiValueFloat = 3,
};

// In arrays, one right after the other.
typedef struct {
  size_t struct_size;
  void* extension_start;
  const char* name;
  size_t name_size;
  int type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
  };
  size_t value_size;  // of a list or string; 1 of all else
} AbiNamedValue;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const AbiNamedValue* attributes;  // out, lives as long as the process
  size_t num_attributes;            // out
} AbiPluginAttributesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
} AbiClientDestroyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  PJRT_Device* const* addressable_devices;  // out
  size_t num_addressable_devices;           // out
} AbiClientAddressableDevicesArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Device* device;
  PJRT_DeviceDescription* device_description;  // out
} AbiDeviceGetDescriptionArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_DeviceDescription* device_description;
  const char* device_kind;  // out
  size_t device_kind_size;  // out
} AbiDeviceDescriptionKindArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  char* code;
  size_t code_size;
  const char* format;
  size_t format_size;
} AbiProgram;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  const AbiProgram* program;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable* executable;  // out
} AbiCompileArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_LoadedExecutable* loaded_executable;
  PJRT_Executable* executable;  // out, the caller frees it
} AbiGetExecutableArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
  AbiProgram* program;  // in/out; asked twice: for the size, for the bytes
} AbiOptimizedProgramArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Executable* executable;
} AbiExecutableDestroyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_LoadedExecutable* executable;
} AbiLoadedExecutableDestroyArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_LoadedExecutable* executable;
  bool is_deleted;  // out
} AbiLoadedExecutableIsDeletedArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  const PJRT_Executable* executable;
  const char* serialized_bytes;                      // out
  size_t serialized_bytes_size;                      // out
  PJRT_SerializedExecutable* serialized_executable;  // out, owns the bytes
  void (*serialized_executable_deleter)(PJRT_SerializedExecutable*);  // out
} AbiSerializeArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Client* client;
  const char* serialized_executable;
  size_t serialized_executable_size;
  PJRT_LoadedExecutable* loaded_executable;  // out
  // NULL: those that it was compiled with. Older plugins do not look here.
  const char* overridden_compile_options;
  size_t overridden_compile_options_size;
} AbiDeserializeAndLoadArgs;

// Grew over time; execute.c knows which version ends where.
typedef struct {
  size_t struct_size;
  void* extension_start;
  void* send_callbacks;
  void* recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  void* context;              // from 0.64
  const char* call_location;  // from 0.76
  size_t num_tasks;           // from 0.78
  int* task_ids;              // from 0.78
  int64_t* incarnation_ids;   // from 0.78
  void* multi_slice_config;   // from 0.97
} AbiExecuteOptions;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_LoadedExecutable* executable;
  AbiExecuteOptions* options;
  void* argument_lists;
  size_t num_devices;
  size_t num_args;
  void* output_lists;            // points to memory of the caller
  void* device_complete_events;  // points to memory of the caller
  void* execute_device;
} AbiExecuteArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  int major_version;
  int minor_version;
} AbiVersion;

// Every entry of the table takes one pointer to its own argument struct.
typedef void (*AbiFunction)(void);
// All but Error_Destroy and Error_Message return an error or NULL.
typedef PJRT_Error* (*AbiErrorFunction)(void* args);
typedef void (*AbiVoidFunction)(void* args);

typedef struct {
  size_t struct_size;
  void* extension_start;
  AbiVersion version;
  AbiFunction slots[];
} AbiApi;

// Positions in `slots`, fixed since version 0.57 rearranged the table.
enum {
  kSlotErrorDestroy = 0,
  kSlotErrorMessage = 1,
  kSlotErrorGetCode = 2,
  kSlotPluginAttributes = 4,
  kSlotClientDestroy = 11,
  kSlotClientAddressableDevices = 16,
  kSlotClientCompile = 20,
  kSlotDeviceDescriptionKind = 26,
  kSlotDeviceGetDescription = 29,
  kSlotExecutableDestroy = 40,
  kSlotExecutableOptimizedProgram = 48,
  kSlotExecutableSerialize = 49,
  kSlotLoadedExecutableDestroy = 50,
  kSlotLoadedExecutableGetExecutable = 51,
  kSlotLoadedExecutableIsDeleted = 54,
  kSlotLoadedExecutableExecute = 55,
  kSlotExecutableDeserializeAndLoad = 56,
  // From 0.99. A client calls it on every error, so on ours too.
  kSlotErrorForEachPayload = 132,
};

enum {
  kAbiMajor = 0,
  kAbiOldestMinor = 57,   // the table had another order before
  kAbiKnownMinor = 105,   // the newest version whose structs we know
  kAbiPayloadMinor = 99,  // the first version with Error_ForEachPayload
};

#endif  // TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_ABI_H_
