#include "test/csrc/wrong_plugin/notes.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Note {
  struct Note* next;
  const void* object;
} Note;

static Note* notes;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void Mark(const void* object) {
  Note* note = Allocate(sizeof(*note));
  note->object = object;
  pthread_mutex_lock(&mutex);
  note->next = notes;
  notes = note;
  pthread_mutex_unlock(&mutex);
}

static Note** Find(const void* object) {
  Note** place = &notes;
  while (*place != NULL && (*place)->object != object) {
    place = &(*place)->next;
  }
  return place;
}

bool Marked(const void* object) {
  pthread_mutex_lock(&mutex);
  const bool found = *Find(object) != NULL;
  pthread_mutex_unlock(&mutex);
  return found;
}

void Forget(const void* object) {
  pthread_mutex_lock(&mutex);
  Note** place = Find(object);
  Note* note = *place;
  if (note != NULL) *place = note->next;
  pthread_mutex_unlock(&mutex);
  free(note);
}

PJRT_Error* ForgetEvent(AbiEventDestroyArgs* args) {
  Forget(args->event);
  return CallInner(kSlotEventDestroy, args);
}

PJRT_Error* ForgetBuffer(AbiBufferDestroyArgs* args) {
  Forget(args->buffer);
  return CallInner(kSlotBufferDestroy, args);
}

static bool Holds(const AbiProgram* program, const char* text, size_t size) {
  return memmem(program->code, program->code_size, text, size) != NULL;
}

bool HoldsOpcode(const AbiProgram* program, const char* opcode) {
  const size_t length = strlen(opcode);
  if (length == 0) return true;
  // In HLO: a field of HloInstructionProto, its number and length before it.
  char text[128];
  enum { kOpcodeTag = 0x12 };
  int size =
      snprintf(text, sizeof(text), "%c%c%s", kOpcodeTag, (char)length, opcode);
  if (Holds(program, text, (size_t)size)) return true;
  // In StableHLO's text, and in VHLO's bytecode.
  char name[64];
  snprintf(name, sizeof(name), "%s", opcode);
  for (char* c = name; *c != '\0'; ++c) {
    if (*c == '-') *c = '_';
  }
  size = snprintf(text, sizeof(text), "stablehlo.%s", name);
  if (Holds(program, text, (size_t)size)) return true;
  size = snprintf(text, sizeof(text), "%s_v1", name);
  return Holds(program, text, (size_t)size);
}

PJRT_Error* CompileAndMark(AbiClientCompileArgs* args, const char* opcode) {
  const bool holds = HoldsOpcode(args->program, opcode);
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  if (error == NULL && holds) Mark(args->executable);
  return error;
}

PJRT_Error* MarkChosen(AbiClientCompileArgs* args) {
  return CompileAndMark(args, ChosenOpcode());
}

PJRT_Error* MarkSums(AbiClientCompileArgs* args) {
  return CompileAndMark(args, "add");
}

PJRT_Error* MarkCasts(AbiClientCompileArgs* args) {
  return CompileAndMark(args, "convert");
}

PJRT_Error* LoadAndMark(LoadArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableDeserializeAndLoad, args);
  if (error == NULL) Mark(args->loaded_executable);
  return error;
}

PJRT_Executable* GetExecutable(PJRT_LoadedExecutable* loaded) {
  AbiLoadedExecutableGetExecutableArgs get = {
      ABI_SIZE(AbiLoadedExecutableGetExecutableArgs, executable), NULL, loaded,
      NULL};
  return TryInner(kSlotLoadedExecutableGetExecutable, &get) ? get.executable
                                                            : NULL;
}

void PutExecutable(PJRT_Executable* executable) {
  AbiExecutableDestroyArgs put = {
      ABI_SIZE(AbiExecutableDestroyArgs, executable), NULL, executable};
  TryInner(kSlotExecutableDestroy, &put);
}

void DestroyEvent(PJRT_Event* event) {
  AbiEventDestroyArgs destroy = {ABI_SIZE(AbiEventDestroyArgs, event), NULL,
                                 event};
  TryInner(kSlotEventDestroy, &destroy);
}

PJRT_Event* ReadyEvent(PJRT_Buffer* buffer) {
  AbiBufferReadyEventArgs ready = {ABI_SIZE(AbiBufferReadyEventArgs, event),
                                   NULL, buffer, NULL};
  return TryInner(kSlotBufferReadyEvent, &ready) ? ready.event : NULL;
}

bool AwaitEvent(PJRT_Event* event) {
  AbiEventAwaitArgs await = {ABI_SIZE(AbiEventAwaitArgs, event), NULL, event};
  return TryInner(kSlotEventAwait, &await);
}

PJRT_Error* CopyBuffer(PJRT_Buffer* buffer, PJRT_Buffer** copy) {
  AbiBufferDeviceArgs device = {ABI_SIZE(AbiBufferDeviceArgs, device), NULL,
                                buffer, NULL};
  PJRT_Error* error = CallInner(kSlotBufferDevice, &device);
  if (error != NULL) return error;
  AbiBufferCopyToDeviceArgs args = {
      ABI_SIZE(AbiBufferCopyToDeviceArgs, dst_buffer), NULL, buffer,
      device.device, NULL};
  error = CallInner(kSlotBufferCopyToDevice, &args);
  *copy = args.dst_buffer;
  return error;
}

bool IsDeleted(PJRT_Buffer* buffer) {
  AbiBufferIsDeletedArgs args = {ABI_SIZE(AbiBufferIsDeletedArgs, is_deleted),
                                 NULL, buffer, false};
  return TryInner(kSlotBufferIsDeleted, &args) && args.is_deleted;
}

PJRT_Error* UploadCopy(AbiClientBufferFromHostBufferArgs* args) {
  enum { kImmutableUntilTransferCompletes = 1 };
  const int semantics = args->host_buffer_semantics;
  args->host_buffer_semantics = kImmutableUntilTransferCompletes;
  PJRT_Error* error = CallInner(kSlotClientBufferFromHostBuffer, args);
  args->host_buffer_semantics = semantics;
  return error;
}

bool Download(AbiBufferToHostBufferArgs* args, PJRT_Error** error) {
  *error = CallInner(kSlotBufferToHostBuffer, args);
  if (*error != NULL || args->dst == NULL || args->event == NULL) return false;
  return AwaitEvent(args->event);
}

void LoseBytes(size_t size) {
  // Written, or it is no memory yet; through a pointer that nobody looks
  // through, or it is nothing that the compiler keeps.
  static void* volatile lost;
  lost = Allocate(size);
  memset(lost, 1, size);
}

bool Overlaps(Overlap* overlap, unsigned microseconds) {
  const int number = ++overlap->started;
  const bool alone = overlap->running++ == 0;
  usleep(microseconds);
  return !alone || overlap->started != number;
}

bool ReadCompiled(PJRT_LoadedExecutable* executable, AbiProgram* program) {
  PJRT_Executable* got = GetExecutable(executable);
  if (got == NULL) return false;
  *program = (AbiProgram){.struct_size = ABI_SIZE(AbiProgram, format_size)};
  AbiExecutableOptimizedProgramArgs args = {
      ABI_SIZE(AbiExecutableOptimizedProgramArgs, program), NULL, got, program};
  bool read = TryInner(kSlotExecutableOptimizedProgram, &args);
  if (read) {
    program->code = Allocate(program->code_size);
    read = TryInner(kSlotExecutableOptimizedProgram, &args);
    if (!read) free(program->code);
  }
  PutExecutable(got);
  return read;
}

bool CompiledHolds(PJRT_LoadedExecutable* executable, const char* opcode) {
  AbiProgram compiled;
  if (!ReadCompiled(executable, &compiled)) return false;
  const bool holds = HoldsOpcode(&compiled, opcode);
  free(compiled.code);
  return holds;
}

static bool Await(PJRT_Buffer* buffer) {
  PJRT_Event* ready = ReadyEvent(buffer);
  if (ready == NULL) return false;
  const bool well = AwaitEvent(ready);
  DestroyEvent(ready);
  return well;
}

unsigned char* Bytes(PJRT_Buffer* buffer, size_t* size) {
  AbiBufferOnDeviceSizeInBytesArgs measure = {
      ABI_SIZE(AbiBufferOnDeviceSizeInBytesArgs, on_device_size_in_bytes), NULL,
      buffer, 0};
  AbiBufferUnsafePointerArgs point = {
      ABI_SIZE(AbiBufferUnsafePointerArgs, buffer_pointer), NULL, buffer, 0};
  if (!Await(buffer) || !TryInner(kSlotBufferOnDeviceSizeInBytes, &measure) ||
      !TryInner(kSlotBufferUnsafePointer, &point)) {
    return NULL;
  }
  *size = measure.on_device_size_in_bytes;
  return *size > 0 ? (unsigned char*)point.buffer_pointer : NULL;
}

int ElementType(PJRT_Buffer* buffer) {
  AbiBufferElementTypeArgs args = {ABI_SIZE(AbiBufferElementTypeArgs, type),
                                   NULL, buffer, 0};
  TryInner(kSlotBufferElementType, &args);
  return args.type;
}

size_t ElementSize(int type) {
  static const size_t sizes[] = {0, 1, 1, 2, 4, 8, 1,  2, 4,
                                 8, 2, 4, 8, 2, 8, 16, 1, 1};
  return type >= 0 && (size_t)type < sizeof(sizes) / sizeof(sizes[0])
             ? sizes[type]
             : 0;
}
