#include "test/csrc/wrong_plugin/notes.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool ReadCompiled(PJRT_LoadedExecutable* executable, AbiProgram* program) {
  AbiLoadedExecutableGetExecutableArgs get = {
      ABI_SIZE(AbiLoadedExecutableGetExecutableArgs, executable), NULL,
      executable, NULL};
  if (!TryInner(kSlotLoadedExecutableGetExecutable, &get)) return false;
  *program = (AbiProgram){.struct_size = ABI_SIZE(AbiProgram, format_size)};
  AbiExecutableOptimizedProgramArgs args = {
      ABI_SIZE(AbiExecutableOptimizedProgramArgs, program), NULL,
      get.executable, program};
  bool read = TryInner(kSlotExecutableOptimizedProgram, &args);
  if (read) {
    program->code = Allocate(program->code_size);
    read = TryInner(kSlotExecutableOptimizedProgram, &args);
    if (!read) free(program->code);
  }
  AbiExecutableDestroyArgs put = {
      ABI_SIZE(AbiExecutableDestroyArgs, executable), NULL, get.executable};
  TryInner(kSlotExecutableDestroy, &put);
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
  AbiBufferReadyEventArgs ready = {ABI_SIZE(AbiBufferReadyEventArgs, event),
                                   NULL, buffer, NULL};
  if (!TryInner(kSlotBufferReadyEvent, &ready)) return false;
  AbiEventAwaitArgs await = {ABI_SIZE(AbiEventAwaitArgs, event), NULL,
                             ready.event};
  const bool well = TryInner(kSlotEventAwait, &await);
  AbiEventDestroyArgs destroy = {ABI_SIZE(AbiEventDestroyArgs, event), NULL,
                                 ready.event};
  TryInner(kSlotEventDestroy, &destroy);
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
  static const size_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 2,
                                 4, 8, 2, 4, 8, 2, 8, 16};
  return type >= 0 && (size_t)type < sizeof(sizes) / sizeof(sizes[0])
             ? sizes[type]
             : 0;
}
