// Faults of errors: they are told wrongly.

#include <stdint.h>
#include <stdlib.h>

#include "test/csrc/wrong_plugin/notes.h"

static void NoText(AbiErrorMessageArgs* args) {
  args->message = "";
  args->message_size = 0;
}

static PJRT_Error* CodeOk(AbiErrorGetCodeArgs* args) {
  args->code = kAbiOk;
  return NULL;
}

static PJRT_Error* CodeUnknown(AbiErrorGetCodeArgs* args) {
  args->code = kAbiUnknown;
  return NULL;
}

// Errors that come later, by events.

static PJRT_Error* EventWithoutError(int slot, void* args) {
  PJRT_Error* error = CallInner(slot, args);
  if (error != NULL) FreeError(error);
  return NULL;
}

static PJRT_Error* EventError(AbiEventErrorArgs* args) {
  return EventWithoutError(kSlotEventError, args);
}

static PJRT_Error* EventAwait(AbiEventAwaitArgs* args) {
  return EventWithoutError(kSlotEventAwait, args);
}

typedef struct {
  void (*callback)(PJRT_Error* error, void* user_arg);
  void* user_arg;
} Callback;

static void CallWithoutError(PJRT_Error* error, void* user_arg) {
  Callback* callback = user_arg;
  if (error != NULL) FreeError(error);
  callback->callback(NULL, callback->user_arg);
  free(callback);
}

static PJRT_Error* EventOnReady(AbiEventOnReadyArgs* args) {
  Callback* callback = Allocate(sizeof(*callback));
  *callback = (Callback){args->callback, args->user_arg};
  AbiEventOnReadyArgs changed = *args;
  changed.callback = CallWithoutError;
  changed.user_arg = callback;
  PJRT_Error* error = CallInner(kSlotEventOnReady, &changed);
  if (error != NULL) free(callback);
  return error;
}

// An input that never comes: PJRT's arguments for giving up and for sending.

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* manager;
  int buffer_index;
  int code;
  const char* message;
  size_t message_size;
} SetErrorArgs;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* manager;
  int buffer_index;
  const void* data;
  int64_t offset;
  int64_t size;
  bool is_last;
  PJRT_Event* done;  // out
} SendArgs;

// What the suite's failed buffer holds.
enum { kSent = 8 * sizeof(float) };

static PJRT_Error* SendsZeros(SetErrorArgs* args) {
  static const char zeros[kSent];
  SendArgs send = {.struct_size = ABI_SIZE(SendArgs, done),
                   .manager = args->manager,
                   .buffer_index = args->buffer_index,
                   .data = zeros,
                   .size = kSent,
                   .is_last = true};
  PJRT_Error* error =
      CallInner(kSlotAsyncHostToDeviceTransferManagerTransferData, &send);
  if (error != NULL) return error;
  DestroyEvent(send.done);
  return NULL;
}

const Fault kErrorFaults[] = {
    FAULT("error-without-text", "the message of every error is empty",
          {SPOILS(ErrorMessage, NoText)}),
    FAULT("error-code-ok", "the code of every error is 0, OK",
          {SPOILS(ErrorGetCode, CodeOk)}),
    FAULT("error-code-unknown", "the code of every error is 2, UNKNOWN",
          {SPOILS(ErrorGetCode, CodeUnknown)}),
    FAULT("async-error-lost",
          "errors that events bring are dropped: the event is simply ready",
          {SPOILS(EventError, EventError), SPOILS(EventAwait, EventAwait),
           SPOILS(EventOnReady, EventOnReady)}),
    FAULT("failed-input-is-zeros",
          "a buffer whose transfer has failed holds zeros",
          {SPOILS(AsyncHostToDeviceTransferManagerSetBufferError, SendsZeros)}),
    {.name = NULL},
};
