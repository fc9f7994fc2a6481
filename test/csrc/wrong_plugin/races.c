// Faults of two threads: what one has noted is gone if another one comes within
// a window of time, 20 microseconds long or as many as stand behind the fault's
// name. The calls take no other time than that.

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/outputs.h"

enum { kMicroseconds = 20 };

static const void* _Atomic noted;

static int64_t Nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// True if another thread was in there within the window.
static bool Overlapped(const void* args) {
  const int64_t end = Nanoseconds() + 1000 * ChosenNumber(kMicroseconds);
  noted = args;
  while (Nanoseconds() < end) {
  }
  return noted != args;
}

static void Touch(const void* args) { noted = args; }

static void SpoilBuffer(PJRT_Buffer* buffer) {
  PJRT_Buffer** list = &buffer;
  const Outputs outputs = {&list, 1, 1};
  SpoilFirstElements(&outputs);
}

static PJRT_Error* Execute(ExecuteArgs* args) {
  const bool overlapped = Overlapped(args);
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error == NULL && overlapped) {
    const Outputs outputs = OutputsOf(args);
    SpoilFirstElements(&outputs);
  }
  return error;
}

static PJRT_Error* Upload(UploadArgs* args) {
  const bool overlapped = Overlapped(args);
  PJRT_Error* error = CallInner(kSlotClientBufferFromHostBuffer, args);
  if (error == NULL && overlapped) SpoilBuffer(args->buffer);
  return error;
}

static PJRT_Error* Read(DownloadArgs* args) {
  if (!Overlapped(args)) return CallInner(kSlotBufferToHostBuffer, args);
  PJRT_Error* error;
  if (Download(args, &error)) *(unsigned char*)args->dst ^= 1;
  return error;
}

#define FAILS(name, slot)                                        \
  static PJRT_Error* name(void* args) {                          \
    if (!Overlapped(args)) return CallInner(kSlot##slot, args);  \
    return Refuse(kAbiInternal, "another thread is in the way"); \
  }

FAILS(Compile, ClientCompile)
FAILS(Load, ExecutableDeserializeAndLoad)
FAILS(Await, EventAwait)

static PJRT_Error* Destroy(AbiBufferDestroyArgs* args) {
  if (Overlapped(args)) abort();
  return CallInner(kSlotBufferDestroy, args);
}

#define TOUCHES(slot)                          \
  static PJRT_Error* Touch##slot(void* args) { \
    Touch(args);                               \
    return CallInner(kSlot##slot, args);       \
  }

TOUCHES(LoadedExecutableExecute)
TOUCHES(ClientBufferFromHostBuffer)
TOUCHES(BufferDestroy)
TOUCHES(EventDestroy)

const Fault kRaceFaults[] = {
    FAULT("race-of-executions",
          "of two executions the first one's results are as of wrong-op",
          {SPOILS(LoadedExecutableExecute, Execute)}),
    FAULT("race-of-uploads",
          "of two uploads the first one's first element is another",
          {SPOILS(ClientBufferFromHostBuffer, Upload)}),
    FAULT("race-of-reads", "of two reads the first one's first bit is flipped",
          {SPOILS(BufferToHostBuffer, Read)}),
    FAULT("race-of-compiles", "of two compilations the first fails",
          {SPOILS(ClientCompile, Compile)}),
    FAULT("race-of-loads",
          "of two PJRT_Executable_DeserializeAndLoad the first fails",
          {SPOILS(ExecutableDeserializeAndLoad, Load)}),
    FAULT("race-of-destroys",
          "two PJRT_Buffer_Destroy end the process by SIGABRT",
          {SPOILS(BufferDestroy, Destroy)}),
    FAULT("race-of-upload-and-destroy",
          "PJRT_Buffer_Destroy changes the first element of an upload",
          {SPOILS(ClientBufferFromHostBuffer, Upload),
           SPOILS(BufferDestroy, TouchBufferDestroy)}),
    FAULT(
        "race-of-execute-and-upload",
        "an upload makes results of an execution as of wrong-op",
        {SPOILS(LoadedExecutableExecute, Execute),
         SPOILS(ClientBufferFromHostBuffer, TouchClientBufferFromHostBuffer)}),
    FAULT("race-of-compile-and-execute",
          "an execution makes a compilation fail",
          {SPOILS(ClientCompile, Compile),
           SPOILS(LoadedExecutableExecute, TouchLoadedExecutableExecute)}),
    FAULT("race-of-load-and-execute",
          "an execution makes PJRT_Executable_DeserializeAndLoad fail",
          {SPOILS(ExecutableDeserializeAndLoad, Load),
           SPOILS(LoadedExecutableExecute, TouchLoadedExecutableExecute)}),
    FAULT("race-of-await-and-destroy",
          "PJRT_Event_Destroy makes a PJRT_Event_Await fail",
          {SPOILS(EventAwait, Await), SPOILS(EventDestroy, TouchEventDestroy)}),
    {.name = NULL},
};
