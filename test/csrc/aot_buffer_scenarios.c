// Buffers, what is read of them, and events.

#include "test/csrc/aot_driver.h"

static void Buffer(void) {
  World world = Open("fake:8");
  PJRT_Device* device = Local(world, 2);
  int64_t dims[] = {3, 5, 7};
  PJRT_Buffer* buffer = Upload(world, device, kTypeF32, dims, 3);
  dims[1] = 0;  // was copied
  AbiBufferElementTypeArgs type = {.buffer = buffer};
  CALL(world, BufferElementType, &type);
  CHECK(type.type == kTypeF32);
  AbiBufferDimensionsArgs has = {.buffer = buffer};
  CALL(world, BufferDimensions, &has);
  CHECK(has.num_dims == 3 && has.dims[0] == 3 && has.dims[1] == 5);
  AbiBufferUnpaddedDimensionsArgs unpadded = {.buffer = buffer};
  CALL(world, BufferUnpaddedDimensions, &unpadded);
  CHECK(unpadded.num_dims == 3 && unpadded.unpadded_dims[2] == 7);
  AbiBufferDynamicDimensionIndicesArgs dynamic = {.buffer = buffer,
                                                  .num_dynamic_dims = 5};
  CALL(world, BufferDynamicDimensionIndices, &dynamic);
  CHECK(dynamic.num_dynamic_dims == 0);
  AbiBufferGetMemoryLayoutArgs layout = {.buffer = buffer};
  CALL(world, BufferGetMemoryLayout, &layout);
  CHECK(layout.layout.type == 0);
  CHECK(layout.layout.tiled.minor_to_major_size == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(layout.layout.tiled.minor_to_major[i] == 2 - i);
  }
  AbiBufferOnDeviceSizeInBytesArgs size = {.buffer = buffer};
  CALL(world, BufferOnDeviceSizeInBytes, &size);
  CHECK(size.on_device_size_in_bytes == 3 * 5 * 7 * 4);
  AbiBufferDeviceArgs where = {.buffer = buffer};
  CALL(world, BufferDevice, &where);
  CHECK(where.device == device);
  AbiBufferIsOnCpuArgs cpu = {.buffer = buffer, .is_on_cpu = true};
  CALL(world, BufferIsOnCpu, &cpu);
  CHECK(!cpu.is_on_cpu);
  CHECK(!IsDeleted(world, buffer));
  CHECK(Counters().buffers == 1);
  DestroyBuffer(world, buffer);
  DestroyBuffer(world, NULL);
  Close(world);
}

static void BufferErrors(void) {
  World world = Open("fake:8");
  int64_t dims[] = {4, -1};
  AbiClientBufferFromHostBufferArgs args = {.client = world.client,
                                            .type = kTypeF32,
                                            .dims = dims,
                                            .num_dims = 2,
                                            .device = Local(world, 0)};
  REFUSED(world, ClientBufferFromHostBuffer, &args, kAbiInvalidArgument,
          "dimension 1 of 2");
  dims[0] = dims[1] = (int64_t)1 << 40;
  REFUSED(world, ClientBufferFromHostBuffer, &args, kAbiInvalidArgument,
          "too large");
  args.dims = NULL;
  REFUSED(world, ClientBufferFromHostBuffer, &args, kAbiInvalidArgument,
          "dimension 0 of 2");
  args.num_dims = 0;
  args.type = 99;
  REFUSED(world, ClientBufferFromHostBuffer, &args, kAbiInvalidArgument,
          "unknown element type 99");
  args.type = -1;
  REFUSED(world, ClientBufferFromHostBuffer, &args, kAbiInvalidArgument,
          "unknown element type -1");
  args.type = kTypeF32;
  args.device = NULL;
  REFUSED(world, ClientBufferFromHostBuffer, &args, kAbiInvalidArgument,
          "no device");
  AbiClientDevicesArgs all = {.client = world.client};
  CALL(world, ClientDevices, &all);
  args.device = all.devices[7];
  REFUSED(world, ClientBufferFromHostBuffer, &args, kAbiInvalidArgument,
          "device 7 is not addressable");
  Close(world);
}

static void Copies(void) {
  World world = Open("fake:8");
  PJRT_Buffer* buffer =
      Upload(world, Local(world, 0), kTypeBf16, (int64_t[]){6}, 1);
  AbiDeviceAddressableMemoriesArgs memories = {.device = Local(world, 1)};
  CALL(world, DeviceAddressableMemories, &memories);
  AbiBufferCopyToMemoryArgs to_memory = {.buffer = buffer,
                                         .dst_memory = memories.memories[1]};
  CALL(world, BufferCopyToMemory, &to_memory);
  AbiBufferMemoryArgs memory = {.buffer = to_memory.dst_buffer};
  CALL(world, BufferMemory, &memory);
  CHECK(memory.memory == memories.memories[1]);
  AbiBufferElementTypeArgs type = {.buffer = to_memory.dst_buffer};
  CALL(world, BufferElementType, &type);
  CHECK(type.type == kTypeBf16);
  DestroyBuffer(world, to_memory.dst_buffer);
  to_memory.dst_memory = NULL;
  REFUSED(world, BufferCopyToMemory, &to_memory, kAbiInvalidArgument,
          "no device");
  AbiBufferDeleteArgs drop = {.buffer = buffer};
  CALL(world, BufferDelete, &drop);
  REFUSED(world, BufferCopyToMemory, &to_memory, kAbiFailedPrecondition,
          "donated or deleted");
  DestroyBuffer(world, buffer);
  Close(world);
}

static void Reads(void) {
  World world = Open("fake:8");
  PJRT_Buffer* buffer =
      Upload(world, Local(world, 0), kTypeF32, (int64_t[]){2, 3}, 2);
  AbiBufferToHostBufferArgs read = {.src = buffer};
  CALL(world, BufferToHostBuffer, &read);
  CHECK(read.dst_size == 24);
  CHECK(Counters().reads == 0);
  char bytes[40];
  memset(bytes, 1, sizeof(bytes));
  read.dst = bytes;
  read.dst_size = 23;
  REFUSED(world, BufferToHostBuffer, &read, kAbiInvalidArgument,
          "has 24 bytes, and there is room for 23");
  CHECK(bytes[0] == 1);
  read.dst_size = 32;
  CALL(world, BufferToHostBuffer, &read);
  CHECK(read.event != NULL);
  for (int i = 0; i < 40; ++i) CHECK(bytes[i] == (i >= 32));
  CHECK(Counters().reads == 1);
  AbiBufferDeleteArgs drop = {.buffer = buffer};
  CALL(world, BufferDelete, &drop);
  REFUSED(world, BufferToHostBuffer, &read, kAbiFailedPrecondition, "deleted");
  DestroyBuffer(world, buffer);
  Close(world);
}

static void ReadsRefused(void) {
  PjrtAot_Options options = Options("fake:8");
  options.refuse_reads = 1;
  World world = OpenWith(&options);
  PJRT_Buffer* buffer = Upload(world, Local(world, 0), kTypeF32, NULL, 0);
  float value = 5;
  AbiBufferToHostBufferArgs read = {.src = buffer};
  CALL(world, BufferToHostBuffer, &read);  // only the size
  CHECK(read.dst_size == 4);
  read.dst = &value;
  REFUSED(world, BufferToHostBuffer, &read, kAbiFailedPrecondition,
          "there are no values ahead of time");
  CHECK(value == 5);
  CHECK(Counters().reads == 1);
  DestroyBuffer(world, buffer);
  Close(world);
}

static int called = 0;
static PJRT_Error* called_with = NULL;

static void OnReady(PJRT_Error* error, void* user) {
  CHECK(user == &called);
  ++called;
  called_with = error;
}

static void Events(void) {
  World world = Open("fake:8");
  PJRT_Buffer* buffer = Upload(world, Local(world, 0), kTypeF32, NULL, 0);
  AbiBufferReadyEventArgs ready = {.buffer = buffer};
  CALL(world, BufferReadyEvent, &ready);
  AbiEventIsReadyArgs is = {.event = ready.event};
  CALL(world, EventIsReady, &is);
  CHECK(is.is_ready);
  AbiEventErrorArgs state = {.event = ready.event};
  CALL(world, EventError, &state);
  AbiEventOnReadyArgs on = {.event = ready.event, .user_arg = &called};
  REFUSED(world, EventOnReady, &on, kAbiInvalidArgument, "no callback");
  on.callback = OnReady;
  CALL(world, EventOnReady, &on);
  CHECK(called == 1 && called_with == NULL);
  // After it was deleted, the event fails, whoever asks.
  AbiBufferDeleteArgs drop = {.buffer = buffer};
  CALL(world, BufferDelete, &drop);
  CALL(world, BufferReadyEvent, &ready);
  is.event = state.event = on.event = ready.event;
  CALL(world, EventIsReady, &is);
  CHECK(is.is_ready);
  REFUSED(world, EventError, &state, kAbiFailedPrecondition, "deleted");
  AbiEventAwaitArgs await = {.event = ready.event};
  REFUSED(world, EventAwait, &await, kAbiFailedPrecondition, "deleted");
  CALL(world, EventOnReady, &on);
  CHECK(called == 2);
  ExpectError(world.api, called_with, kAbiFailedPrecondition, "deleted");
  AbiEventDestroyArgs destroy = {.event = ready.event};
  CALL(world, EventDestroy, &destroy);
  destroy.event = NULL;
  CALL(world, EventDestroy, &destroy);
  DestroyBuffer(world, buffer);
  Close(world);
}

const Scenario aot_buffer_scenarios[] = {{"buffer", Buffer},
                                         {"buffer_errors", BufferErrors},
                                         {"buffer_copies", Copies},
                                         {"reads", Reads},
                                         {"reads_refused", ReadsRefused},
                                         {"events", Events},
                                         {NULL, NULL}};
