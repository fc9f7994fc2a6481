// Faults of events: one is ready too early, or its callbacks are not as they
// should be. Those that come too early are one in N, N behind the fault's name.

#include <stdatomic.h>
#include <stdlib.h>

#include "test/csrc/wrong_plugin/notes.h"

enum { kOneIn = 50 };

static bool IsChosen(void) {
  static atomic_int count;
  return ++count % (int)ChosenNumber(kOneIn) == 0;
}

static void AddIfChosen(const PJRT_Event* event) {
  if (event != NULL && IsChosen()) Mark(event);
}

// Events that are ready from the beginning.

static PJRT_Error* Await(AbiEventAwaitArgs* args) {
  if (Marked(args->event)) return NULL;
  return CallInner(kSlotEventAwait, args);
}

static PJRT_Error* IsReady(AbiEventIsReadyArgs* args) {
  PJRT_Error* error = CallInner(kSlotEventIsReady, args);
  args->is_ready = args->is_ready || Marked(args->event);
  return error;
}

static PJRT_Error* OnReady(AbiEventOnReadyArgs* args) {
  if (!Marked(args->event)) return CallInner(kSlotEventOnReady, args);
  args->callback(NULL, args->user_arg);
  return NULL;
}

static PJRT_Error* Execute(AbiLoadedExecutableExecuteArgs* args) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  PJRT_Event** events = args->device_complete_events;
  for (size_t d = 0; error == NULL && events && d < args->num_devices; ++d) {
    AddIfChosen(events[d]);
  }
  return error;
}

static PJRT_Error* EarlyBuffer(AbiBufferReadyEventArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferReadyEvent, args);
  if (error == NULL) AddIfChosen(args->event);
  return error;
}

static PJRT_Error* ToHost(AbiBufferToHostBufferArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferToHostBuffer, args);
  if (error == NULL && args->dst != NULL) AddIfChosen(args->event);
  return error;
}

static PJRT_Error* FromHost(AbiClientBufferFromHostBufferArgs* args) {
  PJRT_Error* error = CallInner(kSlotClientBufferFromHostBuffer, args);
  if (error == NULL) AddIfChosen(args->done_with_host_buffer);
  return error;
}

static PJRT_Error* AwaitNot(AbiEventAwaitArgs* args) {
  return IsChosen() ? NULL : CallInner(kSlotEventAwait, args);
}

static PJRT_Error* IsReadyAlready(AbiEventIsReadyArgs* args) {
  PJRT_Error* error = CallInner(kSlotEventIsReady, args);
  args->is_ready = args->is_ready || IsChosen();
  return error;
}

static PJRT_Error* OnReadyAlready(AbiEventOnReadyArgs* args) {
  if (!IsChosen()) return CallInner(kSlotEventOnReady, args);
  args->callback(NULL, args->user_arg);
  return NULL;
}

// Callbacks.

static bool InnerIsReady(PJRT_Event* event) {
  AbiEventIsReadyArgs args = {ABI_SIZE(AbiEventIsReadyArgs, is_ready), NULL,
                              event, false};
  return TryInner(kSlotEventIsReady, &args) && args.is_ready;
}

static PJRT_Error* Lost(AbiEventOnReadyArgs* args) {
  return IsChosen() ? NULL : CallInner(kSlotEventOnReady, args);
}

static PJRT_Error* LostIfReady(AbiEventOnReadyArgs* args) {
  return InnerIsReady(args->event) ? NULL : CallInner(kSlotEventOnReady, args);
}

static PJRT_Error* LostIfWaiting(AbiEventOnReadyArgs* args) {
  return InnerIsReady(args->event) ? CallInner(kSlotEventOnReady, args) : NULL;
}

static PJRT_Error* SecondIsLost(AbiEventOnReadyArgs* args) {
  if (Marked(args->event)) return NULL;
  Mark(args->event);
  return CallInner(kSlotEventOnReady, args);
}

static PJRT_Error* LostIfNoted(AbiEventOnReadyArgs* args) {
  if (Marked(args->event)) return NULL;
  return CallInner(kSlotEventOnReady, args);
}

static void CallTwice(PJRT_Error* error, void* user_arg) {
  AbiEventOnReadyArgs* args = user_arg;
  args->callback(error, args->user_arg);
  args->callback(NULL, args->user_arg);
  free(args);
}

static PJRT_Error* Twice(AbiEventOnReadyArgs* args) {
  if (!IsChosen()) return CallInner(kSlotEventOnReady, args);
  AbiEventOnReadyArgs changed = *args;
  changed.callback = CallTwice;
  changed.user_arg = Duplicate(args, sizeof(*args));
  return CallInner(kSlotEventOnReady, &changed);
}

static void CallWithoutError(PJRT_Error* error, void* user_arg) {
  AbiEventOnReadyArgs* args = user_arg;
  if (error != NULL) FreeError(error);
  args->callback(NULL, args->user_arg);
  free(args);
}

static PJRT_Error* WithoutError(AbiEventOnReadyArgs* args) {
  AbiEventOnReadyArgs changed = *args;
  changed.callback = CallWithoutError;
  changed.user_arg = Duplicate(args, sizeof(*args));
  return CallInner(kSlotEventOnReady, &changed);
}

#define EARLY(slot, function)                                    \
  {SPOILS(slot, function), SPOILS(EventAwait, Await),            \
   SPOILS(EventIsReady, IsReady), SPOILS(EventOnReady, OnReady), \
   SPOILS(EventDestroy, ForgetEvent)}
#define CALLBACKS(function) \
  {SPOILS(EventOnReady, function), SPOILS(EventDestroy, ForgetEvent)}

const Fault kEventFaults[] = {
    FAULT("early-execution",
          "one in 50 completion events of executions is always ready",
          EARLY(LoadedExecutableExecute, Execute)),
    FAULT("early-buffer",
          "one in 50 events of PJRT_Buffer_ReadyEvent is always ready",
          EARLY(BufferReadyEvent, EarlyBuffer)),
    FAULT("early-read",
          "one in 50 events of PJRT_Buffer_ToHostBuffer is always ready",
          EARLY(BufferToHostBuffer, ToHost)),
    FAULT("early-done",
          "one in 50 events of done_with_host_buffer is always ready",
          EARLY(ClientBufferFromHostBuffer, FromHost)),
    FAULT("early-await", "one in 50 calls of PJRT_Event_Await does not wait",
          {SPOILS(EventAwait, AwaitNot)}),
    FAULT("early-is-ready",
          "one in 50 calls of PJRT_Event_IsReady says that it is",
          {SPOILS(EventIsReady, IsReadyAlready)}),
    FAULT("early-callback", "one in 50 callbacks is called at once",
          {SPOILS(EventOnReady, OnReadyAlready)}),
    FAULT("callback-lost", "one in 50 callbacks is never called",
          CALLBACKS(Lost)),
    FAULT("callback-lost-if-ready",
          "a callback of an event that is ready is never called",
          CALLBACKS(LostIfReady)),
    FAULT("callback-lost-if-waiting",
          "a callback of an event that is not ready is never called",
          CALLBACKS(LostIfWaiting)),
    FAULT("callback-lost-of-second",
          "of several callbacks of an event the first alone is called",
          CALLBACKS(SecondIsLost)),
    FAULT(
        "callback-lost-of-reads",
        "callbacks of one in 50 reads are never called",
        {SPOILS(BufferToHostBuffer, ToHost), SPOILS(EventOnReady, LostIfNoted),
         SPOILS(EventDestroy, ForgetEvent)}),
    FAULT("callback-twice", "one in 50 callbacks is called twice",
          CALLBACKS(Twice)),
    FAULT("callback-without-error", "no callback gets the error of its event",
          CALLBACKS(WithoutError)),
    {.name = NULL},
};
