// The part of the PJRT C ABI that the compile-only plugin speaks, beside what
// the shim's header declares. Written as that one is: by hand, names ours,
// checked against a real header by test/csrc. Enums are declared as int, which
// they are in the ABI.

#ifndef TORCH_XLA_CSRC_PJRT_AOT_ABI_H_
#define TORCH_XLA_CSRC_PJRT_AOT_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_DeviceAssignmentSerialized PJRT_DeviceAssignmentSerialized;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Memory PJRT_Memory;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;

// Of a buffer's elements, in PJRT's order.
enum {
  kAbiTypeInvalid = 0,
  kAbiTypeToken = 23,
  kAbiTypeF4e2m1fn = 29,
};

#endif  // TORCH_XLA_CSRC_PJRT_AOT_ABI_H_
