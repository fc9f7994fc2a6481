// How entries begin, in which world, and calls of the inner plugin.

#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

// More than any argument struct of our day. Zeroes mean "not set".
enum { kRoom = 512 };

// Every argument struct begins so, if it has an object.
typedef struct {
  size_t struct_size;
  void* extension_start;
  void* object;
} AnyArgs;

// Set once, and never changed or freed.
static const AotWorld* _Atomic opened_world = NULL;

const AotWorld* AotGetWorld(void) {
  return atomic_load_explicit(&opened_world, memory_order_acquire);
}

void AotSetWorld(const AotWorld* world) {
  atomic_store_explicit(&opened_world, world, memory_order_release);
}

PJRT_Error* AotEnter(int slot, size_t struct_size, size_t needed) {
  if (AotGetWorld() == NULL) {
    return ShardyError(kAbiFailedPrecondition,
                       "%s: no topology is open; call PjrtAot_Open first",
                       ShardySlotName(slot));
  }
  return struct_size < needed ? ShardyTooShort(slot, struct_size, needed)
                              : NULL;
}

PJRT_Error* AotNull(int slot) {
  return ShardyError(kAbiInvalidArgument, "%s: its object is NULL",
                     ShardySlotName(slot));
}

PJRT_Error* AotCallInner(int slot, void* args, size_t size) {
  if (size > kRoom) return ShardyInnerCall(slot, args);
  _Alignas(max_align_t) char room[kRoom] = {0};
  const size_t struct_size = ((AnyArgs*)args)->struct_size;
  memcpy(room, args, size);
  ((AnyArgs*)room)->struct_size = kRoom;
  PJRT_Error* error = ShardyInnerCall(slot, room);
  memcpy(args, room, size);
  ((AnyArgs*)args)->struct_size = struct_size;
  return error;
}

PJRT_Error* AotForward(int slot, void* args) {
  const size_t size = ((AnyArgs*)args)->struct_size;
  PJRT_Error* error = AotEnter(slot, size, ABI_SIZE(AnyArgs, object));
  return error != NULL ? error : AotCallInner(slot, args, size);
}

PJRT_Error* AotForwardExecutable(int slot, void* args) {
  AnyArgs* any = args;
  PJRT_Error* error = AotEnter(slot, any->struct_size, sizeof(*any));
  if (error != NULL) return error;
  PJRT_Executable* executable = any->object;
  if (executable == NULL) return AotNull(slot);
  any->object = executable->inner;
  error = AotCallInner(slot, args, any->struct_size);
  any->object = executable;
  return error;
}

int AotGiveReason(PJRT_Error* error, const char* about, char* message,
                  size_t message_size) {
  AbiErrorMessageArgs text = {sizeof(text), NULL, error, "", 0};
  ShardyErrorMessage(&text);
  const int code = ShardyErrorCode(error);
  ShardyFailOpen(message, message_size, code, "%s%s%.*s",
                 about != NULL ? about : "", about != NULL ? ": " : "",
                 (int)text.message_size, text.message);
  ShardyFreeError(error);
  return code;
}
