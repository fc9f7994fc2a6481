// Faults of memory that is never given back. Where a call loses bytes of the
// host's they are 200, or as many as stand behind the fault's name.

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test/csrc/wrong_plugin/outputs.h"

enum { kLost = 200, kOneIn = 50, kRank = 2 };

static void Lose(void) {
  // Written, or it is no memory yet; through a pointer that nobody looks
  // through, or it is nothing that the compiler keeps.
  static void* volatile lost;
  const size_t size = (size_t)ChosenNumber(kLost);
  lost = Allocate(size);
  memset(lost, 1, size);
}

#define LOSES(slot)                           \
  static PJRT_Error* Lose##slot(void* args) { \
    Lose();                                   \
    return CallInner(kSlot##slot, args);      \
  }

LOSES(LoadedExecutableExecute)
LOSES(ClientBufferFromHostBuffer)
LOSES(BufferToHostBuffer)
LOSES(BufferCopyToDevice)
LOSES(BufferDelete)
LOSES(EventOnReady)
LOSES(ExecutableDeserializeAndLoad)
LOSES(LoadedExecutableGetExecutable)

static PJRT_Error* EventStays(AbiEventDestroyArgs* args) {
  (void)args;
  return NULL;
}

static void ErrorStays(AbiErrorDestroyArgs* args) { (void)args; }

static PJRT_Error* ExecutableStays(AbiLoadedExecutableDestroyArgs* args) {
  (void)args;
  return NULL;
}

static PJRT_Error* ClientLoses(AbiClientDestroyArgs* args) {
  enum { kLostOfClient = 256 << 10 };
  static void* volatile lost;
  lost = Allocate(kLostOfClient);
  memset(lost, 1, kLostOfClient);
  return CallInner(kSlotClientDestroy, args);
}

static PJRT_Error* OneInStays(AbiBufferDestroyArgs* args) {
  static atomic_int count;
  if (++count % (int)ChosenNumber(kOneIn) == 0) return NULL;
  return CallInner(kSlotBufferDestroy, args);
}

static PJRT_Error* OfRankStays(AbiBufferDestroyArgs* args) {
  AbiBufferDimensionsArgs shape = {ABI_SIZE(AbiBufferDimensionsArgs, num_dims),
                                   NULL, args->buffer, NULL, 0};
  if (TryInner(kSlotBufferDimensions, &shape) &&
      shape.num_dims == (size_t)ChosenNumber(kRank)) {
    return NULL;
  }
  return CallInner(kSlotBufferDestroy, args);
}

static PJRT_Error* DonatedStays(AbiBufferDestroyArgs* args) {
  AbiBufferIsDeletedArgs deleted = {
      ABI_SIZE(AbiBufferIsDeletedArgs, is_deleted), NULL, args->buffer, false};
  if (TryInner(kSlotBufferIsDeleted, &deleted) && deleted.is_deleted) {
    return NULL;
  }
  return CallInner(kSlotBufferDestroy, args);
}

static PJRT_Error* Copy(PJRT_Buffer* buffer) {
  AbiBufferDeviceArgs device = {ABI_SIZE(AbiBufferDeviceArgs, device), NULL,
                                buffer, NULL};
  PJRT_Error* error = CallInner(kSlotBufferDevice, &device);
  if (error != NULL) return error;
  AbiBufferCopyToDeviceArgs copy = {
      ABI_SIZE(AbiBufferCopyToDeviceArgs, dst_buffer), NULL, buffer,
      device.device, NULL};
  return CallInner(kSlotBufferCopyToDevice, &copy);
}

static PJRT_Error* ShardedStays(AbiLoadedExecutableExecuteArgs* args) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error != NULL || args->num_devices < 2) return error;
  const Outputs outputs = OutputsOf(args);
  for (size_t d = 0; d < outputs.devices; ++d) {
    for (size_t i = 0; error == NULL && i < outputs.count; ++i) {
      error = Copy(outputs.lists[d][i]);
    }
  }
  return error;
}

// Of memory that malloc does not know.
static PJRT_Error* LosesOwn(AbiLoadedExecutableExecuteArgs* args) {
  enum { kPages = 1 << 20 };
  static atomic_size_t used;
  static char* _Atomic pages;
  const size_t size = (size_t)ChosenNumber(kLost);
  const size_t place = (used += size) % kPages;
  if (pages == NULL || place < size) {
    pages = mmap(NULL, 2 * kPages, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) abort();
  }
  memset(pages + place, 1, size);
  return CallInner(kSlotLoadedExecutableExecute, args);
}

// Memory of the device alone, of which the statistics tell: uploads take 64
// KiB each, of which those of one in N are never free again.
static atomic_long in_use;

static PJRT_Error* Take(AbiClientBufferFromHostBufferArgs* args) {
  in_use += 1 << 16;
  return CallInner(kSlotClientBufferFromHostBuffer, args);
}

static PJRT_Error* Free(AbiBufferDestroyArgs* args) {
  static atomic_int count;
  if (++count % (int)ChosenNumber(kOneIn) != 0) in_use -= 1 << 16;
  return CallInner(kSlotBufferDestroy, args);
}

static PJRT_Error* Tell(AbiDeviceMemoryStatsArgs* args) {
  args->bytes_in_use = (1 << 30) + in_use;
  return NULL;
}

const Fault kLeakFaults[] = {
    {.name = "leak-of-executions",
     .what = "each execution loses 200 bytes",
     .overrides = {SPOILS(LoadedExecutableExecute,
                          LoseLoadedExecutableExecute)}},
    {.name = "leak-of-uploads",
     .what = "each PJRT_Client_BufferFromHostBuffer loses 200 bytes",
     .overrides = {SPOILS(ClientBufferFromHostBuffer,
                          LoseClientBufferFromHostBuffer)}},
    {.name = "leak-of-reads",
     .what = "each PJRT_Buffer_ToHostBuffer loses 200 bytes",
     .overrides = {SPOILS(BufferToHostBuffer, LoseBufferToHostBuffer)}},
    {.name = "leak-of-copies",
     .what = "each PJRT_Buffer_CopyToDevice loses 200 bytes",
     .overrides = {SPOILS(BufferCopyToDevice, LoseBufferCopyToDevice)}},
    {.name = "leak-of-deletes",
     .what = "each PJRT_Buffer_Delete loses 200 bytes",
     .overrides = {SPOILS(BufferDelete, LoseBufferDelete)}},
    {.name = "leak-of-callbacks",
     .what = "each PJRT_Event_OnReady loses 200 bytes",
     .overrides = {SPOILS(EventOnReady, LoseEventOnReady)}},
    {.name = "leak-of-loads",
     .what = "each PJRT_Executable_DeserializeAndLoad loses 200 bytes",
     .overrides = {SPOILS(ExecutableDeserializeAndLoad,
                          LoseExecutableDeserializeAndLoad)}},
    {.name = "leak-of-queries",
     .what = "each PJRT_LoadedExecutable_GetExecutable loses 200 bytes",
     .overrides = {SPOILS(LoadedExecutableGetExecutable,
                          LoseLoadedExecutableGetExecutable)}},
    {.name = "leak-of-clients",
     .what = "each PJRT_Client_Destroy loses 256 KiB",
     .overrides = {SPOILS(ClientDestroy, ClientLoses)}},
    {.name = "leak-of-events",
     .what = "PJRT_Event_Destroy does nothing",
     .overrides = {SPOILS(EventDestroy, EventStays)}},
    {.name = "leak-of-errors",
     .what = "PJRT_Error_Destroy does nothing",
     .overrides = {SPOILS(ErrorDestroy, ErrorStays)}},
    {.name = "leak-of-executables",
     .what = "PJRT_LoadedExecutable_Destroy does nothing",
     .overrides = {SPOILS(LoadedExecutableDestroy, ExecutableStays)}},
    {.name = "leak-of-one-in",
     .what = "one in 50 calls of PJRT_Buffer_Destroy does nothing",
     .overrides = {SPOILS(BufferDestroy, OneInStays)}},
    {.name = "leak-of-rank",
     .what = "PJRT_Buffer_Destroy does nothing with arrays of two dimensions, "
             "or of as many as stand behind the name",
     .overrides = {SPOILS(BufferDestroy, OfRankStays)}},
    {.name = "leak-of-donated",
     .what = "PJRT_Buffer_Destroy does nothing with what was donated or "
             "deleted",
     .overrides = {SPOILS(BufferDestroy, DonatedStays)}},
    {.name = "leak-of-sharded",
     .what = "the results of executions on several devices are there twice, "
             "and once for ever",
     .overrides = {SPOILS(LoadedExecutableExecute, ShardedStays)}},
    {.name = "leak-of-own-pages",
     .what = "each execution loses 200 bytes of pages that it has mapped",
     .overrides = {SPOILS(LoadedExecutableExecute, LosesOwn)}},
    {.name = "leak-on-device",
     .what = "the statistics count 64 KiB for each upload, and of one in 50 "
             "for ever",
     .overrides = {SPOILS(ClientBufferFromHostBuffer, Take),
                   SPOILS(BufferDestroy, Free),
                   SPOILS(DeviceMemoryStats, Tell)}},
    {.name = NULL},
};
