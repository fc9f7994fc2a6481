// Faults of executables that are loaded, and of the bytes that they are made
// of: what stays, and what is taken for another one.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/notes.h"

static PJRT_Error* Load(LoadArgs* args) {
  return CallInner(kSlotExecutableDeserializeAndLoad, args);
}

static PJRT_Error* LoadKeeps(LoadArgs* args) {
  LoadArgs kept = *args;
  TryInner(kSlotExecutableDeserializeAndLoad, &kept);
  return Load(args);
}

static PJRT_Error* LoadedStays(AbiLoadedExecutableDestroyArgs* args) {
  if (Marked(args->executable)) return NULL;
  return CallInner(kSlotLoadedExecutableDestroy, args);
}

static void NeverDeleted(PJRT_SerializedExecutable* serialized) {
  (void)serialized;
}

static PJRT_Error* SerializedStays(AbiExecutableSerializeArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableSerialize, args);
  args->serialized_executable_deleter = NeverDeleted;
  return error;
}

// The bytes that were loaded first of each size, as long as the process.
typedef struct LoadedBytes {
  struct LoadedBytes* next;
  size_t size;
  char bytes[];
} LoadedBytes;

static PJRT_Error* LoadOfSameSize(LoadArgs* args) {
  static LoadedBytes* all;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const size_t size = args->serialized_executable_size;
  pthread_mutex_lock(&mutex);
  LoadedBytes* first = all;
  while (first != NULL && first->size != size) first = first->next;
  if (first == NULL) {
    first = Allocate(sizeof(*first) + size);
    first->next = all;
    first->size = size;
    memcpy(first->bytes, args->serialized_executable, size);
    all = first;
  }
  pthread_mutex_unlock(&mutex);
  LoadArgs changed = *args;
  changed.serialized_executable = first->bytes;
  PJRT_Error* error = Load(&changed);
  args->loaded_executable = changed.loaded_executable;
  return error;
}

const Fault kLoadFaults[] = {
    FAULT("load-keeps", "each load loads the executable once more, which stays",
          {SPOILS(ExecutableDeserializeAndLoad, LoadKeeps)}),
    FAULT("loaded-stays",
          "PJRT_LoadedExecutable_Destroy does nothing, of what was loaded",
          {SPOILS(ExecutableDeserializeAndLoad, LoadAndMark),
           SPOILS(LoadedExecutableDestroy, LoadedStays)}),
    FAULT("serialized-stays",
          "the deleter of a serialized executable does nothing",
          {SPOILS(ExecutableSerialize, SerializedStays)}),
    FAULT("load-of-same-size",
          "what is loaded is what was loaded first of the same size",
          {SPOILS(ExecutableDeserializeAndLoad, LoadOfSameSize)}),
    {.name = NULL},
};
