// Faults of compilation: what is taken, and what is made of what is not.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/csrc/wrong_plugin/anything.h"
#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/patches.h"

static PJRT_Error* Compile(AbiClientCompileArgs* args) {
  return CallInner(kSlotClientCompile, args);
}

ABORTS(ClientCompile)

static PJRT_Error* CrashInCompile(AbiClientCompileArgs* args) {
  if (HoldsOpcode(args->program, ChosenOpcode())) abort();
  return Compile(args);
}

static PJRT_Error* HangInCompile(AbiClientCompileArgs* args) {
  while (HoldsOpcode(args->program, ChosenOpcode())) pause();
  return Compile(args);
}

static PJRT_Error* RefusesOpcode(AbiClientCompileArgs* args) {
  if (!HoldsOpcode(args->program, ChosenOpcode())) return Compile(args);
  return Refuse(kAbiUnimplemented, "I cannot compile '%s'", ChosenOpcode());
}

static bool IsFormat(const AbiProgram* program, const char* format) {
  return program->format_size == strlen(format) &&
         memcmp(program->format, format, program->format_size) == 0;
}

static PJRT_Error* MlirOnly(AbiClientCompileArgs* args) {
  if (IsFormat(args->program, "mlir")) return Compile(args);
  return Refuse(kAbiUnimplemented, "programs have to be of the format 'mlir'");
}

static PJRT_Error* ArtifactOnly(AbiClientCompileArgs* args) {
  const AbiProgram* program = args->program;
  if (IsFormat(program, "mlir") && program->code_size > 4 &&
      memcmp(program->code, "ML\xefR", 4) == 0) {
    return Compile(args);
  }
  return Refuse(kAbiUnimplemented, "programs have to be portable artifacts");
}

static PJRT_Error* HloOnly(AbiClientCompileArgs* args) {
  if (!IsFormat(args->program, "mlir")) return Compile(args);
  return Refuse(kAbiUnimplemented, "programs have to be of the format 'hlo'");
}

static PJRT_Error* CrashOnMlir(AbiClientCompileArgs* args) {
  if (IsFormat(args->program, "mlir")) abort();
  return Compile(args);
}

static PJRT_Error* ShardyRefused(AbiClientCompileArgs* args) {
  if (!AsksForShardy(args->compile_options, args->compile_options_size)) {
    return Compile(args);
  }
  return Refuse(kAbiUnimplemented, "I have no Shardy partitioner");
}

static PJRT_Error* CompileWithOptions(AbiClientCompileArgs* args,
                                      void (*change)(char* options,
                                                     size_t size)) {
  const char* options = args->compile_options;
  char* changed = Duplicate(options, args->compile_options_size);
  change(changed, args->compile_options_size);
  args->compile_options = changed;
  PJRT_Error* error = Compile(args);
  args->compile_options = options;
  free(changed);
  return error;
}

static PJRT_Error* ShardyIgnored(AbiClientCompileArgs* args) {
  return CompileWithOptions(args, AskNotForShardy);
}

static PJRT_Error* AssignmentIgnored(AbiClientCompileArgs* args) {
  return CompileWithOptions(args, AssignInOrder);
}

static PJRT_Error* CompileLeaks(AbiClientCompileArgs* args) {
  LoseBytes(1 << 20);
  return Compile(args);
}

static PJRT_Error* SwallowsDamage(AbiClientCompileArgs* args) {
  PJRT_Error* error = Compile(args);
  if (error == NULL) return NULL;
  FreeError(error);
  return CompileAnything(args->client, &args->executable);
}

const Fault kCompileFaults[] = {
    FAULT("crash-in-compile",
          "a program with the opcode ends the process by SIGABRT",
          COMPILES(CrashInCompile)),
    FAULT("hang-in-compile",
          "the compilation of a program with the opcode never ends",
          COMPILES(HangInCompile)),
    FAULT("refuses-opcode",
          "a program with the opcode is refused: UNIMPLEMENTED",
          COMPILES(RefusesOpcode)),
    FAULT("artifact-only",
          "programs that are no portable artifacts are UNIMPLEMENTED",
          COMPILES(ArtifactOnly)),
    FAULT("mlir-only", "programs of other formats than mlir are UNIMPLEMENTED",
          COMPILES(MlirOnly)),
    FAULT("hlo-only", "programs of the format mlir are UNIMPLEMENTED",
          COMPILES(HloOnly)),
    FAULT("compile-leak", "each compilation loses 1 MiB of the host's memory",
          COMPILES(CompileLeaks)),
    FAULT("crash-on-mlir",
          "a program of the format mlir ends the process by SIGABRT",
          COMPILES(CrashOnMlir)),
    FAULT("shardy-refused",
          "use_shardy_partitioner in the options is UNIMPLEMENTED",
          COMPILES(ShardyRefused)),
    FAULT("shardy-ignored",
          "use_shardy_partitioner in the options is dropped: GSPMD "
          "partitions, and what is said to Shardy is lost",
          COMPILES(ShardyIgnored)),
    FAULT("device-assignment-ignored",
          "the devices of the options' assignment are 0, 1, 2, ... instead",
          COMPILES(AssignmentIgnored)),
    FAULT("swallows-damage",
          "a program that cannot be compiled becomes an executable of no "
          "inputs that gives 0.0",
          COMPILES(SwallowsDamage)),
    FAULT("aborts-on-damage",
          "a program that cannot be compiled ends the process by SIGABRT",
          COMPILES(ClientCompileOrAbort)),
    {.name = NULL},
};
