// Errors of our own, beside the inner plugin's.
//
// A PJRT_Error is opaque, and the framework passes both kinds to the same
// functions. Ours are kept in a list and recognised by address, so that an
// error of the inner plugin is never dereferenced here, nor ours there.

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/inner.h"

typedef struct OwnError {
  struct OwnError* next;
  int code;
  size_t message_size;
  const char* message;  // in the same allocation
} OwnError;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static OwnError* own_errors = NULL;

// Handed out when there is no memory for an error: NULL would mean success.
#define OUT_OF_MEMORY "out of memory"
static const OwnError out_of_memory = {
    NULL, kAbiResourceExhausted, sizeof(OUT_OF_MEMORY) - 1, OUT_OF_MEMORY};

// The caller must hold the mutex.
static OwnError** FindLocked(const PJRT_Error* error) {
  OwnError** link = &own_errors;
  while (*link != NULL && *link != (const void*)error) link = &(*link)->next;
  return link;
}

// The error if it is ours. It stays valid until the framework destroys it.
static const OwnError* Find(const PJRT_Error* error) {
  if (error == (const void*)&out_of_memory) return &out_of_memory;
  pthread_mutex_lock(&mutex);
  const OwnError* found = *FindLocked(error);
  pthread_mutex_unlock(&mutex);
  return found;
}

// An error with `size` bytes of message for the caller to write through
// `message`, not yet in the list; NULL without memory.
static OwnError* Allocate(int code, size_t size, char** message) {
  OwnError* error = malloc(sizeof(OwnError) + size + 1);
  if (error == NULL) return NULL;
  char* bytes = (char*)(error + 1);
  bytes[size] = '\0';
  error->code = code > kAbiOk && code <= kAbiLastCode ? code : kAbiUnknown;
  error->message_size = size;
  error->message = *message = bytes;
  return error;
}

static PJRT_Error* Register(OwnError* error) {
  if (error == NULL) return (PJRT_Error*)&out_of_memory;
  pthread_mutex_lock(&mutex);
  error->next = own_errors;
  own_errors = error;
  pthread_mutex_unlock(&mutex);
  return (PJRT_Error*)error;
}

PJRT_Error* ShardyErrorFromBytes(int code, const char* message, size_t size) {
  if (message == NULL) size = 0;
  char* bytes = NULL;
  OwnError* error = Allocate(code, size, &bytes);
  if (error != NULL && size > 0) memcpy(bytes, message, size);
  return Register(error);
}

PJRT_Error* ShardyError(int code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (size < 0) return ShardyErrorFromBytes(code, format, strlen(format));
  char* bytes = NULL;
  OwnError* error = Allocate(code, (size_t)size, &bytes);
  if (error != NULL) {
    va_start(args, format);
    vsnprintf(bytes, (size_t)size + 1, format, args);
    va_end(args);
  }
  return Register(error);
}

void ShardyErrorDestroy(AbiErrorDestroyArgs* args) {
  if (!ABI_HOLDS(AbiErrorDestroyArgs, error, args->struct_size)) return;
  if (args->error == (const void*)&out_of_memory) return;
  pthread_mutex_lock(&mutex);
  OwnError** link = FindLocked(args->error);
  OwnError* error = *link;
  if (error != NULL) *link = error->next;
  pthread_mutex_unlock(&mutex);
  if (error != NULL) {
    free(error);
    return;
  }
  AbiVoidFunction inner = (AbiVoidFunction)ShardyInnerSlot(kSlotErrorDestroy);
  if (inner != NULL) inner(args);
}

void ShardyFreeError(PJRT_Error* error) {
  if (error == NULL) return;
  AbiErrorDestroyArgs args = {ABI_SIZE(AbiErrorDestroyArgs, error), NULL,
                              error};
  ShardyErrorDestroy(&args);
}

void ShardyErrorMessage(AbiErrorMessageArgs* args) {
  if (!ABI_HOLDS(AbiErrorMessageArgs, message_size, args->struct_size)) return;
  const OwnError* error = Find(args->error);
  if (error != NULL) {
    args->message = error->message;
    args->message_size = error->message_size;
    return;
  }
  AbiVoidFunction inner = (AbiVoidFunction)ShardyInnerSlot(kSlotErrorMessage);
  if (inner != NULL) {
    inner(args);
    return;
  }
  args->message = "";
  args->message_size = 0;
}

PJRT_Error* ShardyErrorGetCode(AbiErrorGetCodeArgs* args) {
  if (!ABI_HOLDS(AbiErrorGetCodeArgs, code, args->struct_size)) {
    return ShardyTooShort(kSlotErrorGetCode, args->struct_size,
                          ABI_SIZE(AbiErrorGetCodeArgs, code));
  }
  const OwnError* error = Find(args->error);
  if (error != NULL) {
    args->code = error->code;
    return NULL;
  }
  AbiErrorFunction inner = (AbiErrorFunction)ShardyInnerSlot(kSlotErrorGetCode);
  if (inner != NULL) return inner(args);
  args->code = kAbiUnknown;
  return NULL;
}

int ShardyErrorCode(PJRT_Error* error) {
  AbiErrorGetCodeArgs args = {ABI_SIZE(AbiErrorGetCodeArgs, code), NULL, error,
                              kAbiUnknown};
  ShardyFreeError(ShardyErrorGetCode(&args));
  return args.code == kAbiOk ? kAbiUnknown : args.code;
}

int ShardyTakeCode(PJRT_Error* error) {
  const int code = error == NULL ? kAbiOk : ShardyErrorCode(error);
  ShardyFreeError(error);
  return code;
}

// Ours carry no payloads. Must not fail for them: clients ask for the payloads
// of every error, and so of the one that this would return.
PJRT_Error* ShardyErrorForEachPayload(AbiErrorForEachPayloadArgs* args) {
  if (!ABI_HOLDS(AbiErrorForEachPayloadArgs, error, args->struct_size)) {
    return NULL;
  }
  if (Find(args->error) != NULL) return NULL;
  AbiErrorFunction inner =
      (AbiErrorFunction)ShardyInnerSlot(kSlotErrorForEachPayload);
  return inner != NULL ? inner(args) : NULL;
}
