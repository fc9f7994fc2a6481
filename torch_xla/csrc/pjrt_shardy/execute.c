// PJRT_LoadedExecutable_Execute: the options struct grew over the years, and a
// plugin may refuse one that is shorter than its own. This is the hot path: no
// allocation, and no copy where both sides agree.

#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// Offered to plugins newer than all we know: zeroes mean "not set".
enum { kFutureOptionsSize = 256 };
// Larger argument structs, which no version has yet, are copied on the heap.
enum { kStackArgsSize = 256 };

// The size of the options struct that a plugin of this version declares.
static size_t OptionsSize(int minor_version) {
  if (minor_version > kAbiKnownMinor) return kFutureOptionsSize;
  if (minor_version >= 97) {
    return ABI_SIZE(AbiExecuteOptions, multi_slice_config);
  }
  if (minor_version >= 78) return ABI_SIZE(AbiExecuteOptions, incarnation_ids);
  if (minor_version >= 76) return ABI_SIZE(AbiExecuteOptions, call_location);
  if (minor_version >= 64) return ABI_SIZE(AbiExecuteOptions, context);
  return ABI_SIZE(AbiExecuteOptions, num_non_donatable_input_indices);
}

// Whether a set byte at `offset` changes what the execution means. The call
// location is a hint for debugging; ids without a count are no ids.
static bool Matters(const AbiExecuteOptions* options, size_t offset) {
  if (offset < offsetof(AbiExecuteOptions, call_location)) return true;
  if (offset < offsetof(AbiExecuteOptions, num_tasks)) return false;
  if (offset < offsetof(AbiExecuteOptions, multi_slice_config)) {
    return ABI_HOLDS(AbiExecuteOptions, num_tasks, options->struct_size) &&
           options->num_tasks != 0;
  }
  return true;
}

// Refuses to cut off what the caller set and the plugin does not know.
static PJRT_Error* CheckDropped(const AbiExecuteOptions* options, size_t kept) {
  const unsigned char* bytes = (const unsigned char*)options;
  for (size_t i = kept; i < options->struct_size; ++i) {
    if (bytes[i] == 0 || !Matters(options, i)) continue;
    return ShardyError(kAbiUnimplemented,
                       "PJRT_LoadedExecutable_Execute: byte %zu of the options "
                       "is set, which the inner plugin (PJRT API %d.%d) does "
                       "not know; leave it unset or use a newer plugin",
                       i, ShardyInnerTable()->version.major_version,
                       ShardyInnerTable()->version.minor_version);
  }
  return NULL;
}

// Calls the plugin with a copy of `args` that has other options. What the
// plugin writes into the copy goes back to the caller.
static PJRT_Error* ExecuteWith(AbiLoadedExecutableExecuteArgs* args,
                               AbiExecuteOptions* options) {
  _Alignas(AbiLoadedExecutableExecuteArgs) char stack[kStackArgsSize];
  const size_t size = args->struct_size;
  AbiLoadedExecutableExecuteArgs* copy = (AbiLoadedExecutableExecuteArgs*)stack;
  if (size > sizeof(stack)) copy = malloc(size);
  if (copy == NULL) {
    return ShardyError(kAbiResourceExhausted,
                       "PJRT_LoadedExecutable_Execute: no memory for an "
                       "argument struct of %zu bytes",
                       size);
  }
  AbiExecuteOptions* callers_options = args->options;
  memcpy(copy, args, size);
  copy->options = options;
  PJRT_Error* error = ShardyInnerCall(kSlotLoadedExecutableExecute, copy);
  copy->options = callers_options;
  memcpy(args, copy, size);
  if (copy != (AbiLoadedExecutableExecuteArgs*)stack) free(copy);
  return error;
}

// Executes with options of the size that the inner plugin's version declares:
// a shorter struct is padded with zeroes, a longer one cut unless that would
// lose a setting. Errors are the plugin's own but for those cases.
PJRT_Error* ShardyLoadedExecutableExecute(
    AbiLoadedExecutableExecuteArgs* args) {
  if (!ABI_HOLDS(AbiLoadedExecutableExecuteArgs, options, args->struct_size)) {
    return ShardyTooShort(kSlotLoadedExecutableExecute, args->struct_size,
                          ABI_SIZE(AbiLoadedExecutableExecuteArgs, options));
  }
  const AbiExecuteOptions* options = args->options;
  const size_t wanted = OptionsSize(ShardyInnerTable()->version.minor_version);
  const bool future = wanted == kFutureOptionsSize;
  if (options == NULL || options->struct_size == wanted ||
      (future && options->struct_size > wanted)) {
    return ShardyInnerCall(kSlotLoadedExecutableExecute, args);
  }
  if (!ABI_HOLDS(AbiExecuteOptions, extension_start, options->struct_size)) {
    return ShardyError(kAbiInvalidArgument,
                       "PJRT_LoadedExecutable_Execute: an options struct of "
                       "%zu bytes is none; set its struct_size",
                       options->struct_size);
  }
  size_t kept = options->struct_size;
  if (kept > wanted) {
    PJRT_Error* error = CheckDropped(options, wanted);
    if (error != NULL) return error;
    kept = wanted;
  }
  _Alignas(AbiExecuteOptions) char copy[kFutureOptionsSize] = {0};
  memcpy(copy, options, kept);
  ((AbiExecuteOptions*)copy)->struct_size = wanted;
  return ExecuteWith(args, (AbiExecuteOptions*)copy);
}
