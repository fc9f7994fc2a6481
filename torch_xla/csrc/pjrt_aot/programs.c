// The programs that were compiled, kept after their executables are gone.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Under the mutex. The programs themselves stay where they are.
static AotProgram** programs = NULL;
static int64_t num_programs = 0;
static int64_t room = 0;

static _Thread_local int64_t last_program = -1;

// The mutex is held.
static bool AppendLocked(AotProgram* program) {
  if (num_programs == room) {
    const int64_t more = room > 0 ? 2 * room : 64;
    AotProgram** list = realloc(programs, (size_t)more * sizeof(*list));
    if (list == NULL) return false;
    programs = list;
    room = more;
  }
  program->number = num_programs;
  programs[num_programs++] = program;
  return true;
}

AotProgram* AotKeepProgram(const PjrtAot_Program* facts, size_t num_local) {
  AotProgram* program =
      calloc(1, sizeof(*program) + (num_local + 1) * sizeof(int64_t));
  if (program == NULL) return NULL;
  program->facts = *facts;
  pthread_mutex_lock(&mutex);
  const bool kept = AppendLocked(program);
  if (kept) last_program = program->number;
  pthread_mutex_unlock(&mutex);
  if (kept) return program;
  free(program);
  return NULL;
}

void AotForgetLastProgram(void) { last_program = -1; }

SHARDY_EXPORT int64_t PjrtAot_LastProgram(void) { return last_program; }

static AotProgram* Find(int64_t number) {
  pthread_mutex_lock(&mutex);
  AotProgram* found =
      number >= 0 && number < num_programs ? programs[number] : NULL;
  pthread_mutex_unlock(&mutex);
  return found;
}

SHARDY_EXPORT int PjrtAot_SetDonated(int64_t number, const int64_t* positions,
                                     size_t count) {
  AotProgram* program = Find(number);
  if (program == NULL) return kAbiNotFound;
  int64_t* copy = calloc(count + 1, sizeof(*copy));
  if (copy == NULL) return kAbiResourceExhausted;
  if (count > 0) memcpy(copy, positions, count * sizeof(*copy));
  free(program->donated);
  program->donated = copy;
  program->num_donated = count;
  return kAbiOk;
}

SHARDY_EXPORT int PjrtAot_GetProgram(int64_t number, PjrtAot_Program* program) {
  AotProgram* found = Find(number);
  if (found == NULL) return kAbiNotFound;
  *program = found->facts;
  program->executions = atomic_load(&found->executions);
  program->beside = atomic_load(&found->beside);
  return kAbiOk;
}
