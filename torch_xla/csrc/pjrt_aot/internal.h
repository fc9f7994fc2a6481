// What the sources of the compile-only plugin share. Nothing here is exported.

#ifndef TORCH_XLA_CSRC_PJRT_AOT_INTERNAL_H_
#define TORCH_XLA_CSRC_PJRT_AOT_INTERNAL_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "torch_xla/csrc/pjrt_aot/pjrt_aot.h"
#include "torch_xla/csrc/pjrt_shardy/inner.h"
#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

// Our entries: PJRT_Error* AotClientCreate(AbiClientCreateArgs*) and so on.
#define ABI_FUNCTION(by, part, name, ...) \
  PJRT_Error* Aot##part##name(Abi##part##name##Args* args);
#define ABI_BARE(by, name, ...) PJRT_Error* Aot##name(Abi##name##Args* args);
#include "torch_xla/shardy/pjrt_abi.inc"

// calls.c

// Writes an error's text, after what it is about unless that is NULL, as the
// reason of a control function. Frees it and returns its code.
int AotGiveReason(PJRT_Error* error, const char* about, char* message,
                  size_t message_size);

// Every entry of ours begins with this: returns an error before PjrtAot_Open,
// or if the caller's struct does not hold `field`, the last that is needed.
#define AOT_ENTER(part, name, field)                      \
  do {                                                    \
    PJRT_Error* enter_error =                             \
        AotEnter(kSlot##part##name, args->struct_size,    \
                 ABI_SIZE(Abi##part##name##Args, field)); \
    if (enter_error != NULL) return enter_error;          \
  } while (0)
PJRT_Error* AotEnter(int slot, size_t struct_size, size_t needed);
// The same, and refuses an entry whose first argument, `object`, is NULL.
#define AOT_ENTER_WITH(part, name, object, field)                \
  do {                                                           \
    AOT_ENTER(part, name, field);                                \
    if (args->object == NULL) return AotNull(kSlot##part##name); \
  } while (0)
PJRT_Error* AotNull(int slot);
// An entry that only writes its answers, separated by commas.
#define AOT_ANSWER(part, name, object, field, ...)           \
  PJRT_Error* Aot##part##name(Abi##part##name##Args* args) { \
    AOT_ENTER_WITH(part, name, object, field);               \
    __VA_ARGS__;                                             \
    return NULL;                                             \
  }

// Calls the inner plugin with arguments of `size` bytes. It gets a larger
// struct, zero beyond those bytes, so that plugins that are newer than the
// caller find room for what they know.
PJRT_Error* AotCallInner(int slot, void* args, size_t size);
#define AOT_INNER(slot, args) AotCallInner(kSlot##slot, (args), sizeof(*(args)))
// For entries that the inner plugin answers: with the caller's arguments.
PJRT_Error* AotForward(int slot, void* args);
// Likewise, with the executable behind ours.
PJRT_Error* AotForwardExecutable(int slot, void* args);

// world.c

enum { kAotDeviceMemory = 0, kAotPinnedHost = 1, kAotMemories = 2 };

struct PJRT_Memory {
  int id;
  int kind;  // kAotDeviceMemory or kAotPinnedHost
  PJRT_Device* device;
  _Atomic int64_t held;  // bytes of its buffers, as dense arrays
  char text[64];
};

struct PJRT_Device {
  PJRT_DeviceDescription* description;
  PjrtAot_Device facts;
  int local;  // the position among the addressable devices, or -1
  // Of addressable devices only, and the pointers that PJRT hands out.
  PJRT_Memory memories[kAotMemories];
  PJRT_Memory* memory_list[kAotMemories];
};

// All that PjrtAot_Open found. Made once, then read only, never freed.
typedef struct {
  PJRT_TopologyDescription* topology;
  char* topology_name;
  const char* platform;
  size_t platform_size;
  const char* version;
  size_t version_size;
  PJRT_Device* devices;  // sorted by id; the lists are in the same allocation
  PJRT_Device** all;
  size_t num_devices;
  PJRT_Device** local;
  size_t num_local;
  PJRT_Memory** memories;
  size_t num_memories;
  int process;  // what the client says it is
  bool one_process;
  bool refuse_reads;
  int64_t step_limit;
  int stop_signal;
} AotWorld;

// What PjrtAot_Open made, NULL before that; calls.c keeps it.
const AotWorld* AotGetWorld(void);
void AotSetWorld(const AotWorld* world);
// Makes a world of a plugin whose table is set. On failure returns a code and
// writes the reason; nothing is left.
int AotMakeWorld(const PjrtAot_Options* options, AotWorld** world,
                 char* message, size_t message_size);
// The name of a memory's kind.
const char* AotMemoryKindName(int kind);

// events.c

// The event of all that went well, and that of a deleted buffer. Both are
// ready, and nobody's to free.
PJRT_Event* AotReadyEvent(void);
PJRT_Event* AotDeletedEvent(void);

// steps.c

// What is known of a program, for ever.
typedef struct {
  PjrtAot_Program facts;  // `executions` is unused
  int64_t number;
  _Atomic int64_t executions;
  _Atomic int64_t beside;
  int64_t* donated;  // positions of arguments, from PjrtAot_SetDonated
  size_t num_donated;
  // For each device that it can be executed on alone, and, last, for all of
  // them at once: the number of the step, from 1, in which it last was.
  int64_t seen[];
} AotProgram;

// Counts an execution, on the local device of that position or, with
// num_local, on all; an error once the steps are over.
PJRT_Error* AotCountExecution(AotProgram* program, size_t which,
                              int64_t beside);
void AotCountRead(void);
void AotCountBuffer(int change);

// programs.c

// Keeps a program for ever; NULL without memory.
AotProgram* AotKeepProgram(const PjrtAot_Program* facts, size_t num_local);
// Says that this thread's last compilation failed.
void AotForgetLastProgram(void);

// buffers.c

struct PJRT_Buffer {
  int type;
  PJRT_Memory* memory;
  atomic_bool deleted;
  size_t num_dims;
  int64_t* minor_to_major;  // in the same allocation, after dims
  int64_t dims[];
};

// Bytes of an element on the host, where each small one has a byte; 0 of what
// has none, or is unknown.
size_t AotElementSize(int type);
// A buffer of no data; NULL without memory.
PJRT_Buffer* AotMakeBuffer(int type, const int64_t* dims, size_t num_dims,
                           PJRT_Memory* memory);
// Its bytes are no longer held; the buffer itself is.
void AotDeleteBuffer(PJRT_Buffer* buffer);
void AotFreeBuffer(PJRT_Buffer* buffer);
// Of its elements on the host, dense.
size_t AotBufferBytes(const PJRT_Buffer* buffer);

// compile.c

typedef struct {
  int type;
  int memory;
  size_t num_dims;
  const int64_t* dims;
} AotOutput;

// Counted; each loaded executable and each got from it holds a reference. It is
// for all devices: so torch_xla has every program compiled.
struct PJRT_Executable {
  atomic_int references;
  PJRT_Executable* inner;
  AotProgram* program;
  size_t num_outputs;
  AotOutput* outputs;  // their dimensions are in the same allocation
};

struct PJRT_LoadedExecutable {
  PJRT_Executable* executable;
  atomic_bool deleted;
};

// Drops a reference; the last frees it.
void AotReleaseExecutable(PJRT_Executable* executable);

// client.c

struct PJRT_Client {
  const AotWorld* world;
};

#endif  // TORCH_XLA_CSRC_PJRT_AOT_INTERNAL_H_
