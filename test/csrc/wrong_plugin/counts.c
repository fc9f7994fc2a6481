// Faults of executions with many arguments or results.

#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/outputs.h"
#include "test/csrc/wrong_plugin/wrong_plugin.h"

enum { kDropsFrom = 64, kSwapsFrom = 256, kAbortsFrom = 1024 };

static PJRT_Error* Execute(ExecuteArgs* args) {
  return CallInner(kSlotLoadedExecutableExecute, args);
}

// Each device's lists of arguments, changed: the lists are the caller's.
static PJRT_Error* ExecuteWith(ExecuteArgs* args,
                               void (*change)(PJRT_Buffer** list,
                                              size_t count)) {
  PJRT_Buffer** const* lists = args->argument_lists;
  PJRT_Buffer*** changed = Allocate(args->num_devices * sizeof(*changed));
  for (size_t d = 0; d < args->num_devices; ++d) {
    changed[d] = Duplicate(lists[d], args->num_args * sizeof(*changed[d]));
    change(changed[d], args->num_args);
  }
  args->argument_lists = changed;
  PJRT_Error* error = Execute(args);
  args->argument_lists = (void*)lists;
  for (size_t d = 0; d < args->num_devices; ++d) free(changed[d]);
  free(changed);
  return error;
}

static void RepeatFirst(PJRT_Buffer** list, size_t count) {
  for (size_t i = kDropsFrom; i < count; ++i) list[i] = list[i % kDropsFrom];
}

static PJRT_Error* ArgumentsOver64(ExecuteArgs* args) {
  return ExecuteWith(args, RepeatFirst);
}

static PJRT_Error* ResultsOver256(ExecuteArgs* args) {
  PJRT_Error* error = Execute(args);
  if (error != NULL) return error;
  const Outputs outputs = OutputsOf(args);
  for (size_t d = 0; outputs.count > kSwapsFrom && d < outputs.devices; ++d) {
    PJRT_Buffer** list = outputs.lists[d];
    PJRT_Buffer* last = list[outputs.count - 1];
    list[outputs.count - 1] = list[kSwapsFrom - 1];
    list[kSwapsFrom - 1] = last;
  }
  return NULL;
}

static PJRT_Error* AbortsOver1024(ExecuteArgs* args) {
  if (args->num_args > kAbortsFrom) abort();
  return Execute(args);
}

const Fault kCountFaults[] = {
    FAULT("arguments-over-64",
          "the 65th argument is the first one again, and so on",
          EXECUTES(ArgumentsOver64)),
    FAULT("results-over-256",
          "of more than 256 results, the 256th and the last are swapped",
          EXECUTES(ResultsOver256)),
    FAULT("aborts-over-1024-arguments",
          "an execution with more than 1024 arguments ends the process by "
          "SIGABRT",
          EXECUTES(AbortsOver1024)),
    {.name = NULL},
};
