// Faults of execution: what it does to its inputs, to time and to memory.

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/outputs.h"

static PJRT_Error* Execute(ExecuteArgs* args) {
  return CallInner(kSlotLoadedExecutableExecute, args);
}

static PJRT_Error* CrashInExecute(ExecuteArgs* args) {
  if (Marked(args->executable)) abort();
  return Execute(args);
}

static PJRT_Error* HangInExecute(ExecuteArgs* args) {
  while (Marked(args->executable)) pause();
  return Execute(args);
}

// Donation.

static PJRT_Error* DonationCopies(ExecuteArgs* args) {
  AbiExecuteOptions* options = args->options;
  const int64_t* indices = options->non_donatable_input_indices;
  const size_t count = options->num_non_donatable_input_indices;
  int64_t* all = Allocate(args->num_args * sizeof(*all));
  for (size_t i = 0; i < args->num_args; ++i) all[i] = (int64_t)i;
  options->non_donatable_input_indices = all;
  options->num_non_donatable_input_indices = args->num_args;
  PJRT_Error* error = Execute(args);
  options->non_donatable_input_indices = indices;
  options->num_non_donatable_input_indices = count;
  free(all);
  return error;
}

static PJRT_Error* DonationForced(ExecuteArgs* args) {
  AbiExecuteOptions* options = args->options;
  const size_t count = options->num_non_donatable_input_indices;
  options->num_non_donatable_input_indices = 0;
  PJRT_Error* error = Execute(args);
  options->num_non_donatable_input_indices = count;
  return error;
}

static void Delete(PJRT_Buffer* buffer) {
  AbiBufferDeleteArgs args = {ABI_SIZE(AbiBufferDeleteArgs, buffer), NULL,
                              buffer};
  TryInner(kSlotBufferDelete, &args);
}

static PJRT_Error* DonationUnasked(ExecuteArgs* args) {
  PJRT_Buffer** const* lists = args->argument_lists;
  PJRT_Error* error = Execute(args);
  for (size_t d = 0; error == NULL && d < args->num_devices; ++d) {
    if (args->num_args > 0) Delete(lists[d][0]);
  }
  return error;
}

static PJRT_Error* DonationEats(ExecuteArgs* args) {
  PJRT_Buffer** const* lists = args->argument_lists;
  PJRT_Error* error = Execute(args);
  if (error != NULL) return error;
  for (size_t d = 0; d < args->num_devices; ++d) {
    PJRT_Buffer* kept = NULL;
    bool donates = false;
    for (size_t i = 0; i < args->num_args; ++i) {
      if (IsDeleted(lists[d][i])) {
        donates = true;
      } else if (kept == NULL) {
        kept = lists[d][i];
      }
    }
    if (donates && kept != NULL) Delete(kept);
  }
  return NULL;
}

// A buffer with the same values at another place, in the other's stead.
static PJRT_Error* MoveElsewhere(PJRT_Buffer** buffer) {
  PJRT_Buffer* copy;
  PJRT_Error* error = CopyBuffer(*buffer, &copy);
  if (error != NULL) return error;
  AbiBufferDestroyArgs destroy = {ABI_SIZE(AbiBufferDestroyArgs, buffer), NULL,
                                  *buffer};
  TryInner(kSlotBufferDestroy, &destroy);
  *buffer = copy;
  return NULL;
}

static PJRT_Error* DonationInName(ExecuteArgs* args) {
  PJRT_Error* error = Execute(args);
  const Outputs outputs = OutputsOf(args);
  for (size_t d = 0; d < outputs.devices; ++d) {
    for (size_t i = 0; error == NULL && i < outputs.count; ++i) {
      error = MoveElsewhere(&outputs.lists[d][i]);
    }
  }
  return error;
}

// Time and memory.

static PJRT_Error* SlowsDown(ExecuteArgs* args) {
  static atomic_int executions;
  enum { kQuick = 7500, kMicroseconds = 5000 };
  if (executions++ >= kQuick) usleep(kMicroseconds);
  return Execute(args);
}

static PJRT_Error* Leaks(ExecuteArgs* args) {
  LoseBytes(64 << 10);
  return Execute(args);
}

static PJRT_Error* LeaksHandles(ExecuteArgs* args) {
  if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) {
    return Refuse(kAbiResourceExhausted, "no more handles");
  }
  return Execute(args);
}

static void* Wait(void* nothing) {
  for (;;) pause();
  return nothing;
}

static PJRT_Error* LeaksThreads(ExecuteArgs* args) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, Wait, NULL) != 0) {
    return Refuse(kAbiResourceExhausted, "no more threads");
  }
  return Execute(args);
}

static PJRT_Error* BufferStays(AbiBufferDestroyArgs* args) {
  (void)args;
  return NULL;
}

static PJRT_Error* RacyExecute(ExecuteArgs* args) {
  static Overlap calls;
  const bool overlapped = Overlaps(&calls, 2000);
  PJRT_Error* error = Execute(args);
  if (error == NULL && overlapped) {
    const Outputs outputs = OutputsOf(args);
    SpoilFirstElements(&outputs);
  }
  --calls.running;
  return error;
}

// Completion.

enum { kMaxEvents = 1024 };
static PJRT_Event* _Atomic never[kMaxEvents];
static atomic_int never_count;

static PJRT_Error* NeverCompletes(ExecuteArgs* args) {
  PJRT_Error* error = Execute(args);
  PJRT_Event** events = args->device_complete_events;
  if (error != NULL || events == NULL) return error;
  for (size_t d = 0; d < args->num_devices; ++d) {
    never[never_count++ % kMaxEvents] = events[d];
  }
  return NULL;
}

static bool IsNever(const PJRT_Event* event) {
  for (int i = 0; i < kMaxEvents; ++i) {
    if (never[i] == event) return true;
  }
  return false;
}

static PJRT_Error* NeverAwaited(AbiEventAwaitArgs* args) {
  while (IsNever(args->event)) pause();
  return CallInner(kSlotEventAwait, args);
}

static PJRT_Error* NeverOnReady(AbiEventOnReadyArgs* args) {
  if (IsNever(args->event)) return NULL;
  return CallInner(kSlotEventOnReady, args);
}

static PJRT_Error* NeverIsReady(AbiEventIsReadyArgs* args) {
  PJRT_Error* error = CallInner(kSlotEventIsReady, args);
  if (error == NULL && IsNever(args->event)) args->is_ready = false;
  return error;
}

const Fault kExecuteFaults[] = {
    FAULT("crash-in-execute",
          "running a program with the opcode ends the process by SIGABRT",
          MARKED(MarkChosen, CrashInExecute)),
    FAULT("hang-in-execute",
          "PJRT_LoadedExecutable_Execute never returns, of a program with "
          "the opcode",
          MARKED(MarkChosen, HangInExecute)),
    FAULT("execute-never-completes",
          "the completion events of executions never become ready",
          {SPOILS(LoadedExecutableExecute, NeverCompletes),
           SPOILS(EventAwait, NeverAwaited), SPOILS(EventOnReady, NeverOnReady),
           SPOILS(EventIsReady, NeverIsReady)}),
    FAULT("donation-copies", "donated inputs are copied, and live on",
          EXECUTES(DonationCopies)),
    FAULT("donation-in-name",
          "donated inputs are gone, and the outputs lie elsewhere",
          EXECUTES(DonationInName)),
    FAULT("donation-eats",
          "where an input is donated, the first other one is deleted too",
          EXECUTES(DonationEats)),
    FAULT("donation-forced",
          "inputs are donated that the options list as not donatable",
          EXECUTES(DonationForced)),
    FAULT("donation-unasked", "the first input of every execution is deleted",
          EXECUTES(DonationUnasked)),
    FAULT("slow-down", "from the 7,501st execution on, each takes 5 ms longer",
          EXECUTES(SlowsDown)),
    FAULT("leak", "each execution loses 64 KiB of the host's memory",
          EXECUTES(Leaks)),
    FAULT("handle-leak", "each execution loses an open file",
          EXECUTES(LeaksHandles)),
    FAULT("thread-leak", "each execution leaves a thread behind",
          EXECUTES(LeaksThreads)),
    FAULT("buffer-leak", "PJRT_Buffer_Destroy does nothing",
          {SPOILS(BufferDestroy, BufferStays)}),
    FAULT("racy-execute",
          "of executions that overlap, the outputs are as of wrong-op; each "
          "takes 2 ms",
          EXECUTES(RacyExecute)),
    {.name = NULL},
};
