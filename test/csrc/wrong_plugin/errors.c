// Errors of our own, and those that are told wrongly.

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/wrong_plugin.h"

typedef struct OwnError {
  struct OwnError* next;
  int code;
  char message[256];
} OwnError;

static OwnError* own_errors;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

PJRT_Error* Refuse(int code, const char* format, ...) {
  OwnError* error = Allocate(sizeof(*error));
  error->code = code;
  va_list args;
  va_start(args, format);
  vsnprintf(error->message, sizeof(error->message), format, args);
  va_end(args);
  pthread_mutex_lock(&mutex);
  error->next = own_errors;
  own_errors = error;
  pthread_mutex_unlock(&mutex);
  return (PJRT_Error*)error;
}

// The error if it is ours; takes it off the list if told so.
static OwnError* Own(const PJRT_Error* error, bool take) {
  pthread_mutex_lock(&mutex);
  OwnError** place = &own_errors;
  while (*place != NULL && *place != (const void*)error) {
    place = &(*place)->next;
  }
  OwnError* found = *place;
  if (found != NULL && take) *place = found->next;
  pthread_mutex_unlock(&mutex);
  return found;
}

void ErrorDestroy(AbiErrorDestroyArgs* args) {
  OwnError* own = Own(args->error, true);
  if (own == NULL) CallInnerVoid(kSlotErrorDestroy, args);
  free(own);
}

void ErrorMessage(AbiErrorMessageArgs* args) {
  const OwnError* own = Own(args->error, false);
  if (own == NULL) {
    CallInnerVoid(kSlotErrorMessage, args);
    return;
  }
  args->message = own->message;
  args->message_size = strlen(own->message);
}

PJRT_Error* ErrorGetCode(AbiErrorGetCodeArgs* args) {
  const OwnError* own = Own(args->error, false);
  if (own == NULL) return CallInner(kSlotErrorGetCode, args);
  args->code = own->code;
  return NULL;
}

PJRT_Error* ErrorForEachPayload(AbiErrorForEachPayloadArgs* args) {
  if (Own(args->error, false) != NULL) return NULL;
  return CallInner(kSlotErrorForEachPayload, args);
}

int CodeOf(const PJRT_Error* error) {
  AbiErrorGetCodeArgs args = {ABI_SIZE(AbiErrorGetCodeArgs, code), NULL, error,
                              kAbiUnknown};
  ErrorGetCode(&args);
  return args.code;
}

void FreeError(PJRT_Error* error) {
  AbiErrorDestroyArgs args = {ABI_SIZE(AbiErrorDestroyArgs, error), NULL,
                              error};
  ErrorDestroy(&args);
}

// Faults.

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
  AbiEventDestroyArgs destroy = {ABI_SIZE(AbiEventDestroyArgs, event), NULL,
                                 send.done};
  TryInner(kSlotEventDestroy, &destroy);
  return NULL;
}

const Fault kErrorFaults[] = {
    {.name = "error-without-text",
     .what = "the message of every error is empty",
     .overrides = {SPOILS(ErrorMessage, NoText)}},
    {.name = "error-code-ok",
     .what = "the code of every error is 0, OK",
     .overrides = {SPOILS(ErrorGetCode, CodeOk)}},
    {.name = "error-code-unknown",
     .what = "the code of every error is 2, UNKNOWN",
     .overrides = {SPOILS(ErrorGetCode, CodeUnknown)}},
    {.name = "async-error-lost",
     .what = "errors that events bring are dropped: the event is simply ready",
     .overrides = {SPOILS(EventError, EventError),
                   SPOILS(EventAwait, EventAwait),
                   SPOILS(EventOnReady, EventOnReady)}},
    {.name = "failed-input-is-zeros",
     .what = "a buffer whose transfer has failed holds zeros",
     .overrides = {SPOILS(AsyncHostToDeviceTransferManagerSetBufferError,
                          SendsZeros)}},
    {.name = NULL},
};
