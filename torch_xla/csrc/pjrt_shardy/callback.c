// The registered callback, counted so that it can be replaced while it runs on
// other threads, and the thread that it runs on.

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// Since 2.34 these are new versions, in libc.
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(
    ".symver pthread_attr_setstacksize,pthread_attr_setstacksize@GLIBC_2.2.5");

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
    // silently do something else than asked for.
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

// A callback's call on a thread of its own, for which another one waits.
typedef struct {
  void (*call)(void* arguments);
  void* arguments;
  int depth;
  bool done;
} Errand;

// What XLA may need of a stack to compile a deep program; the first thread's
// grows to 8 MB, as a rule.
enum { kStackBytes = 64 << 20 };

static int (*_Atomic is_bound)(void) = NULL;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

SHARDY_EXPORT void PjrtShardy_LeaveFirstThread(int (*bound)(void)) {
  is_bound = bound;
}

static void* RunErrand(void* work) {
  Errand* errand = work;
  depth = errand->depth;
  errand->call(errand->arguments);
  pthread_mutex_lock(&mutex);
  errand->done = true;
  pthread_cond_broadcast(&done);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static bool Start(Errand* errand) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_t thread;
  const bool started =
      pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
      pthread_create(&thread, &attributes, RunErrand, errand) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

void ShardyRunCallback(void (*call)(void* arguments), void* arguments) {
  int (*bound)(void) = is_bound;
  Errand errand = {call, arguments, depth, false};
  if (bound == NULL || syscall(SYS_gettid) != getpid() || bound() ||
      !Start(&errand)) {
    call(arguments);
    return;
  }
  pthread_mutex_lock(&mutex);
  while (!errand.done) pthread_cond_wait(&done, &mutex);
  pthread_mutex_unlock(&mutex);
}
