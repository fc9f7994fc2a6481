// The PJRT C ABI, as pjrt_abi.inc declares it.
//
// The shim wraps plugins built against many versions of PJRT's own header, so
// it depends on none of them: these structs hold only what is read or replaced
// here, and the rest of the function table stays opaque.
//
// Every PJRT struct starts with its own size in bytes. Nothing in the shim may
// read or write past that size, on either side.

#ifndef TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_ABI_H_
#define TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_DeviceAssignmentSerialized PJRT_DeviceAssignmentSerialized;
typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Memory PJRT_Memory;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
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

// Types of a named value; there are more.
enum {
  kAbiValueString = 0,
  kAbiValueInt64 = 1,
  kAbiValueInt64List = 2,
  kAbiValueFloat = 3,
};

// Of a buffer's elements, in PJRT's order.
enum {
  kAbiTypeInvalid = 0,
  kAbiTypeToken = 23,
};

// Every entry of the table takes one pointer to its own argument struct.
typedef void (*AbiFunction)(void);
// All but Error_Destroy and Error_Message return an error or NULL.
typedef PJRT_Error* (*AbiErrorFunction)(void* args);
typedef void (*AbiVoidFunction)(void* args);

// AbiNamedValue, AbiClientCreateArgs and so on.
#define ABI_STRUCT(name, ...) \
  typedef struct {            \
    size_t struct_size;       \
    void* extension_start;    \
    __VA_ARGS__               \
  } Abi##name;
#define ABI_FUNCTION(by, part, name, ...) \
  ABI_STRUCT(part##name##Args, __VA_ARGS__)
#define ABI_BARE(by, name, ...) ABI_STRUCT(name##Args, __VA_ARGS__)
#include "torch_xla/shardy/pjrt_abi.inc"

typedef struct {
  size_t struct_size;
  void* extension_start;
  int major_version;
  int minor_version;
} AbiVersion;

typedef struct {
  size_t struct_size;
  void* extension_start;
  AbiVersion version;
  AbiFunction slots[];
} AbiApi;

// Positions in `slots`, fixed since version 0.57 rearranged the table:
// kSlotClientCreate and so on.
enum {
#define ABI_FUNCTION(by, part, name, ...) kSlot##part##name,
#define ABI_BARE(by, name, ...) kSlot##name,
#include "torch_xla/shardy/pjrt_abi.inc"
  kAbiSlots,
};

enum {
  kAbiMajor = 0,
  kAbiOldestMinor = 57,   // the table had another order before
  kAbiKnownMinor = 105,   // the newest version whose structs we know
  kAbiPayloadMinor = 99,  // the first version with Error_ForEachPayload
};

#endif  // TORCH_XLA_CSRC_PJRT_SHARDY_PJRT_ABI_H_
