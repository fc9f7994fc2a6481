// PJRT_LoadedExecutable_GetDeviceAssignment: a DeviceAssignmentProto of
// xla/xla_data.proto.

#include <stdlib.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

// Tags of its fields, and the most bytes that a number takes.
enum { kReplicas = 0x08, kPartitions = 0x10, kPartition = 0x1a, kIds = 0x0a };
enum { kVarintBytes = 10 };

struct PJRT_DeviceAssignmentSerialized {
  size_t size;
  unsigned char bytes[];
};

static void PutNumber(PJRT_DeviceAssignmentSerialized* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    to->bytes[to->size++] = (unsigned char)(value | 0x80);
  }
  to->bytes[to->size++] = (unsigned char)value;
}

static size_t NumberSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

// A list of the ids of all replicas, for one partition.
static void PutPartition(PJRT_DeviceAssignmentSerialized* to,
                         const AotAssignment* assignment, size_t partition) {
  const int64_t* ids = assignment->ids + partition;
  const size_t stride = assignment->partitions;
  size_t size = 0;
  for (size_t i = 0; i < assignment->replicas; ++i) {
    size += NumberSize((uint64_t)ids[i * stride]);
  }
  PutNumber(to, kPartition);
  PutNumber(to, 1 + NumberSize(size) + size);
  PutNumber(to, kIds);
  PutNumber(to, size);
  for (size_t i = 0; i < assignment->replicas; ++i) {
    PutNumber(to, (uint64_t)ids[i * stride]);
  }
}

static void Delete(PJRT_DeviceAssignmentSerialized* serialized) {
  free(serialized);
}

PJRT_Error* AotLoadedExecutableGetDeviceAssignment(
    AbiLoadedExecutableGetDeviceAssignmentArgs* args) {
  AOT_ENTER_WITH(LoadedExecutable, GetDeviceAssignment, executable,
                 serialized_device_assignment_deleter);
  const AotAssignment* assignment = &args->executable->executable->assignment;
  const size_t numbers =
      4 + (assignment->replicas + 4) * assignment->partitions;
  PJRT_DeviceAssignmentSerialized* made =
      malloc(sizeof(*made) + numbers * kVarintBytes);
  if (made == NULL) {
    return ShardyNoMemory(kSlotLoadedExecutableGetDeviceAssignment);
  }
  made->size = 0;
  PutNumber(made, kReplicas);
  PutNumber(made, assignment->replicas);
  PutNumber(made, kPartitions);
  PutNumber(made, assignment->partitions);
  for (size_t i = 0; i < assignment->partitions; ++i) {
    PutPartition(made, assignment, i);
  }
  args->serialized_bytes = (const char*)made->bytes;
  args->serialized_bytes_size = made->size;
  args->serialized_device_assignment = made;
  args->serialized_device_assignment_deleter = Delete;
  return NULL;
}
