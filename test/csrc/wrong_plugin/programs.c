// Faults of reading a program: it is compiled as if it said something else.

#include <stdlib.h>

#include "test/csrc/wrong_plugin/patches.h"
#include "test/csrc/wrong_plugin/uneven.h"
#include "test/csrc/wrong_plugin/wrong_plugin.h"

static PJRT_Error* CompileChanged(AbiClientCompileArgs* args,
                                  void (*change)(char* code, size_t size)) {
  const AbiProgram* program = args->program;
  AbiProgram changed = *program;
  changed.code = Duplicate(program->code, program->code_size);
  change(changed.code, changed.code_size);
  args->program = &changed;
  PJRT_Error* error = CallInner(kSlotClientCompile, args);
  args->program = program;
  free(changed.code);
  return error;
}

#define CHANGES(name, change)                           \
  static PJRT_Error* name(AbiClientCompileArgs* args) { \
    return CompileChanged(args, change);                \
  }

CHANGES(PrioritiesIgnored, DropPriorities)
CHANGES(V2Misread, MisreadV2)
CHANGES(V1Misread, MisreadV1)
CHANGES(MeshMisread, MisreadMeshes)

static void MisreadAll(char* code, size_t size) {
  MisreadV1(code, size);
  MisreadV2(code, size);
  MisreadMeshes(code, size);
}

CHANGES(PermutedMesh, MisreadAll)
CHANGES(UnevenParameter, ReplicateUneven)

const Fault kProgramFaults[] = {
    FAULT("priorities-ignored",
          "every priority of a sharding that Shardy gets is read as p0",
          COMPILES(PrioritiesIgnored)),
    FAULT("v2-misread",
          "the transposition of V2 shardings is not read: "
          "[2,4]<=[4,2]T(1,0) is [2,4]<=[4,2]T(0,1)",
          COMPILES(V2Misread)),
    FAULT("v1-misread",
          "the devices of V1 shardings are read in ascending order",
          COMPILES(V1Misread)),
    FAULT("mesh-misread",
          "the device_ids of Shardy's meshes, where there are any, are read in "
          "descending order",
          COMPILES(MeshMisread)),
    FAULT("permuted-mesh", "v1-misread, v2-misread and mesh-misread together",
          COMPILES(PermutedMesh)),
    FAULT("uneven-parameter",
          "a parameter with a dimension that its sharding in HLO, which "
          "GSPMD reads, splits unevenly is laid out whole on each device",
          COMPILES(UnevenParameter)),
    {.name = NULL},
};
