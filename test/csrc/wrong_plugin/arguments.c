// Faults of errors that an execution or an allocation ends in.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/notes.h"

static PJRT_Client* client;  // of the last compilation

static PJRT_Error* NoteClient(AbiClientCompileArgs* args) {
  client = args->client;
  return CallInner(kSlotClientCompile, args);
}

static PJRT_Buffer* Zeros(PJRT_Device* device, int type, const int64_t* dims,
                          size_t rank) {
  size_t size = ElementSize(type);
  for (size_t i = 0; i < rank; ++i) size *= (size_t)dims[i];
  void* data = Allocate(size);
  AbiClientBufferFromHostBufferArgs args = {
      .struct_size = ABI_SIZE(AbiClientBufferFromHostBufferArgs, buffer),
      .client = client,
      .data = data,
      .type = type,
      .dims = dims,
      .num_dims = rank,
      .device = device};
  if (!TryInner(kSlotClientBufferFromHostBuffer, &args)) abort();
  DestroyEvent(args.done_with_host_buffer);
  free(data);
  return args.buffer;
}

// Zeros in the place of every output of an execution that failed.
static void GiveZeros(ExecuteArgs* args) {
  PJRT_Executable* executable = GetExecutable(args->executable);
  AbiLoadedExecutableAddressableDevicesArgs devices = {
      ABI_SIZE(AbiLoadedExecutableAddressableDevicesArgs,
               num_addressable_devices),
      NULL, args->executable, NULL, 0};
  TryInner(kSlotLoadedExecutableAddressableDevices, &devices);
  AbiExecutableOutputElementTypesArgs types = {
      ABI_SIZE(AbiExecutableOutputElementTypesArgs, num_output_types), NULL,
      executable, NULL, 0};
  TryInner(kSlotExecutableOutputElementTypes, &types);
  AbiExecutableOutputDimensionsArgs shapes = {
      ABI_SIZE(AbiExecutableOutputDimensionsArgs, dim_sizes),
      NULL,
      executable,
      0,
      NULL,
      NULL};
  TryInner(kSlotExecutableOutputDimensions, &shapes);
  PJRT_Buffer** const* lists = args->output_lists;
  PJRT_Event** events = args->device_complete_events;
  for (size_t d = 0; d < args->num_devices; ++d) {
    const int64_t* dims = shapes.dims;
    for (size_t i = 0; i < types.num_output_types; ++i) {
      lists[d][i] = Zeros(devices.addressable_devices[d], types.output_types[i],
                          dims, shapes.dim_sizes[i]);
      dims += shapes.dim_sizes[i];
    }
    if (events == NULL) continue;
    events[d] = ReadyEvent(lists[d][0]);
  }
  PutExecutable(executable);
}

static bool Says(const PJRT_Error* error, const char* text) {
  AbiErrorMessageArgs args = {ABI_SIZE(AbiErrorMessageArgs, message_size), NULL,
                              error, NULL, 0};
  ErrorMessage(&args);
  return memmem(args.message, args.message_size, text, strlen(text)) != NULL;
}

// What XLA's CPU plugin says of a wrong number of arguments.
static const char kCount[] = "buffers but compiled program expected";

static PJRT_Error* ExecuteAndSwallow(ExecuteArgs* args, bool count) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error == NULL || Says(error, kCount) != count) return error;
  FreeError(error);
  GiveZeros(args);
  return NULL;
}

static PJRT_Error* SwallowsCount(ExecuteArgs* args) {
  return ExecuteAndSwallow(args, true);
}

static PJRT_Error* SwallowsSize(ExecuteArgs* args) {
  return ExecuteAndSwallow(args, false);
}

ABORTS(LoadedExecutableExecute)

// Memory that nobody has.

#define EXHAUSTS(slot)                                             \
  static PJRT_Error* slot##Exhausted(void* args) {                 \
    PJRT_Error* error = CallInner(kSlot##slot, args);              \
    if (error != NULL && CodeOf(error) == kAbiResourceExhausted) { \
      fprintf(stderr, "out of memory\n");                          \
      abort();                                                     \
    }                                                              \
    return error;                                                  \
  }

EXHAUSTS(ClientCompile)
EXHAUSTS(LoadedExecutableExecute)
EXHAUSTS(ClientBufferFromHostBuffer)
EXHAUSTS(ClientCreateUninitializedBuffer)

const Fault kArgumentFaults[] = {
    FAULT("swallows-count",
          "an execution with too many or too few arguments gives zeros",
          MARKED(NoteClient, SwallowsCount)),
    FAULT("swallows-size",
          "an execution that fails for another reason, as an argument of "
          "another size, gives zeros",
          MARKED(NoteClient, SwallowsSize)),
    FAULT("aborts-on-arguments",
          "an execution that fails ends the process by SIGABRT",
          EXECUTES(LoadedExecutableExecuteOrAbort)),
    FAULT("aborts-on-memory",
          "RESOURCE_EXHAUSTED of a compilation, an execution or a new "
          "buffer ends the process by SIGABRT",
          {SPOILS(ClientCompile, ClientCompileExhausted),
           SPOILS(LoadedExecutableExecute, LoadedExecutableExecuteExhausted),
           SPOILS(ClientBufferFromHostBuffer,
                  ClientBufferFromHostBufferExhausted),
           SPOILS(ClientCreateUninitializedBuffer,
                  ClientCreateUninitializedBufferExhausted)}),
    {.name = NULL},
};
