// Which devices a program is for, from its compile options.

#include <stdlib.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

// Field numbers of xla/pjrt/proto/compile_options.proto and xla_data.proto.
enum {
  kOptionsBuildOptions = 3,
  kBuildAssignment = 9,
  kAssignmentReplicas = 1,
  kAssignmentPartitions = 2,
  kAssignmentPartition = 3,
  kPartitionIds = 1,
};

static PJRT_Error* Malformed(void) {
  return ShardyError(
      kAbiInvalidArgument,
      "PJRT_Client_Compile: the compile options are no CompileOptionsProto "
      "with a device for each replica and partition");
}

// Appends the ids of one partition's list.
static PJRT_Error* ReadList(const AotField* list, AotInts* ids) {
  AotWire wire = AotWireIn(list);
  AotField field;
  while (AotNextField(&wire, &field)) {
    if (field.number != kPartitionIds) continue;
    const AotReadResult result = AotReadInts(&field, ids);
    if (result == kAotNoMemory) return ShardyNoMemory(kSlotClientCompile);
    if (result == kAotMalformed) return Malformed();
  }
  return wire.malformed ? Malformed() : NULL;
}

// The ids of a DeviceAssignmentProto, which has a list of replicas for each
// partition. The caller frees `ids`, all of one partition together.
static PJRT_Error* ReadIds(AotWire wire, AotAssignment* assignment,
                           AotInts* ids) {
  size_t lists = 0;
  size_t in_first = 0;
  AotField field;
  while (AotNextField(&wire, &field)) {
    if (field.number == kAssignmentReplicas) {
      assignment->replicas = field.value;
    } else if (field.number == kAssignmentPartitions) {
      assignment->partitions = field.value;
    } else if (field.number == kAssignmentPartition) {
      const size_t before = ids->count;
      PJRT_Error* error = ReadList(&field, ids);
      if (error != NULL) return error;
      if (lists++ == 0) in_first = ids->count;
      if (ids->count - before != in_first) return Malformed();
    }
  }
  return wire.malformed || in_first == 0 || in_first != assignment->replicas ||
                 lists != assignment->partitions
             ? Malformed()
             : NULL;
}

// Checks the ids, and turns them so that those of one replica are together.
static PJRT_Error* TakeIds(const AotWorld* world, const AotInts* given,
                           AotAssignment* assignment) {
  const size_t replicas = assignment->replicas;
  const size_t partitions = assignment->partitions;
  assignment->ids = malloc((given->count + 1) * sizeof(int64_t));
  if (assignment->ids == NULL) return ShardyNoMemory(kSlotClientCompile);
  for (size_t partition = 0; partition < partitions; ++partition) {
    for (size_t replica = 0; replica < replicas; ++replica) {
      const int64_t id = given->values[partition * replicas + replica];
      if (AotFindDevice(world, id) == NULL) {
        return ShardyError(kAbiInvalidArgument,
                           "PJRT_Client_Compile: the program is for device "
                           "%lld, which topology %s does not have",
                           (long long)id, world->topology_name);
      }
      assignment->ids[replica * partitions + partition] = id;
    }
  }
  return NULL;
}

PJRT_Error* AotReadAssignment(const AotWorld* world, const char* options,
                              size_t size, AotAssignment* assignment) {
  *assignment = (AotAssignment){0};
  AotWire wire = AotWireOf(options, size);
  if (!AotDescend(&wire, kOptionsBuildOptions) ||
      !AotDescend(&wire, kBuildAssignment)) {
    return Malformed();
  }
  AotInts ids = {0};
  PJRT_Error* error = ReadIds(wire, assignment, &ids);
  if (error == NULL) error = TakeIds(world, &ids, assignment);
  free(ids.values);
  return error;
}
