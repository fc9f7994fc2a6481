// The registered callback, counted so that it can be replaced while compiles
// run on other threads.

#include <pthread.h>
#include <stdlib.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
// Holds one reference; NULL if no callback is registered.
static ShardyRegistration* current = NULL;
// How many callbacks are running on this thread.
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

ShardyRegistration* ShardyAcquireCallback(void) {
  pthread_mutex_lock(&mutex);
  ShardyRegistration* registration = current;
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

SHARDY_EXPORT void PjrtShardy_SetCompileCallback(
    PjrtShardy_CompileCallback callback, void* user) {
  ShardyRegistration* next = NULL;
  if (callback != NULL) {
    next = malloc(sizeof(*next));
    // There is no way to report it, and to go on without the callback would
    // silently compile other programs than asked for.
    if (next == NULL) abort();
    *next = (ShardyRegistration){callback, user, 1, false};
  }
  pthread_mutex_lock(&mutex);
  ShardyRegistration* previous = current;
  current = next;
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
