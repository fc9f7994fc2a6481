// Events: nothing takes time here. One is ready; another is that of a buffer
// which was deleted before anybody asked when it would be.

#include "torch_xla/csrc/pjrt_aot/internal.h"

struct PJRT_Event {
  bool failed;
};

static PJRT_Event ready = {false};
static PJRT_Event deleted = {true};

PJRT_Event* AotReadyEvent(void) { return &ready; }

PJRT_Event* AotDeletedEvent(void) { return &deleted; }

// A new error for each who asks.
static PJRT_Error* StateOf(const PJRT_Event* event) {
  if (!event->failed) return NULL;
  return ShardyError(kAbiFailedPrecondition,
                     "the buffer was donated or deleted");
}

PJRT_Error* AotEventDestroy(AbiEventDestroyArgs* args) {
  AOT_ENTER(Event, Destroy, event);
  return NULL;
}

AOT_ANSWER(Event, IsReady, event, is_ready, args->is_ready = true)

PJRT_Error* AotEventError(AbiEventErrorArgs* args) {
  AOT_ENTER_WITH(Event, Error, event, event);
  return StateOf(args->event);
}

PJRT_Error* AotEventAwait(AbiEventAwaitArgs* args) {
  AOT_ENTER_WITH(Event, Await, event, event);
  return StateOf(args->event);
}

PJRT_Error* AotEventOnReady(AbiEventOnReadyArgs* args) {
  AOT_ENTER_WITH(Event, OnReady, event, user_arg);
  if (args->callback == NULL) {
    return ShardyError(kAbiInvalidArgument,
                       "PJRT_Event_OnReady: no callback was given");
  }
  // It owns the error.
  args->callback(StateOf(args->event), args->user_arg);
  return NULL;
}
