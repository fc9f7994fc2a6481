// Faults of computation: the outputs of some programs are not what they should
// be.

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/csrc/wrong_plugin/compiled.h"
#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/outputs.h"

// Which programs.

static PJRT_Error* MarkCompiled(AbiClientCompileArgs* args,
                                const char* opcode) {
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  if (error == NULL && CompiledHolds(args->executable, opcode)) {
    Mark(args->executable);
  }
  return error;
}

static PJRT_Error* MarkChosenAndSplit(AbiClientCompileArgs* args) {
  PJRT_Error* error = MarkChosen(args);
  AbiProgram compiled;
  if (error == NULL && Marked(args->executable) &&
      ReadCompiled(args->executable, &compiled)) {
    if (!SplitsParameters(compiled.code, compiled.code_size)) {
      Forget(args->executable);
    }
    free(compiled.code);
  }
  return error;
}

#define MARKS(name, opcode)                             \
  static PJRT_Error* name(AbiClientCompileArgs* args) { \
    return MarkCompiled(args, opcode);                  \
  }

MARKS(MarkAllToAll, "all-to-all")
MARKS(MarkAllReduce, "all-reduce")
MARKS(MarkAllGather, "all-gather")
MARKS(MarkCollectivePermute, "collective-permute")

static PJRT_Error* MarkOverlapping(AbiClientCompileArgs* args) {
  static Overlap calls;
  const bool overlapped = Overlaps(&calls, 20000);
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  --calls.running;
  if (error == NULL && overlapped) Mark(args->executable);
  return error;
}

static PJRT_Error* MarkEverySecond(AbiClientCompileArgs* args) {
  static int compilations;
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  if (error == NULL && compilations++ % 2 == 1) Mark(args->executable);
  return error;
}

// What becomes of their outputs.

static PJRT_Error* Execute(ExecuteArgs* args,
                           void (*spoil)(const Outputs* outputs)) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error == NULL && Marked(args->executable)) {
    const Outputs outputs = OutputsOf(args);
    spoil(&outputs);
  }
  return error;
}

#define EXECUTES_AND(name, spoil) \
  static PJRT_Error* name(ExecuteArgs* args) { return Execute(args, spoil); }

EXECUTES_AND(SpoilMarked, SpoilFirstElements)
EXECUTES_AND(ImpreciseMarked, LosePrecision)
EXECUTES_AND(NanMarked, MakeNan)
EXECUTES_AND(RotateMarked, RotateDevices)
EXECUTES_AND(SpoilLastDevice, SpoilOnLastDevice)

const Fault kResultFaults[] = {
    FAULT("wrong-op",
          "of programs with the opcode, the first element of each output is "
          "far off (a bool is its opposite)",
          MARKED(MarkChosen, SpoilMarked)),
    FAULT("wrong-op-sharded",
          "the same, of programs that split a parameter over devices only",
          MARKED(MarkChosenAndSplit, SpoilMarked)),
    FAULT("wrong-op-last-device",
          "the same, of programs for more than one device, on the last "
          "device only",
          MARKED(MarkChosen, SpoilLastDevice)),
    FAULT("nan-op",
          "of programs with the opcode, the first float32 of each output is "
          "a NaN",
          MARKED(MarkChosen, NanMarked)),
    FAULT("imprecise-op",
          "of programs with the opcode, floating-point outputs hold the "
          "upper half of their mantissas only",
          MARKED(MarkChosen, ImpreciseMarked)),
    FAULT("wrong-all-to-all",
          "of compiled programs with an all-to-all, each device's output is "
          "that of the next device; where they are the same, the first "
          "element is far off",
          MARKED(MarkAllToAll, RotateMarked)),
    FAULT("wrong-all-gather", "the same of all-gather",
          MARKED(MarkAllGather, RotateMarked)),
    FAULT("wrong-all-reduce", "the same of all-reduce",
          MARKED(MarkAllReduce, RotateMarked)),
    FAULT("wrong-collective-permute", "the same of collective-permute",
          MARKED(MarkCollectivePermute, RotateMarked)),
    FAULT("racy-compile",
          "programs compiled at the same time compute as wrong-op; each "
          "takes 20 ms",
          MARKED(MarkOverlapping, SpoilMarked)),
    FAULT("nondeterministic-compile",
          "every second program compiled in a process computes as wrong-op",
          MARKED(MarkEverySecond, SpoilMarked)),
    {.name = NULL},
};
