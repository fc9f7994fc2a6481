// Faults of collectives: they go over other groups of devices than those of the
// program. What the real plugin has compiled is serialized, changed where its
// groups stand, and loaded in the place of the program.

#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/notes.h"

enum { kMaxDevices = 64, kGroupField = 0x22, kIdsField = 0x0a, kHeader = 4 };

typedef struct {
  unsigned char* ids[kMaxDevices];  // where each stands, in order
  size_t count;
  size_t groups;
} Groups;

// The groups that begin at `at`, one message after the other: each a field of
// its own with one packed list of ids below 128.
static Groups GroupsAt(unsigned char* at, const unsigned char* end) {
  Groups groups = {.count = 0};
  while (end - at > kHeader && at[0] == kGroupField && at[2] == kIdsField &&
         at[1] == at[3] + 2 && at[3] > 0 && end - at - kHeader >= at[3] &&
         groups.count + at[3] <= kMaxDevices) {
    for (int i = 0; i < at[3]; ++i) groups.ids[groups.count++] = at + 4 + i;
    ++groups.groups;
    at += kHeader + at[3];
  }
  return groups;
}

// True if the ids are 0, 1, 2, ... in any order, in several groups of several.
static bool ArePlausible(const Groups* groups) {
  bool seen[kMaxDevices] = {false};
  for (size_t i = 0; i < groups->count; ++i) {
    const unsigned char id = *groups->ids[i];
    if (id >= groups->count || seen[id]) return false;
    seen[id] = true;
  }
  return groups->groups > 1 && groups->count > groups->groups;
}

static void ChangeGroups(char* bytes, size_t size,
                         void (*change)(const Groups* groups)) {
  unsigned char* const end = (unsigned char*)bytes + size;
  for (unsigned char* at = (unsigned char*)bytes; at < end; ++at) {
    const Groups groups = GroupsAt(at, end);
    if (!ArePlausible(&groups)) continue;
    change(&groups);
    at = groups.ids[groups.count - 1];
  }
}

static void NextDevice(const Groups* groups) {
  for (size_t i = 0; i < groups->count; ++i) {
    *groups->ids[i] = (unsigned char)((*groups->ids[i] + 1) % groups->count);
  }
}

static void SwapFirst(const Groups* groups) {
  unsigned char* first = groups->ids[0];
  unsigned char* second = groups->ids[groups->count / groups->groups];
  const unsigned char id = *first;
  *first = *second;
  *second = id;
}

static PJRT_Error* Destroy(PJRT_LoadedExecutable* executable) {
  AbiLoadedExecutableDestroyArgs args = {
      ABI_SIZE(AbiLoadedExecutableDestroyArgs, executable), NULL, executable};
  return CallInner(kSlotLoadedExecutableDestroy, &args);
}

static PJRT_Error* CompileChanged(AbiClientCompileArgs* args,
                                  void (*change)(const Groups* groups)) {
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  if (error != NULL || !CompiledHolds(args->executable, ChosenOpcode())) {
    return error;
  }
  PJRT_Executable* executable = GetExecutable(args->executable);
  if (executable == NULL) abort();
  AbiExecutableSerializeArgs serialize = {
      .struct_size =
          ABI_SIZE(AbiExecutableSerializeArgs, serialized_executable_deleter),
      .executable = executable};
  error = CallInner(kSlotExecutableSerialize, &serialize);
  if (error != NULL) return error;
  char* bytes =
      Duplicate(serialize.serialized_bytes, serialize.serialized_bytes_size);
  ChangeGroups(bytes, serialize.serialized_bytes_size, change);
  AbiExecutableDeserializeAndLoadArgs load = {
      .struct_size = ABI_SIZE(AbiExecutableDeserializeAndLoadArgs,
                              overridden_serialized_compile_options_size),
      .client = args->client,
      .serialized_executable = bytes,
      .serialized_executable_size = serialize.serialized_bytes_size};
  error = CallInner(kSlotExecutableDeserializeAndLoad, &load);
  serialize.serialized_executable_deleter(serialize.serialized_executable);
  free(bytes);
  PutExecutable(executable);
  if (error != NULL) return error;
  error = Destroy(args->executable);
  args->executable = load.loaded_executable;
  return error;
}

static PJRT_Error* GroupsOffByOne(AbiClientCompileArgs* args) {
  return CompileChanged(args, NextDevice);
}

static PJRT_Error* GroupsSwapped(AbiClientCompileArgs* args) {
  return CompileChanged(args, SwapFirst);
}

const Fault kGroupFaults[] = {
    FAULT("groups-off-by-one",
          "where a compiled program with the opcode has several groups of "
          "devices, each device's place is the next one's: {0,1},{2,3} is "
          "{1,2},{3,0}",
          COMPILES(GroupsOffByOne)),
    FAULT("groups-swapped",
          "the same; the first devices of the first two groups are swapped",
          COMPILES(GroupsSwapped)),
    {.name = NULL},
};
