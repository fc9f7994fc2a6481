// Faults of the kinds that public plugins have had: of a rank, of a width, of
// one input among several, of what lives beside others.

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/outputs.h"

static void FlipByte(PJRT_Buffer* buffer, size_t index) {
  size_t size = 0;
  unsigned char* bytes = Bytes(buffer, &size);
  if (bytes != NULL && index < size) bytes[index] ^= 1;
}

static PJRT_Error* Execute(ExecuteArgs* args) {
  return CallInner(kSlotLoadedExecutableExecute, args);
}

static PJRT_Buffer** Arguments(const ExecuteArgs* args) {
  return args->num_devices > 0 ? ((PJRT_Buffer***)args->argument_lists)[0]
                               : NULL;
}

// Uploads.

static PJRT_Error* UploadWrongIf(UploadArgs* args, bool is_wrong) {
  if (!is_wrong) return CallInner(kSlotClientBufferFromHostBuffer, args);
  PJRT_Error* error = UploadCopy(args);
  if (error == NULL) FlipByte(args->buffer, 0);
  return error;
}

static PJRT_Error* UploadOfRank(UploadArgs* args) {
  return UploadWrongIf(args, args->num_dims == (size_t)ChosenNumber(3));
}

static PJRT_Error* StridesOfRank(UploadArgs* args) {
  const bool is_wrong = args->num_dims == (size_t)ChosenNumber(4);
  return UploadWrongIf(args, is_wrong && args->num_byte_strides > 0);
}

static PJRT_Error* StridesOfWidth(UploadArgs* args) {
  const bool is_wide = ElementSize(args->type) == (size_t)ChosenNumber(8);
  return UploadWrongIf(args, is_wide && args->num_byte_strides > 0);
}

// Elements lie apart if the strides reach further than they take, and are
// repeated if one is zero.
static bool Repeats(const UploadArgs* args) {
  bool repeats = false;
  for (size_t i = 0; i < args->num_byte_strides; ++i) {
    repeats = repeats || args->byte_strides[i] == 0;
  }
  return repeats;
}

static PJRT_Error* StridesOfZero(UploadArgs* args) {
  return UploadWrongIf(args, Repeats(args));
}

static PJRT_Error* StridesOfSlices(UploadArgs* args) {
  const int64_t element = (int64_t)ElementSize(args->type);
  int64_t size = 1, reach = 1;
  for (size_t i = 0; i < args->num_byte_strides; ++i) {
    size *= args->dims[i];
    reach += (args->dims[i] - 1) * args->byte_strides[i] / element;
  }
  return UploadWrongIf(args, reach > size && !Repeats(args));
}

// Strides that reading back alone heeds.
static PJRT_Error* StridesForReading(UploadArgs* args) {
  PJRT_Error* error = UploadWrongIf(args, args->num_byte_strides > 0);
  if (error == NULL && args->num_byte_strides > 0) Mark(args->buffer);
  return error;
}

static PJRT_Error* ReadForStrides(AbiBufferToHostBufferArgs* args) {
  PJRT_Error* error;
  if (Download(args, &error) && Marked(args->src)) {
    *(unsigned char*)args->dst ^= 1;
  }
  return error;
}

// By a memory, of whichever device, to the first one.
static PJRT_Error* UploadToFirst(UploadArgs* args) {
  AbiClientAddressableDevicesArgs devices = {
      ABI_SIZE(AbiClientAddressableDevicesArgs, num_addressable_devices), NULL,
      args->client, NULL, 0};
  if (args->memory != NULL &&
      TryInner(kSlotClientAddressableDevices, &devices)) {
    args->memory = NULL;
    args->device = devices.addressable_devices[0];
  }
  return CallInner(kSlotClientBufferFromHostBuffer, args);
}

// Copies, to the host and between devices.

static atomic_int reading;

static PJRT_Error* ReadBeside(AbiBufferToHostBufferArgs* args) {
  PJRT_Error* error;
  if (!Download(args, &error)) return error;
  if (reading++ > 0) *(unsigned char*)args->dst ^= 1;
  Mark(args->event);
  return error;
}

static PJRT_Error* EndReading(AbiEventDestroyArgs* args) {
  reading -= Marked(args->event);
  return ForgetEvent(args);
}

static PJRT_Error* CopyToMemory(AbiBufferCopyToMemoryArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferCopyToMemory, args);
  if (error == NULL) FlipByte(args->dst_buffer, 0);
  return error;
}

static PJRT_Error* CopyOfOddSize(AbiBufferCopyToDeviceArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferCopyToDevice, args);
  size_t size = 0;
  if (error == NULL && Bytes(args->dst_buffer, &size) && size % 4 != 0) {
    FlipByte(args->dst_buffer, size - 1);
  }
  return error;
}

static PJRT_Error* CopyOfType(AbiBufferCopyToDeviceArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferCopyToDevice, args);
  if (error == NULL && ElementType(args->buffer) == ChosenNumber(kTypeF16)) {
    FlipByte(args->dst_buffer, 0);
  }
  return error;
}

// Results.

static PJRT_Error* MarkAllReduce(AbiClientCompileArgs* args) {
  return CompileAndMark(args, "all-reduce");
}

static PJRT_Error* ExecuteMarked(ExecuteArgs* args,
                                 void (*spoil)(PJRT_Buffer* result)) {
  PJRT_Error* error = Execute(args);
  if (error != NULL || !Marked(args->executable)) return error;
  const Outputs outputs = OutputsOf(args);
  EachOutput(&outputs, spoil);
  return NULL;
}

static void SpoilBetween(PJRT_Buffer* result) {
  size_t size = 0;
  const bool has_bytes = Bytes(result, &size) != NULL;
  const int type = ElementType(result);
  if (!has_bytes || (type != kTypeF32 && type != kTypeBf16)) return;
  const size_t count = size / ElementSize(type);
  if (count > 1 << 13 && count < 1 << 20) FlipByte(result, 0);
}

static PJRT_Error* ResultBetween(ExecuteArgs* args) {
  return ExecuteMarked(args, SpoilBetween);
}

static void SpoilBehind(PJRT_Buffer* result) {
  enum { kBehind = 1024 };
  const int type = ElementType(result);
  if (type == ChosenNumber(type)) FlipByte(result, kBehind * ElementSize(type));
}

static PJRT_Error* ReduceTo1024(ExecuteArgs* args) {
  return ExecuteMarked(args, SpoilBehind);
}

static PJRT_Error* CastSigned(ExecuteArgs* args) {
  PJRT_Buffer** given = Arguments(args);
  size_t count = 0, size = 0;
  const unsigned char* bytes =
      args->num_args == 1 && ElementType(given[0]) == kTypeU8
          ? Bytes(given[0], &count)
          : NULL;
  unsigned char* copy = bytes != NULL ? Duplicate(bytes, count) : NULL;
  PJRT_Error* error = Execute(args);
  if (error == NULL && copy != NULL && Marked(args->executable)) {
    PJRT_Buffer* result = ((PJRT_Buffer***)args->output_lists)[0][0];
    float* values = (float*)Bytes(result, &size);
    for (size_t i = 0; values && size == 4 * count && i < count; ++i) {
      if (ElementType(result) == kTypeF32) values[i] = (float)(int8_t)copy[i];
    }
  }
  free(copy);
  return error;
}

static PJRT_Error* NoEmptyArrays(ExecuteArgs* args) {
  for (size_t i = 0; i < args->num_args; ++i) {
    AbiBufferOnDeviceSizeInBytesArgs measure = {
        ABI_SIZE(AbiBufferOnDeviceSizeInBytesArgs, on_device_size_in_bytes),
        NULL, Arguments(args)[i], 1};
    TryInner(kSlotBufferOnDeviceSizeInBytes, &measure);
    if (measure.on_device_size_in_bytes == 0) abort();
  }
  return Execute(args);
}

// A pool that begins anew, whether its oldest buffer is in use or not.
static void Pool(PJRT_Buffer* buffer) {
  enum { kPool = 256 };
  static PJRT_Buffer* pool[1 << 10];
  static size_t count;
  PJRT_Buffer** place = &pool[count++ % (size_t)ChosenNumber(kPool)];
  size_t old_size = 0, size = 0;
  unsigned char* old = Marked(*place) ? Bytes(*place, &old_size) : NULL;
  const unsigned char* bytes = Bytes(buffer, &size);
  if (old != NULL && size == old_size) memcpy(old, bytes, size);
  *place = buffer;
  Mark(buffer);
}

static PJRT_Error* PoolOfResults(ExecuteArgs* args) {
  PJRT_Error* error = Execute(args);
  if (error != NULL || args->num_devices != 1) return error;
  Pool(((PJRT_Buffer***)args->output_lists)[0][0]);
  return NULL;
}

static PJRT_Error* PoolOfUploads(UploadArgs* args) {
  PJRT_Error* error = UploadCopy(args);
  if (error == NULL) Pool(args->buffer);
  return error;
}

// Large arguments, which a result is written over.
static PJRT_Error* WriteOver(ExecuteArgs* args) {
  enum { kLarge = 1 << 16 };
  PJRT_Error* error = Execute(args);
  if (error != NULL || args->num_args == 0) return error;
  size_t size = 0, room = 0;
  const unsigned char* bytes =
      Bytes(((PJRT_Buffer***)args->output_lists)[0][0], &size);
  unsigned char* given = Bytes(Arguments(args)[0], &room);
  if (bytes && given && size == room && size > kLarge) {
    memcpy(given, bytes, size);
  }
  return NULL;
}

// Donation.

static size_t CountDonated(const ExecuteArgs* args) {
  size_t count = 0;
  for (size_t i = 0; i < args->num_args; ++i) {
    count += IsDeleted(Arguments(args)[i]);
  }
  return count;
}

static PJRT_Error* SwapDonated(ExecuteArgs* args) {
  PJRT_Error* error = Execute(args);
  if (error != NULL || CountDonated(args) < 2) return error;
  PJRT_Buffer** results = ((PJRT_Buffer***)args->output_lists)[0];
  PJRT_Buffer* first = results[0];
  results[0] = results[1];
  results[1] = first;
  return NULL;
}

static PJRT_Error* SpoilBesideDonated(ExecuteArgs* args) {
  PJRT_Error* error = Execute(args);
  if (error == NULL && CountDonated(args) > 1) {
    FlipByte(Arguments(args)[args->num_args - 1], 0);
  }
  return error;
}

// Errors.

static bool HasFailed(PJRT_Buffer* buffer) {
  PJRT_Event* ready = ReadyEvent(buffer);
  if (ready == NULL) return false;
  AbiEventIsReadyArgs is = {ABI_SIZE(AbiEventIsReadyArgs, is_ready), NULL,
                            ready, false};
  const bool failed =
      TryInner(kSlotEventIsReady, &is) && is.is_ready && !AwaitEvent(ready);
  DestroyEvent(ready);
  return failed;
}

static PJRT_Error* FirstAlone(ExecuteArgs* args) {
  PJRT_Buffer** given = Arguments(args);
  for (size_t i = 1; i < args->num_args; ++i) {
    if (HasFailed(given[i])) given[i] = given[0];
  }
  return Execute(args);
}

static PJRT_Error* FailOnce(AbiEventAwaitArgs* args) {
  if (Marked(args->event)) return NULL;
  PJRT_Error* error = CallInner(kSlotEventAwait, args);
  if (error != NULL) Mark(args->event);
  return error;
}

// A lock that is held while callbacks are called.

static pthread_mutex_t buffers_mutex = PTHREAD_MUTEX_INITIALIZER;

static void* CallWithLock(void* user_arg) {
  AbiEventOnReadyArgs* args = user_arg;
  pthread_mutex_lock(&buffers_mutex);
  args->callback(args->extension_start, args->user_arg);
  pthread_mutex_unlock(&buffers_mutex);
  free(args);
  return NULL;
}

// Never on the thread that asks, which then would not come back.
static void CallOnThread(PJRT_Error* error, void* user_arg) {
  pthread_t thread;
  ((AbiEventOnReadyArgs*)user_arg)->extension_start = error;
  pthread_create(&thread, NULL, CallWithLock, user_arg);
}

static PJRT_Error* OnReadyWithLock(AbiEventOnReadyArgs* args) {
  AbiEventOnReadyArgs changed = *args;
  changed.callback = CallOnThread;
  changed.user_arg = Duplicate(args, sizeof(*args));
  return CallInner(kSlotEventOnReady, &changed);
}

#define LOCKS(slot)                             \
  static PJRT_Error* slot##Locked(void* args) { \
    pthread_mutex_lock(&buffers_mutex);         \
    pthread_mutex_unlock(&buffers_mutex);       \
    return CallInner(kSlot##slot, args);        \
  }

LOCKS(BufferDestroy)
LOCKS(ClientBufferFromHostBuffer)

// Programs: by their name or code, and where they are loaded.

// Of which their size tells them apart.
static PJRT_Error* CompileByCode(AbiClientCompileArgs* args) {
  static char* options;
  static size_t options_size, code_size;
  if (code_size == args->program->code_size) {
    args->compile_options = options;
    args->compile_options_size = options_size;
  } else {
    code_size = args->program->code_size;
    options_size = args->compile_options_size;
    options = Duplicate(args->compile_options, options_size);
  }
  return CallInner(kSlotClientCompile, args);
}

static PJRT_Error* CompileByName(AbiClientCompileArgs* args) {
  static const char kName[] = "graph";
  static struct {
    char* code;
    size_t size;
  } first[64];
  static size_t count;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  AbiProgram program = *args->program;
  size_t i = 0;
  pthread_mutex_lock(&mutex);
  while (i < count && first[i].size != program.code_size) ++i;
  if (memmem(program.code, program.code_size, kName, strlen(kName)) &&
      i < sizeof(first) / sizeof(first[0])) {
    if (i == count) {
      first[count].size = program.code_size;
      first[count++].code = Duplicate(program.code, program.code_size);
    }
    program.code = first[i].code;
  }
  pthread_mutex_unlock(&mutex);
  AbiClientCompileArgs changed = *args;
  changed.program = &program;
  PJRT_Error* error = CallInner(kSlotClientCompile, &changed);
  args->executable = changed.executable;
  return error;
}

static bool IsOnFirstDevice(PJRT_Buffer* buffer) {
  AbiBufferDeviceArgs on = {ABI_SIZE(AbiBufferDeviceArgs, device), NULL, buffer,
                            NULL};
  if (!TryInner(kSlotBufferDevice, &on)) return true;
  AbiDeviceLocalHardwareIdArgs id = {
      ABI_SIZE(AbiDeviceLocalHardwareIdArgs, local_hardware_id), NULL,
      on.device, 0};
  return !TryInner(kSlotDeviceLocalHardwareId, &id) ||
         id.local_hardware_id == 0;
}

static PJRT_Error* LoadedOnFirst(ExecuteArgs* args) {
  if (Marked(args->executable) && args->num_args > 0 &&
      !IsOnFirstDevice(Arguments(args)[0])) {
    return Refuse(kAbiInvalidArgument, "the program is on device 0");
  }
  return Execute(args);
}

static PJRT_Error* LoadedOnOne(ExecuteArgs* args) {
  if (Marked(args->executable) && args->num_devices > 1) {
    return Refuse(kAbiInvalidArgument, "the program is on one device");
  }
  return Execute(args);
}

// Of an API that has grown, whatever the caller's struct holds.
static PJRT_Error* WritesBehind(AbiBufferToHostBufferArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferToHostBuffer, args);
  memset(args + 1, 0, sizeof(void*));
  return error;
}

// What stays behind a client.

#define LEAVES_FILE(slot)                           \
  static PJRT_Error* slot##LeavesFile(void* args) { \
    if (open("/dev/null", O_RDONLY) < 0) abort();   \
    return CallInner(kSlot##slot, args);            \
  }

LEAVES_FILE(ClientDestroy)
LEAVES_FILE(ClientCompile)

static void* Wait(void* unused) {
  while (true) pause();
  return unused;
}

static PJRT_Error* LeavesThread(AbiClientDestroyArgs* args) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, Wait, NULL) != 0) abort();
  return CallInner(kSlotClientDestroy, args);
}

static PJRT_Error* LeavesProcess(AbiClientDestroyArgs* args) {
  if (fork() == 0) {
    while (true) pause();
  }
  return CallInner(kSlotClientDestroy, args);
}

#define LOADED(execute)                               \
  {SPOILS(ExecutableDeserializeAndLoad, LoadAndMark), \
   SPOILS(LoadedExecutableExecute, execute)}

const Fault kPublicFaults[] = {
    FAULT("transfer-of-rank",
          "the first bit of an array of 3 dimensions flips on the way to a "
          "device",
          UPLOADS(UploadOfRank)),
    FAULT("strides-of-rank", "the same of arrays of 4 with byte_strides",
          UPLOADS(StridesOfRank)),
    FAULT("strides-of-width",
          "the same of arrays with byte_strides, of elements of 8 bytes",
          UPLOADS(StridesOfWidth)),
    FAULT("strides-of-zero", "the same where one of the byte_strides is 0",
          UPLOADS(StridesOfZero)),
    FAULT("strides-of-slices", "the same where byte_strides leave elements out",
          UPLOADS(StridesOfSlices)),
    FAULT("strides-for-reading",
          "programs use an array with byte_strides wrongly, and it is read "
          "back right",
          {SPOILS(ClientBufferFromHostBuffer, StridesForReading),
           SPOILS(BufferToHostBuffer, ReadForStrides),
           SPOILS(BufferDestroy, ForgetBuffer)}),
    FAULT("copy-of-odd-size",
          "a bit of the last byte flips in a copy to another device whose "
          "size is no multiple of 4",
          COPIES(CopyOfOddSize)),
    FAULT("copy-of-type",
          "the first bit flips in a copy of float16 to another device",
          COPIES(CopyOfType)),
    FAULT("copy-to-memory", "the same in each to a device's memory",
          {SPOILS(BufferCopyToMemory, CopyToMemory)}),
    FAULT("upload-to-first",
          "an upload that names a memory goes to the first device",
          UPLOADS(UploadToFirst)),
    FAULT("read-beside", "a read that begins beside another one is wrong",
          {SPOILS(BufferToHostBuffer, ReadBeside),
           SPOILS(EventDestroy, EndReading)}),
    FAULT("result-between",
          "results of 2^13 to 2^20 float32 or bfloat16 end in another bit",
          MARKED(MarkChosen, ResultBetween)),
    FAULT("all-reduce-to-1024",
          "the element behind the first 1,024 of an all-reduce is wrong",
          MARKED(MarkAllReduce, ReduceTo1024)),
    FAULT("cast-signed", "uint8 becomes float32 as if it were int8",
          MARKED(MarkCasts, CastSigned)),
    FAULT("aborts-on-empty",
          "an execution with an argument of no bytes ends the process",
          EXECUTES(NoEmptyArrays)),
    FAULT("pool-of-results",
          "a result overwrites that of 256 executions before, if it lives",
          {SPOILS(LoadedExecutableExecute, PoolOfResults),
           SPOILS(BufferDestroy, ForgetBuffer)}),
    FAULT("pool-of-uploads", "an upload overwrites that of 256 uploads before",
          {SPOILS(ClientBufferFromHostBuffer, PoolOfUploads),
           SPOILS(BufferDestroy, ForgetBuffer)}),
    FAULT("result-over-argument",
          "a result of more than 64 KiB is written over the first argument",
          EXECUTES(WriteOver)),
    FAULT("donation-swaps",
          "of two donated arguments each result lies where the other has to",
          EXECUTES(SwapDonated)),
    FAULT("donation-spoils",
          "the last argument changes where two others are donated",
          EXECUTES(SpoilBesideDonated)),
    FAULT("error-of-second-lost",
          "an argument that has failed, but the first, is as the first one",
          EXECUTES(FirstAlone)),
    FAULT("error-once", "PJRT_Event_Await gives an event's error once",
          {SPOILS(EventAwait, FailOnce), SPOILS(EventDestroy, ForgetEvent)}),
    FAULT("callback-with-lock",
          "a callback that destroys a buffer, or uploads, waits without end",
          {SPOILS(EventOnReady, OnReadyWithLock),
           SPOILS(ClientBufferFromHostBuffer, ClientBufferFromHostBufferLocked),
           SPOILS(BufferDestroy, BufferDestroyLocked)}),
    FAULT("compile-by-name",
          "a program 'graph' is the first one of as many bytes",
          {SPOILS(ClientCompile, CompileByName)}),
    FAULT("compile-by-code",
          "a program of the code of the last one has its options, too",
          {SPOILS(ClientCompile, CompileByCode)}),
    FAULT("loads-on-first",
          "a program that is loaded runs on the first device alone",
          LOADED(LoadedOnFirst)),
    FAULT("loads-on-one", "a program that is loaded runs on one device alone",
          LOADED(LoadedOnOne)),
    FAULT("writes-behind",
          "PJRT_Buffer_ToHostBuffer writes behind its arguments' struct",
          {SPOILS(BufferToHostBuffer, WritesBehind)}),
    FAULT("client-leaves-file", "PJRT_Client_Destroy leaves an open file",
          {SPOILS(ClientDestroy, ClientDestroyLeavesFile)}),
    FAULT("compile-leaves-file", "each PJRT_Client_Compile leaves an open file",
          COMPILES(ClientCompileLeavesFile)),
    FAULT("client-leaves-thread", "PJRT_Client_Destroy leaves a thread",
          {SPOILS(ClientDestroy, LeavesThread)}),
    FAULT("client-leaves-process", "PJRT_Client_Destroy leaves a process",
          {SPOILS(ClientDestroy, LeavesProcess)}),
    {.name = NULL},
};
