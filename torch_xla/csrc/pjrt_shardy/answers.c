// Answers of our own to PJRT_Executable_OptimizedProgram, and who has which.
//
// An answer is given to a loaded executable, but asked of the executables that
// the framework gets from it. Either may be destroyed first, so each of them
// holds the answer itself. The calls that make and end executables pass through
// here to keep the list; an executable without an answer is not in it.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

struct ShardyAnswerLink {
  ShardyAnswerLink* next;
  const void* holder;  // a loaded executable, or one got from it
  ShardyAnswer* answer;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static ShardyAnswerLink* links = NULL;  // and all counts of references

ShardyAnswerLink* ShardyMakeAnswer(const char* program, size_t program_size,
                                   const char* format, size_t format_size) {
  ShardyAnswerLink* link = malloc(sizeof(*link));
  ShardyAnswer* answer =
      malloc(offsetof(ShardyAnswer, program) + program_size + format_size + 1);
  if (link == NULL || answer == NULL) {
    free(link);
    free(answer);
    return NULL;
  }
  char* format_copy = answer->program + program_size;
  if (program_size > 0) memcpy(answer->program, program, program_size);
  if (format_size > 0) memcpy(format_copy, format, format_size);
  answer->references = 1;
  answer->program_size = program_size;
  answer->format_size = format_size;
  answer->format = format_copy;
  *link = (ShardyAnswerLink){NULL, NULL, answer};
  return link;
}

void ShardyReleaseAnswer(ShardyAnswer* answer) {
  pthread_mutex_lock(&mutex);
  const bool last = --answer->references == 0;
  pthread_mutex_unlock(&mutex);
  if (last) free(answer);
}

void ShardyFreeAnswer(ShardyAnswerLink* link) {
  if (link == NULL) return;
  ShardyReleaseAnswer(link->answer);
  free(link);
}

void ShardyGiveAnswer(ShardyAnswerLink* link, const void* holder) {
  link->holder = holder;
  pthread_mutex_lock(&mutex);
  link->next = links;
  links = link;
  pthread_mutex_unlock(&mutex);
}

// The mutex is held.
static ShardyAnswerLink** FindLocked(const void* holder) {
  ShardyAnswerLink** place = &links;
  while (*place != NULL && (*place)->holder != holder) place = &(*place)->next;
  return place;
}

ShardyAnswer* ShardyAcquireAnswer(const void* holder) {
  pthread_mutex_lock(&mutex);
  const ShardyAnswerLink* link = *FindLocked(holder);
  ShardyAnswer* answer = link != NULL ? link->answer : NULL;
  if (answer != NULL) ++answer->references;
  pthread_mutex_unlock(&mutex);
  return answer;
}

// The holder is about to end: its address may be another's right after. One
// that a plugin gave out twice is in the list twice.
static void Forget(const void* holder) {
  pthread_mutex_lock(&mutex);
  ShardyAnswerLink** place = FindLocked(holder);
  ShardyAnswerLink* link = *place;
  if (link != NULL) *place = link->next;
  pthread_mutex_unlock(&mutex);
  ShardyFreeAnswer(link);
}

// Another reference to the answer, which the caller acquired.
static PJRT_Error* GetWithAnswer(AbiLoadedExecutableGetExecutableArgs* args,
                                 ShardyAnswer* answer) {
  ShardyAnswerLink* link = malloc(sizeof(*link));
  if (link == NULL) {
    ShardyReleaseAnswer(answer);
    return ShardyNoMemory(kSlotLoadedExecutableGetExecutable);
  }
  *link = (ShardyAnswerLink){NULL, NULL, answer};
  PJRT_Error* error = ShardyInnerCall(kSlotLoadedExecutableGetExecutable, args);
  if (error == NULL) {
    ShardyGiveAnswer(link, args->executable);
  } else {
    ShardyFreeAnswer(link);
  }
  return error;
}

PJRT_Error* ShardyLoadedExecutableGetExecutable(
    AbiLoadedExecutableGetExecutableArgs* args) {
  if (ABI_HOLDS(AbiLoadedExecutableGetExecutableArgs, executable,
                args->struct_size)) {
    ShardyAnswer* answer = ShardyAcquireAnswer(args->loaded_executable);
    if (answer != NULL) return GetWithAnswer(args, answer);
  }
  return ShardyInnerCall(kSlotLoadedExecutableGetExecutable, args);
}

PJRT_Error* ShardyLoadedExecutableDestroy(
    AbiLoadedExecutableDestroyArgs* args) {
  if (ABI_HOLDS(AbiLoadedExecutableDestroyArgs, executable,
                args->struct_size)) {
    Forget(args->executable);
    if (ShardyGiveBack(args->executable)) return NULL;
  }
  return ShardyInnerCall(kSlotLoadedExecutableDestroy, args);
}

PJRT_Error* ShardyExecutableDestroy(AbiExecutableDestroyArgs* args) {
  if (ABI_HOLDS(AbiExecutableDestroyArgs, executable, args->struct_size)) {
    Forget(args->executable);
  }
  return ShardyInnerCall(kSlotExecutableDestroy, args);
}
