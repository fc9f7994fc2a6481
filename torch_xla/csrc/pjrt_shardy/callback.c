// The registered callbacks, counted so that they can be replaced while they run
// on other threads.

#include <pthread.h>
#include <stdlib.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
// Each holds one reference; NULL if no callback of that kind is registered.
static ShardyRegistration* current[kShardyCallbackKinds] = {NULL};
// How many callbacks, of whichever kind, are running on this thread.
static _Thread_local int depth = 0;

// Drops one reference. The mutex is held. A waiter frees what it waits for.
static void DropLocked(ShardyRegistration* registration) {
  --registration->references;
  if (registration->awaited) {
    pthread_cond_broadcast(&released);
  } else if (registration->references == 0) {
    free(registration);
  }
}

ShardyRegistration* ShardyAcquireCallback(ShardyCallbackKind kind) {
  pthread_mutex_lock(&mutex);
  ShardyRegistration* registration = current[kind];
  if (registration != NULL) {
    ++registration->references;
    ++depth;
  }
  pthread_mutex_unlock(&mutex);
  return registration;
}

void ShardyReleaseCallback(ShardyRegistration* registration) {
  pthread_mutex_lock(&mutex);
  --depth;
  DropLocked(registration);
  pthread_mutex_unlock(&mutex);
}

static void SetCallback(ShardyCallbackKind kind, AbiFunction callback,
                        void* user) {
  ShardyRegistration* next = NULL;
  if (callback != NULL) {
    next = malloc(sizeof(*next));
    // There is no way to report it, and to go on without the callback would
    // silently do something else than asked for.
    if (next == NULL) abort();
    *next = (ShardyRegistration){callback, user, 1, false};
  }
  pthread_mutex_lock(&mutex);
  ShardyRegistration* previous = current[kind];
  current[kind] = next;
  if (previous != NULL) {
    // Waiting for itself would never end.
    if (depth == 0) {
      previous->awaited = true;
      while (previous->references > 1) pthread_cond_wait(&released, &mutex);
      previous->awaited = false;
    }
    DropLocked(previous);
  }
  pthread_mutex_unlock(&mutex);
}

SHARDY_EXPORT void PjrtShardy_SetCompileCallback(
    PjrtShardy_CompileCallback callback, void* user) {
  SetCallback(kShardyCompileCallback, (AbiFunction)callback, user);
}

SHARDY_EXPORT void PjrtShardy_SetReadbackCallback(
    PjrtShardy_ReadbackCallback callback, void* user) {
  SetCallback(kShardyReadbackCallback, (AbiFunction)callback, user);
}
