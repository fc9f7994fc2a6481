// PJRT_Client_Compile, and what is kept of a compiled program.

#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

static void FreeInner(PJRT_Executable* inner) {
  AbiExecutableDestroyArgs destroy = {.executable = inner};
  ShardyFreeError(AOT_INNER(ExecutableDestroy, &destroy));
}

void AotReleaseExecutable(PJRT_Executable* executable) {
  if (atomic_fetch_sub(&executable->references, 1) > 1) return;
  FreeInner(executable->inner);
  free(executable->outputs);
  free(executable);
}

// Copies what the inner plugin tells of the outputs, but for their memories.
static PJRT_Error* ReadOutputs(PJRT_Executable* executable) {
  AbiExecutableNumOutputsArgs count = {.executable = executable->inner};
  PJRT_Error* error = AOT_INNER(ExecutableNumOutputs, &count);
  if (error != NULL) return error;
  AbiExecutableOutputElementTypesArgs types = {.executable = executable->inner};
  error = AOT_INNER(ExecutableOutputElementTypes, &types);
  if (error != NULL) return error;
  AbiExecutableOutputDimensionsArgs dims = {.executable = executable->inner};
  error = AOT_INNER(ExecutableOutputDimensions, &dims);
  if (error != NULL) return error;
  const size_t outputs = executable->num_outputs = count.num_outputs;
  if (types.num_output_types != outputs || dims.num_outputs != outputs) {
    return ShardyError(kAbiInternal,
                       "PJRT_Client_Compile: the inner plugin tells of %zu "
                       "outputs, %zu types and %zu lists of dimensions",
                       outputs, types.num_output_types, dims.num_outputs);
  }
  size_t all_dims = 0;
  for (size_t i = 0; i < outputs; ++i) all_dims += dims.dim_sizes[i];
  executable->outputs =
      calloc(1, outputs * sizeof(AotOutput) + (all_dims + 1) * sizeof(int64_t));
  if (executable->outputs == NULL) return ShardyNoMemory(kSlotClientCompile);
  int64_t* next = (int64_t*)(executable->outputs + outputs);
  if (all_dims > 0) memcpy(next, dims.dims, all_dims * sizeof(int64_t));
  for (size_t i = 0; i < outputs; ++i) {
    AotOutput* output = &executable->outputs[i];
    output->type = types.output_types[i];
    output->num_dims = dims.dim_sizes[i];
    output->dims = next;
    next += output->num_dims;
  }
  return NULL;
}

static PJRT_Error* ReadOutputMemories(PJRT_Executable* executable) {
  AbiExecutableOutputMemoryKindsArgs kinds = {.executable = executable->inner};
  PJRT_Error* error = AOT_INNER(ExecutableOutputMemoryKinds, &kinds);
  if (error != NULL) {
    // Then there is one kind of memory.
    if (ShardyErrorCode(error) != kAbiUnimplemented) return error;
    ShardyFreeError(error);
    return NULL;
  }
  if (kinds.num_outputs != executable->num_outputs) {
    return ShardyError(kAbiInternal,
                       "PJRT_Client_Compile: the inner plugin tells of %zu "
                       "outputs and of the memories of %zu",
                       executable->num_outputs, kinds.num_outputs);
  }
  for (size_t i = 0; i < kinds.num_outputs; ++i) {
    const char* name = kinds.memory_kinds[i];
    const size_t size = kinds.memory_kind_sizes[i];
    const char* host = AotMemoryKindName(kAotPinnedHost);
    // What else there may be is the device's.
    const bool is_host = size == strlen(host) && memcmp(name, host, size) == 0;
    executable->outputs[i].memory = is_host ? kAotPinnedHost : kAotDeviceMemory;
  }
  return NULL;
}

// Negative where the plugin does not tell.
static double Cost(const AbiNamedValue* values, size_t count,
                   const char* name) {
  const AbiNamedValue* value = ShardyFindValue(values, count, name);
  if (value == NULL) return -1;
  if (value->type == kAbiValueInt64) return (double)value->int64_value;
  return value->type == kAbiValueFloat ? value->float_value : -1;
}

// What the inner plugin tells of the program's costs.
static PjrtAot_Program ReadFacts(PJRT_Executable* inner) {
  AbiExecutableGetCostAnalysisArgs costs = {.executable = inner};
  PJRT_Error* error = AOT_INNER(ExecutableGetCostAnalysis, &costs);
  const size_t count = error == NULL ? costs.num_properties : 0;
  ShardyFreeError(error);
  return (PjrtAot_Program){
      .flops = Cost(costs.properties, count, "flops"),
      .bytes_accessed = Cost(costs.properties, count, "bytes accessed")};
}

// Takes over a compiled program, also where it fails.
static PJRT_Error* MakeExecutable(const AotWorld* world, PJRT_Executable* inner,
                                  PJRT_Executable** made) {
  PJRT_Executable* executable = calloc(1, sizeof(*executable));
  if (executable == NULL) {
    FreeInner(inner);
    return ShardyNoMemory(kSlotClientCompile);
  }
  atomic_init(&executable->references, 1);
  executable->inner = inner;
  PJRT_Error* error = ReadOutputs(executable);
  if (error == NULL) error = ReadOutputMemories(executable);
  if (error == NULL) {
    const PjrtAot_Program facts = ReadFacts(inner);
    executable->program = AotKeepProgram(&facts, world->num_local);
    if (executable->program == NULL) error = ShardyNoMemory(kSlotClientCompile);
  }
  if (error == NULL) {
    *made = executable;
  } else {
    AotReleaseExecutable(executable);
  }
  return error;
}

static PJRT_Error* Compile(const AotWorld* world,
                           const AbiClientCompileArgs* args,
                           PJRT_LoadedExecutable* loaded) {
  AbiCompileArgs compile = {.topology = world->topology,
                            .program = args->program,
                            .compile_options = args->compile_options,
                            .compile_options_size = args->compile_options_size};
  PJRT_Error* error = AOT_INNER(Compile, &compile);
  if (error != NULL) return error;
  return MakeExecutable(world, compile.executable, &loaded->executable);
}

PJRT_Error* AotClientCompile(AbiClientCompileArgs* args) {
  AotForgetLastProgram();
  AOT_ENTER_WITH(Client, Compile, client, executable);
  if (args->program == NULL ||
      !ABI_HOLDS(AbiProgram, format_size, args->program->struct_size)) {
    return ShardyError(kAbiInvalidArgument,
                       "PJRT_Client_Compile: no program was given, or its "
                       "struct is too small");
  }
  PJRT_LoadedExecutable* loaded = calloc(1, sizeof(*loaded));
  if (loaded == NULL) return ShardyNoMemory(kSlotClientCompile);
  PJRT_Error* error = Compile(args->client->world, args, loaded);
  if (error == NULL) {
    args->executable = loaded;
  } else {
    free(loaded);
  }
  return error;
}
