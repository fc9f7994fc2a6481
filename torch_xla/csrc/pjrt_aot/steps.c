// What was executed and read, and when a script has made its steps.

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

typedef struct {
  int64_t program;
  int64_t step;
} AotExecution;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Under the mutex.
static int64_t steps = 0;
static int64_t executions = 0;
static int64_t refused = 0;
static bool something = false;  // was executed in this step
// Each execution in order.
static AotExecution* log_of = NULL;
static int64_t logged = 0;
static int64_t log_room = 0;

static _Atomic int64_t reads = 0;
static _Atomic int64_t buffers = 0;

// The mutex is held.
static void EndStepLocked(void) {
  ++steps;
  something = false;
}

// What there is no memory for is not in the log. The mutex is held.
static void LogLocked(int64_t program) {
  if (logged == log_room) {
    const int64_t more = log_room > 0 ? 2 * log_room : 256;
    AotExecution* list = realloc(log_of, (size_t)more * sizeof(*list));
    if (list == NULL) return;
    log_of = list;
    log_room = more;
  }
  log_of[logged++] = (AotExecution){program, steps};
}

// Counts unless the steps are over. The mutex is held.
static bool CountLocked(const AotWorld* world, AotProgram* program,
                        size_t which, int64_t beside) {
  if (program->seen[which] == steps + 1) EndStepLocked();
  if (world->step_limit > 0 && steps >= world->step_limit) {
    ++refused;
    return false;
  }
  program->seen[which] = steps + 1;
  something = true;
  ++executions;
  atomic_fetch_add(&program->executions, 1);
  if (beside > atomic_load(&program->beside)) {
    atomic_store(&program->beside, beside);
  }
  LogLocked(program->number);
  return true;
}

PJRT_Error* AotCountExecution(AotProgram* program, size_t which,
                              int64_t beside) {
  const AotWorld* world = AotGetWorld();
  pthread_mutex_lock(&mutex);
  const bool counted = CountLocked(world, program, which, beside);
  // The first is an error, which ends most scripts in their own way.
  const bool again = refused > 1;
  pthread_mutex_unlock(&mutex);
  if (counted) return NULL;
  if (again && world->stop_signal != 0) kill(getpid(), world->stop_signal);
  return ShardyError(kAbiAborted,
                     "the %lld steps that were asked for have ended, and "
                     "nothing is executed after them (--steps)",
                     (long long)world->step_limit);
}

void AotCountRead(void) { atomic_fetch_add(&reads, 1); }

void AotCountBuffer(int change) { atomic_fetch_add(&buffers, change); }

SHARDY_EXPORT int64_t PjrtAot_EndStep(void) {
  pthread_mutex_lock(&mutex);
  if (something) EndStepLocked();
  const int64_t ended = steps;
  pthread_mutex_unlock(&mutex);
  return ended;
}

SHARDY_EXPORT size_t PjrtAot_GetExecutions(int64_t first, int64_t* programs,
                                           int64_t* in_steps, size_t capacity) {
  size_t count = 0;
  pthread_mutex_lock(&mutex);
  for (int64_t i = first; i >= 0 && i < logged && count < capacity; ++i) {
    programs[count] = log_of[i].program;
    in_steps[count++] = log_of[i].step;
  }
  pthread_mutex_unlock(&mutex);
  return count;
}

SHARDY_EXPORT void PjrtAot_GetCounters(PjrtAot_Counters* counters) {
  pthread_mutex_lock(&mutex);
  *counters = (PjrtAot_Counters){.steps = steps,
                                 .executions = executions,
                                 .refused = refused,
                                 .reads = atomic_load(&reads),
                                 .buffers = atomic_load(&buffers)};
  pthread_mutex_unlock(&mutex);
}
