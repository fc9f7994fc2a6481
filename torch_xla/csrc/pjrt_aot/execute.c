// PJRT_LoadedExecutable_Execute: gives buffers as the program describes its
// outputs, and computes nothing.

#include "torch_xla/csrc/pjrt_aot/internal.h"

#define EXECUTE "PJRT_LoadedExecutable_Execute: "

typedef struct {
  const AbiLoadedExecutableExecuteArgs* args;
  PJRT_Buffer* const* const* arguments;  // of each device
  PJRT_Buffer** const* outputs;          // likewise
  const PJRT_Executable* executable;
  PJRT_Device* const* devices;
} Execution;

// Which devices are asked for, and whether they are this host's.
static PJRT_Error* CheckDevices(Execution* execution, PJRT_Device** single) {
  const AbiLoadedExecutableExecuteArgs* args = execution->args;
  *single = args->execute_device;
  execution->devices = *single != NULL ? single : AotGetWorld()->local;
  const size_t wanted = *single != NULL ? 1 : AotGetWorld()->num_local;
  if (*single != NULL && (*single)->local < 0) {
    return ShardyError(kAbiInvalidArgument,
                       EXECUTE "device %d is not addressable from this host",
                       (int)(*single)->facts.id);
  }
  if (args->num_devices != wanted) {
    return ShardyError(kAbiInvalidArgument,
                       EXECUTE
                       "arguments were given for %zu devices, and the program "
                       "runs on %zu of this host",
                       args->num_devices, wanted);
  }
  return NULL;
}

static PJRT_Error* CheckArgument(const Execution* execution, size_t device,
                                 size_t position) {
  const PJRT_Buffer* buffer = execution->arguments[device][position];
  const PJRT_Device* where = execution->devices[device];
  const int id = (int)where->facts.id;
  if (buffer == NULL) {
    return ShardyError(kAbiInvalidArgument,
                       EXECUTE "argument %zu of device %d is NULL", position,
                       id);
  }
  if (atomic_load(&buffer->deleted)) {
    return ShardyError(kAbiFailedPrecondition,
                       EXECUTE
                       "argument %zu of device %d was donated or deleted",
                       position, id);
  }
  if (buffer->memory->device != where) {
    return ShardyError(kAbiInvalidArgument,
                       EXECUTE "argument %zu of device %d is on device %d",
                       position, id, (int)buffer->memory->device->facts.id);
  }
  return NULL;
}

static PJRT_Error* CheckArguments(const Execution* execution) {
  const AbiLoadedExecutableExecuteArgs* args = execution->args;
  for (size_t device = 0; device < args->num_devices; ++device) {
    if ((args->num_args > 0 && (execution->arguments == NULL ||
                                execution->arguments[device] == NULL)) ||
        (execution->executable->num_outputs > 0 &&
         (execution->outputs == NULL || execution->outputs[device] == NULL))) {
      return ShardyError(kAbiInvalidArgument,
                         EXECUTE "a list of arguments or outputs is NULL");
    }
    for (size_t position = 0; position < args->num_args; ++position) {
      PJRT_Error* error = CheckArgument(execution, device, position);
      if (error != NULL) return error;
    }
  }
  return NULL;
}

// Frees the first `count` outputs, those of one device after another.
static void FreeOutputs(const Execution* execution, size_t count) {
  const size_t each = execution->executable->num_outputs;
  for (size_t i = 0; i < count; ++i) {
    PJRT_Buffer** output = &execution->outputs[i / each][i % each];
    AotFreeBuffer(*output);
    *output = NULL;
  }
}

// What else is on the first device, though no argument.
static int64_t BytesBeside(const Execution* execution) {
  PJRT_Device* device = execution->devices[0];
  int64_t bytes = atomic_load(&device->memory_list[kAotDeviceMemory]->held);
  for (size_t i = 0; i < execution->args->num_args; ++i) {
    const PJRT_Buffer* buffer = execution->arguments[0][i];
    if (buffer->memory == device->memory_list[kAotDeviceMemory]) {
      bytes -= (int64_t)AotBufferBytes(buffer);
    }
  }
  return bytes;
}

static PJRT_Error* MakeOutputs(const Execution* execution) {
  const PJRT_Executable* executable = execution->executable;
  const size_t each = executable->num_outputs;
  const size_t count = each * execution->args->num_devices;
  for (size_t i = 0; i < count; ++i) {
    const AotOutput* output = &executable->outputs[i % each];
    PJRT_Device* device = execution->devices[i / each];
    PJRT_Buffer* buffer =
        AotMakeBuffer(output->type, output->dims, output->num_dims,
                      device->memory_list[output->memory]);
    if (buffer == NULL) {
      FreeOutputs(execution, i);
      return ShardyNoMemory(kSlotLoadedExecutableExecute);
    }
    execution->outputs[i / each][i % each] = buffer;
  }
  return NULL;
}

// Whether the caller keeps an argument that the program may write over.
static bool Kept(const AbiExecuteOptions* options, int64_t position) {
  if (options == NULL ||
      !ABI_HOLDS(AbiExecuteOptions, num_non_donatable_input_indices,
                 options->struct_size)) {
    return false;
  }
  for (size_t i = 0; i < options->num_non_donatable_input_indices; ++i) {
    if (options->non_donatable_input_indices[i] == position) return true;
  }
  return false;
}

static void Donate(const Execution* execution) {
  const AbiLoadedExecutableExecuteArgs* args = execution->args;
  const AotProgram* program = execution->executable->program;
  for (size_t i = 0; i < program->num_donated; ++i) {
    const int64_t position = program->donated[i];
    if (position < 0 || (size_t)position >= args->num_args ||
        Kept(args->options, position)) {
      continue;
    }
    for (size_t device = 0; device < args->num_devices; ++device) {
      AotDeleteBuffer(execution->arguments[device][position]);
    }
  }
}

PJRT_Error* AotLoadedExecutableExecute(AbiLoadedExecutableExecuteArgs* args) {
  AOT_ENTER_WITH(LoadedExecutable, Execute, executable, execute_device);
  if (atomic_load(&args->executable->deleted)) {
    return ShardyError(kAbiFailedPrecondition,
                       EXECUTE "the executable was deleted");
  }
  Execution execution = {.args = args,
                         .arguments = args->argument_lists,
                         .outputs = args->output_lists,
                         .executable = args->executable->executable};
  PJRT_Device* single;
  PJRT_Error* error = CheckDevices(&execution, &single);
  if (error == NULL) error = CheckArguments(&execution);
  if (error != NULL) return error;
  const int64_t beside = BytesBeside(&execution);
  error = MakeOutputs(&execution);
  if (error != NULL) return error;
  error = AotCountExecution(
      execution.executable->program,
      single != NULL ? (size_t)single->local : AotGetWorld()->num_local,
      beside);
  if (error != NULL) {
    FreeOutputs(&execution,
                execution.executable->num_outputs * args->num_devices);
    return error;
  }
  Donate(&execution);
  PJRT_Event** events = args->device_complete_events;
  for (size_t i = 0; events != NULL && i < args->num_devices; ++i) {
    events[i] = AotReadyEvent();
  }
  return NULL;
}
