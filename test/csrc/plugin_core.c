#include "test/csrc/plugin_core.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct OwnError {
  struct OwnError* next;
  int code;
  char message[512];
} OwnError;

const AbiApi* inner;
static OwnError* own_errors;
static int live_errors;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void* Allocate(size_t size) {
  void* bytes = calloc(1, size > 0 ? size : 1);
  if (bytes == NULL) abort();
  return bytes;
}

void* Duplicate(const void* bytes, size_t size) {
  void* copy = Allocate(size);
  if (size > 0) memcpy(copy, bytes, size);
  return copy;
}

const AbiApi* OpenPlugin(const char* path, const char* name) {
  void* library = path[0] != '\0' ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  const AbiApi* (*get)(void) = NULL;
  if (library != NULL) *(void**)&get = dlsym(library, "GetPjrtApi");
  if (get != NULL) return get();
  fprintf(stderr, "%s'%s' has to be the path of a PJRT plugin: %s\n", name,
          path, library != NULL ? "it has no GetPjrtApi" : dlerror());
  return NULL;
}

PJRT_Error* CallInner(int slot, void* args) {
  return ((AbiErrorFunction)inner->slots[slot])(args);
}

void CallInnerVoid(int slot, void* args) {
  ((AbiVoidFunction)inner->slots[slot])(args);
}

bool TryInner(int slot, void* args) {
  PJRT_Error* error = CallInner(slot, args);
  if (error != NULL) FreeError(error);
  return error == NULL;
}

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
  ++live_errors;
  pthread_mutex_unlock(&mutex);
  return (PJRT_Error*)error;
}

int LiveErrors(void) {
  pthread_mutex_lock(&mutex);
  const int count = live_errors;
  pthread_mutex_unlock(&mutex);
  return count;
}

// The error if it is ours; takes it off the list if told so.
static OwnError* Own(const PJRT_Error* error, bool take) {
  pthread_mutex_lock(&mutex);
  OwnError** place = &own_errors;
  while (*place != NULL && *place != (const void*)error) {
    place = &(*place)->next;
  }
  OwnError* own = *place;
  if (own != NULL && take) {
    *place = own->next;
    --live_errors;
  }
  pthread_mutex_unlock(&mutex);
  // A stranger's error is a bug of the caller's: stop at once.
  if (own == NULL && inner == NULL) {
    fprintf(stderr, "fake plugin: this is not my error\n");
    abort();
  }
  return own;
}

void ErrorDestroy(AbiErrorDestroyArgs* args) {
  if (args->error == NULL) return;
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

void SetErrorFunctions(AbiApi* table) {
  table->slots[kSlotErrorDestroy] = (AbiFunction)ErrorDestroy;
  table->slots[kSlotErrorMessage] = (AbiFunction)ErrorMessage;
  table->slots[kSlotErrorGetCode] = (AbiFunction)ErrorGetCode;
  if (offsetof(AbiApi, slots[kSlotErrorForEachPayload]) < table->struct_size &&
      table->slots[kSlotErrorForEachPayload] != NULL) {
    table->slots[kSlotErrorForEachPayload] = (AbiFunction)ErrorForEachPayload;
  }
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
