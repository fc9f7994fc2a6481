// What is noted of loaded executables, and of programs as they come.

#ifndef TEST_CSRC_WRONG_PLUGIN_NOTES_H_
#define TEST_CSRC_WRONG_PLUGIN_NOTES_H_

#include <stdbool.h>

#include "test/csrc/wrong_plugin/wrong_plugin.h"

// A mark on an object; on an executable, until it is destroyed.
void Mark(const void* object);
bool Marked(const void* object);
void Forget(const void* object);
// Destroy an object, and forget its mark.
PJRT_Error* ForgetEvent(AbiEventDestroyArgs* args);
PJRT_Error* ForgetBuffer(AbiBufferDestroyArgs* args);

// True if a program, of any format, holds an instruction of that HLO opcode:
// "all-reduce" is that in HLO, "all_reduce" in StableHLO.
bool HoldsOpcode(const AbiProgram* program, const char* opcode);
// The same of what the real plugin made of a program.
bool CompiledHolds(PJRT_LoadedExecutable* executable, const char* opcode);

// What the real plugin tells of a compiled program. False if it does not; else
// `code` is for the caller to free.
bool ReadCompiled(PJRT_LoadedExecutable* executable, AbiProgram* program);

// Compiles, and marks the executable of a program that holds the opcode.
PJRT_Error* CompileAndMark(AbiClientCompileArgs* args, const char* opcode);
// The same with that of the file's name, with a sum's and with a cast's.
PJRT_Error* MarkChosen(AbiClientCompileArgs* args);
PJRT_Error* MarkSums(AbiClientCompileArgs* args);
PJRT_Error* MarkCasts(AbiClientCompileArgs* args);
// Loads, and marks the executable.
PJRT_Error* LoadAndMark(LoadArgs* args);

// The executable of one that is loaded, which PutExecutable destroys; NULL if
// there is none.
PJRT_Executable* GetExecutable(PJRT_LoadedExecutable* loaded);
void PutExecutable(PJRT_Executable* executable);

void DestroyEvent(PJRT_Event* event);
// Where a buffer's values are ready; NULL: there is none.
PJRT_Event* ReadyEvent(PJRT_Buffer* buffer);
// False if what it is of has failed.
bool AwaitEvent(PJRT_Event* event);
// A copy on the buffer's own device.
PJRT_Error* CopyBuffer(PJRT_Buffer* buffer, PJRT_Buffer** copy);
bool IsDeleted(PJRT_Buffer* buffer);
// Uploads into memory of the device's own, which may be spoiled.
PJRT_Error* UploadCopy(AbiClientBufferFromHostBufferArgs* args);
// True once the bytes have come; the caller still has the event.
bool Download(AbiBufferToHostBufferArgs* args, PJRT_Error** error);

// Takes memory that nobody has.
void LoseBytes(size_t size);

// Calls that others overlap.
typedef struct {
  _Atomic int running;
  _Atomic int started;
} Overlap;

// Begins a call, and waits for others; true if one was in there in that time.
bool Overlaps(Overlap* overlap, unsigned microseconds);

// Waits until a buffer holds its values, and gives its bytes, in place; NULL if
// it has none. Those of XLA's CPU plugin are in this process's memory.
unsigned char* Bytes(PJRT_Buffer* buffer, size_t* size);
int ElementType(PJRT_Buffer* buffer);
// Of elements of this type; 0 of those that are not whole bytes.
size_t ElementSize(int type);

// PJRT's element types.
enum {
  kTypePred = 1,
  kTypeS8 = 2,
  kTypeS16 = 3,
  kTypeS32 = 4,
  kTypeS64 = 5,
  kTypeU8 = 6,
  kTypeU16 = 7,
  kTypeU32 = 8,
  kTypeU64 = 9,
  kTypeF16 = 10,
  kTypeF32 = 11,
  kTypeF64 = 12,
  kTypeBf16 = 13,
  kTypeC64 = 14,
  kTypeC128 = 15,
};

#endif  // TEST_CSRC_WRONG_PLUGIN_NOTES_H_
