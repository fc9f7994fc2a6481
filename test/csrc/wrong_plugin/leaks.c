// Faults of memory that is never given back. Where a call loses bytes of the
// host's they are 200, or as many as stand behind the fault's name.

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/outputs.h"

enum { kLost = 200, kOneIn = 50, kRank = 2 };

static void Lose(void) { LoseBytes((size_t)ChosenNumber(kLost)); }

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

static PJRT_Error* Stays(void* args) {
  (void)args;
  return NULL;
}

static void ErrorStays(AbiErrorDestroyArgs* args) { (void)args; }

static PJRT_Error* ClientLoses(AbiClientDestroyArgs* args) {
  LoseBytes(256 << 10);
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
  if (IsDeleted(args->buffer)) return NULL;
  return CallInner(kSlotBufferDestroy, args);
}

static PJRT_Error* ShardedStays(ExecuteArgs* args) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error != NULL || args->num_devices < 2) return error;
  const Outputs outputs = OutputsOf(args);
  for (size_t d = 0; d < outputs.devices; ++d) {
    for (size_t i = 0; error == NULL && i < outputs.count; ++i) {
      PJRT_Buffer* copy;
      error = CopyBuffer(outputs.lists[d][i], &copy);
    }
  }
  return error;
}

// Of memory that malloc does not know.
static PJRT_Error* LosesOwn(ExecuteArgs* args) {
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

static PJRT_Error* Take(UploadArgs* args) {
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
    FAULT("leak-of-executions", "each execution loses 200 bytes",
          EXECUTES(LoseLoadedExecutableExecute)),
    FAULT("leak-of-uploads",
          "each PJRT_Client_BufferFromHostBuffer loses 200 bytes",
          UPLOADS(LoseClientBufferFromHostBuffer)),
    FAULT("leak-of-reads", "each PJRT_Buffer_ToHostBuffer loses 200 bytes",
          DOWNLOADS(LoseBufferToHostBuffer)),
    FAULT("leak-of-copies", "each PJRT_Buffer_CopyToDevice loses 200 bytes",
          COPIES(LoseBufferCopyToDevice)),
    FAULT("leak-of-deletes", "each PJRT_Buffer_Delete loses 200 bytes",
          {SPOILS(BufferDelete, LoseBufferDelete)}),
    FAULT("leak-of-callbacks", "each PJRT_Event_OnReady loses 200 bytes",
          {SPOILS(EventOnReady, LoseEventOnReady)}),
    FAULT("leak-of-loads",
          "each PJRT_Executable_DeserializeAndLoad loses 200 bytes",
          {SPOILS(ExecutableDeserializeAndLoad,
                  LoseExecutableDeserializeAndLoad)}),
    FAULT("leak-of-queries",
          "each PJRT_LoadedExecutable_GetExecutable loses 200 bytes",
          {SPOILS(LoadedExecutableGetExecutable,
                  LoseLoadedExecutableGetExecutable)}),
    FAULT("leak-of-clients", "each PJRT_Client_Destroy loses 256 KiB",
          {SPOILS(ClientDestroy, ClientLoses)}),
    FAULT("leak-of-events", "PJRT_Event_Destroy does nothing",
          {SPOILS(EventDestroy, Stays)}),
    FAULT("leak-of-errors", "PJRT_Error_Destroy does nothing",
          {SPOILS(ErrorDestroy, ErrorStays)}),
    FAULT("leak-of-executables", "PJRT_LoadedExecutable_Destroy does nothing",
          {SPOILS(LoadedExecutableDestroy, Stays)}),
    FAULT("leak-of-one-in",
          "one in 50 calls of PJRT_Buffer_Destroy does nothing",
          {SPOILS(BufferDestroy, OneInStays)}),
    FAULT("leak-of-rank",
          "PJRT_Buffer_Destroy does nothing with arrays of two dimensions, "
          "or of as many as stand behind the name",
          {SPOILS(BufferDestroy, OfRankStays)}),
    FAULT("leak-of-donated",
          "PJRT_Buffer_Destroy does nothing with what was donated or "
          "deleted",
          {SPOILS(BufferDestroy, DonatedStays)}),
    FAULT("leak-of-sharded",
          "the results of executions on several devices are there twice, "
          "and once for ever",
          EXECUTES(ShardedStays)),
    FAULT("leak-of-own-pages",
          "each execution loses 200 bytes of pages that it has mapped",
          EXECUTES(LosesOwn)),
    FAULT("leak-on-device",
          "the statistics count 64 KiB for each upload, and of one in 50 "
          "for ever",
          {SPOILS(ClientBufferFromHostBuffer, Take),
           SPOILS(BufferDestroy, Free), SPOILS(DeviceMemoryStats, Tell)}),
    {.name = NULL},
};
