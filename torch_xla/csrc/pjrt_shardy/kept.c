// Executables that the framework destroyed and may soon ask for again.
//
// An executable is the framework's or lies idle here, never both: nothing has
// to be counted, and what a framework does to one is done to no other holder's.
// A list remembers those that are to be kept; of the idle ones it has the
// newest first, and only so many.

#include <pthread.h>
#include <stdlib.h>

#include "torch_xla/csrc/pjrt_shardy/internal.h"

// Small programs, by the contract of PjrtShardy_ReuseExecutable.
enum { kMaxIdle = 64 };

typedef struct Kept {
  struct Kept* next;
  PJRT_LoadedExecutable* executable;
  const PJRT_Client* client;
  uint64_t id;
  bool idle;
} Kept;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Kept* all_kept = NULL;

// Takes the one out that `place` points to. The mutex is held.
static Kept* UnlinkLocked(Kept** place) {
  Kept* kept = *place;
  if (kept != NULL) *place = kept->next;
  return kept;
}

static void LinkLocked(Kept* kept) {
  kept->next = all_kept;
  all_kept = kept;
}

// Takes out the oldest idle one beyond the limit, if there is one.
static Kept* UnlinkSurplusLocked(void) {
  int idle = 0;
  for (Kept** place = &all_kept; *place != NULL; place = &(*place)->next) {
    if ((*place)->idle && ++idle > kMaxIdle) return UnlinkLocked(place);
  }
  return NULL;
}

static void End(Kept* kept) {
  if (kept == NULL) return;
  AbiLoadedExecutableDestroyArgs args = {
      ABI_SIZE(AbiLoadedExecutableDestroyArgs, executable), NULL,
      kept->executable};
  ShardyFreeError(ShardyInnerCall(kSlotLoadedExecutableDestroy, &args));
  free(kept);
}

void ShardyKeep(PJRT_LoadedExecutable* executable, const PJRT_Client* client,
                uint64_t id) {
  Kept* kept = malloc(sizeof(*kept));
  if (kept == NULL) return;  // Then it ends as any other.
  *kept = (Kept){NULL, executable, client, id, false};
  pthread_mutex_lock(&mutex);
  LinkLocked(kept);
  pthread_mutex_unlock(&mutex);
}

PJRT_LoadedExecutable* ShardyTakeKept(const PJRT_Client* client, uint64_t id) {
  pthread_mutex_lock(&mutex);
  Kept** place = &all_kept;
  while (*place != NULL && !((*place)->idle && (*place)->client == client &&
                             (*place)->id == id)) {
    place = &(*place)->next;
  }
  Kept* kept = UnlinkLocked(place);
  pthread_mutex_unlock(&mutex);
  if (kept == NULL) return NULL;
  PJRT_LoadedExecutable* executable = kept->executable;
  free(kept);
  return executable;
}

// Whether the framework deleted what it destroys now; true if nobody says.
static bool IsDeleted(PJRT_LoadedExecutable* executable) {
  AbiLoadedExecutableIsDeletedArgs args = {
      ABI_SIZE(AbiLoadedExecutableIsDeletedArgs, is_deleted), NULL, executable,
      true};
  PJRT_Error* error = ShardyInnerCall(kSlotLoadedExecutableIsDeleted, &args);
  ShardyFreeError(error);
  return error != NULL || args.is_deleted;
}

bool ShardyGiveBack(PJRT_LoadedExecutable* executable) {
  pthread_mutex_lock(&mutex);
  Kept** place = &all_kept;
  while (*place != NULL &&
         ((*place)->idle || (*place)->executable != executable)) {
    place = &(*place)->next;
  }
  Kept* kept = UnlinkLocked(place);
  pthread_mutex_unlock(&mutex);
  if (kept == NULL) return false;
  if (IsDeleted(executable)) {
    free(kept);
    return false;
  }
  kept->idle = true;
  pthread_mutex_lock(&mutex);
  LinkLocked(kept);
  Kept* surplus = UnlinkSurplusLocked();
  pthread_mutex_unlock(&mutex);
  End(surplus);
  return true;
}

void ShardyEndKept(const PJRT_Client* client) {
  Kept* gone = NULL;
  pthread_mutex_lock(&mutex);
  for (Kept** place = &all_kept; *place != NULL;) {
    if ((*place)->client != client) {
      place = &(*place)->next;
      continue;
    }
    Kept* kept = UnlinkLocked(place);
    kept->next = gone;
    gone = kept;
  }
  pthread_mutex_unlock(&mutex);
  while (gone != NULL) {
    Kept* next = gone->next;
    if (gone->idle) {
      End(gone);
    } else {
      free(gone);  // The framework's own to end.
    }
    gone = next;
  }
}
