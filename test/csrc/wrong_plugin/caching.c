// Faults of serialized executables.

#include <pthread.h>
#include <stdlib.h>

#include "test/csrc/wrong_plugin/anything.h"
#include "test/csrc/wrong_plugin/wrong_plugin.h"

REFUSES(NotSerialized, kAbiUnimplemented, "executables cannot be serialized")
REFUSES(NotLoaded, kAbiUnimplemented, "executables cannot be loaded")
ABORTS(ExecutableDeserializeAndLoad)

// Kept as long as the process, whatever becomes of the executable.
static PJRT_Error* SerializeFirst(AbiExecutableSerializeArgs* args) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static char* first;
  static size_t size;
  PJRT_Error* error = CallInner(kSlotExecutableSerialize, args);
  if (error != NULL) return error;
  pthread_mutex_lock(&mutex);
  if (first == NULL) {
    size = args->serialized_bytes_size;
    first = Duplicate(args->serialized_bytes, size);
  }
  pthread_mutex_unlock(&mutex);
  args->serialized_bytes = first;
  args->serialized_bytes_size = size;
  return NULL;
}

static PJRT_Error* SerializeHalf(AbiExecutableSerializeArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableSerialize, args);
  args->serialized_bytes_size /= 2;
  return error;
}

static PJRT_Error* LoadAnything(LoadArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableDeserializeAndLoad, args);
  if (error == NULL) return NULL;
  FreeError(error);
  return CompileAnything(args->client, &args->loaded_executable);
}

const Fault kCacheFaults[] = {
    FAULT("no-serialize", "the table has no PJRT_Executable_Serialize",
          {SPOILS(ExecutableSerialize, Absent)}),
    FAULT("serialize-refused", "PJRT_Executable_Serialize: UNIMPLEMENTED",
          {SPOILS(ExecutableSerialize, NotSerialized)}),
    FAULT("serialize-other",
          "every executable is serialized as the process's first",
          {SPOILS(ExecutableSerialize, SerializeFirst)}),
    FAULT("serialize-half",
          "of every serialized executable the second half is missing",
          {SPOILS(ExecutableSerialize, SerializeHalf)}),
    FAULT("load-refused", "PJRT_Executable_DeserializeAndLoad: UNIMPLEMENTED",
          {SPOILS(ExecutableDeserializeAndLoad, NotLoaded)}),
    FAULT("load-swallows-damage",
          "bytes that cannot be loaded become an executable of no inputs "
          "that gives 0.0",
          {SPOILS(ExecutableDeserializeAndLoad, LoadAnything)}),
    FAULT("load-aborts",
          "bytes that cannot be loaded end the process by SIGABRT",
          {SPOILS(ExecutableDeserializeAndLoad,
                  ExecutableDeserializeAndLoadOrAbort)}),
    {.name = NULL},
};
