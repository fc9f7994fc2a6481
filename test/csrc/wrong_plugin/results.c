// Faults of computation: the outputs of some programs are not what they should
// be.

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/csrc/wrong_plugin/compiled.h"
#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/outputs.h"

// Which programs.

static PJRT_Error* CompileAndMark(AbiClientCompileArgs* args,
                                  const char* opcode) {
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  if (error == NULL && CompiledHolds(args->executable, opcode)) {
    Mark(args->executable);
  }
  return error;
}

static PJRT_Error* MarkChosen(AbiClientCompileArgs* args) {
  const bool holds = HoldsOpcode(args->program, ChosenOpcode());
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  if (error == NULL && holds) Mark(args->executable);
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

static PJRT_Error* MarkAllToAll(AbiClientCompileArgs* args) {
  return CompileAndMark(args, "all-to-all");
}

static PJRT_Error* MarkAllReduce(AbiClientCompileArgs* args) {
  return CompileAndMark(args, "all-reduce");
}

static PJRT_Error* MarkAllGather(AbiClientCompileArgs* args) {
  return CompileAndMark(args, "all-gather");
}

static PJRT_Error* MarkCollectivePermute(AbiClientCompileArgs* args) {
  return CompileAndMark(args, "collective-permute");
}

// Long enough for another thread to come.
enum { kOverlapMicroseconds = 20000 };

static PJRT_Error* MarkOverlapping(AbiClientCompileArgs* args) {
  static atomic_int running;
  static atomic_int started;
  const int number = ++started;
  const bool alone = running++ == 0;
  usleep(kOverlapMicroseconds);
  const bool overlapped = !alone || started != number;
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  --running;
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

static PJRT_Error* Execute(AbiLoadedExecutableExecuteArgs* args,
                           void (*spoil)(const Outputs* outputs)) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error == NULL && Marked(args->executable)) {
    const Outputs outputs = OutputsOf(args);
    spoil(&outputs);
  }
  return error;
}

static PJRT_Error* SpoilMarked(AbiLoadedExecutableExecuteArgs* args) {
  return Execute(args, SpoilFirstElements);
}

static PJRT_Error* ImpreciseMarked(AbiLoadedExecutableExecuteArgs* args) {
  return Execute(args, LosePrecision);
}

static PJRT_Error* NanMarked(AbiLoadedExecutableExecuteArgs* args) {
  return Execute(args, MakeNan);
}

static PJRT_Error* RotateMarked(AbiLoadedExecutableExecuteArgs* args) {
  return Execute(args, RotateDevices);
}

static PJRT_Error* SpoilLastDevice(AbiLoadedExecutableExecuteArgs* args) {
  return Execute(args, SpoilOnLastDevice);
}

#define WRONG(mark, execute) \
  {SPOILS(ClientCompile, mark), SPOILS(LoadedExecutableExecute, execute)}

const Fault kResultFaults[] = {
    {.name = "wrong-op",
     .what = "of programs with the opcode, the first element of each output is "
             "far off (a bool is its opposite)",
     .overrides = WRONG(MarkChosen, SpoilMarked)},
    {.name = "wrong-op-sharded",
     .what = "the same, of programs that split a parameter over devices only",
     .overrides = WRONG(MarkChosenAndSplit, SpoilMarked)},
    {.name = "wrong-op-last-device",
     .what = "the same, of programs for more than one device, on the last "
             "device only",
     .overrides = WRONG(MarkChosen, SpoilLastDevice)},
    {.name = "nan-op",
     .what = "of programs with the opcode, the first float32 of each output is "
             "a NaN",
     .overrides = WRONG(MarkChosen, NanMarked)},
    {.name = "imprecise-op",
     .what = "of programs with the opcode, floating-point outputs hold the "
             "upper half of their mantissas only",
     .overrides = WRONG(MarkChosen, ImpreciseMarked)},
    {.name = "wrong-all-to-all",
     .what = "of compiled programs with an all-to-all, each device's output is "
             "that of the next device; where they are the same, the first "
             "element is far off",
     .overrides = WRONG(MarkAllToAll, RotateMarked)},
    {.name = "wrong-all-gather",
     .what = "the same of all-gather",
     .overrides = WRONG(MarkAllGather, RotateMarked)},
    {.name = "wrong-all-reduce",
     .what = "the same of all-reduce",
     .overrides = WRONG(MarkAllReduce, RotateMarked)},
    {.name = "wrong-collective-permute",
     .what = "the same of collective-permute",
     .overrides = WRONG(MarkCollectivePermute, RotateMarked)},
    {.name = "racy-compile",
     .what = "programs compiled at the same time compute as wrong-op; each "
             "takes 20 ms",
     .overrides = WRONG(MarkOverlapping, SpoilMarked)},
    {.name = "nondeterministic-compile",
     .what = "every second program compiled in a process computes as wrong-op",
     .overrides = WRONG(MarkEverySecond, SpoilMarked)},
    {.name = NULL},
};
