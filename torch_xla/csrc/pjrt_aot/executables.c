// PJRT_Executable_* and PJRT_LoadedExecutable_*, but for compiling and
// executing.

#include <stdlib.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

PJRT_Error* AotExecutableDestroy(AbiExecutableDestroyArgs* args) {
  AOT_ENTER(Executable, Destroy, executable);
  if (args->executable != NULL) AotReleaseExecutable(args->executable);
  return NULL;
}

PJRT_Error* AotLoadedExecutableDestroy(AbiLoadedExecutableDestroyArgs* args) {
  AOT_ENTER(LoadedExecutable, Destroy, executable);
  if (args->executable == NULL) return NULL;
  AotReleaseExecutable(args->executable->executable);
  free(args->executable);
  return NULL;
}

AOT_ANSWER(LoadedExecutable, GetExecutable, loaded_executable, executable,
           args->executable = args->loaded_executable->executable,
           atomic_fetch_add(&args->executable->references, 1))

AOT_ANSWER(LoadedExecutable, AddressableDevices, executable,
           num_addressable_devices,
           args->addressable_devices = AotGetWorld()->local,
           args->num_addressable_devices = AotGetWorld()->num_local)

AOT_ANSWER(LoadedExecutable, Delete, executable, executable,
           atomic_store(&args->executable->deleted, true))

AOT_ANSWER(LoadedExecutable, IsDeleted, executable, is_deleted,
           args->is_deleted = atomic_load(&args->executable->deleted))

static PJRT_Error* NotKept(const char* function) {
  return ShardyError(
      kAbiUnimplemented,
      "%s: programs that were compiled ahead of time are not kept for later; "
      "compile again, and switch the compilation cache off",
      function);
}

PJRT_Error* AotExecutableSerialize(AbiExecutableSerializeArgs* args) {
  AOT_ENTER(Executable, Serialize, executable);
  return NotKept("PJRT_Executable_Serialize");
}

PJRT_Error* AotExecutableDeserializeAndLoad(
    AbiExecutableDeserializeAndLoadArgs* args) {
  AOT_ENTER(Executable, DeserializeAndLoad, loaded_executable);
  return NotKept("PJRT_Executable_DeserializeAndLoad");
}
