// Faults of serialized executables.

#include <pthread.h>
#include <stdlib.h>

#include "test/csrc/wrong_plugin/anything.h"
#include "test/csrc/wrong_plugin/wrong_plugin.h"

static PJRT_Error* NotSerialized(AbiExecutableSerializeArgs* args) {
  (void)args;
  return Refuse(kAbiUnimplemented, "executables cannot be serialized");
}

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

static PJRT_Error* NotLoaded(AbiExecutableDeserializeAndLoadArgs* args) {
  (void)args;
  return Refuse(kAbiUnimplemented, "executables cannot be loaded");
}

static PJRT_Error* LoadOrAbort(AbiExecutableDeserializeAndLoadArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableDeserializeAndLoad, args);
  if (error != NULL) abort();
  return NULL;
}

static PJRT_Error* LoadAnything(AbiExecutableDeserializeAndLoadArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableDeserializeAndLoad, args);
  if (error == NULL) return NULL;
  FreeError(error);
  return CompileAnything(args->client, &args->loaded_executable);
}

const Fault kCacheFaults[] = {
    {.name = "no-serialize",
     .what = "the table has no PJRT_Executable_Serialize",
     .overrides = {SPOILS(ExecutableSerialize, Absent)}},
    {.name = "serialize-refused",
     .what = "PJRT_Executable_Serialize: UNIMPLEMENTED",
     .overrides = {SPOILS(ExecutableSerialize, NotSerialized)}},
    {.name = "serialize-other",
     .what = "every executable is serialized as the process's first",
     .overrides = {SPOILS(ExecutableSerialize, SerializeFirst)}},
    {.name = "serialize-half",
     .what = "of every serialized executable the second half is missing",
     .overrides = {SPOILS(ExecutableSerialize, SerializeHalf)}},
    {.name = "load-refused",
     .what = "PJRT_Executable_DeserializeAndLoad: UNIMPLEMENTED",
     .overrides = {SPOILS(ExecutableDeserializeAndLoad, NotLoaded)}},
    {.name = "load-swallows-damage",
     .what = "bytes that cannot be loaded become an executable of no inputs "
             "that gives 0.0",
     .overrides = {SPOILS(ExecutableDeserializeAndLoad, LoadAnything)}},
    {.name = "load-aborts",
     .what = "bytes that cannot be loaded end the process by SIGABRT",
     .overrides = {SPOILS(ExecutableDeserializeAndLoad, LoadOrAbort)}},
    {.name = NULL},
};
