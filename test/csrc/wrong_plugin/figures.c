// Faults of figures: sizes, memory and cost.

#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/wrong_plugin.h"

static PJRT_Error* NegativeMemory(AbiDeviceMemoryStatsArgs* args) {
  args->bytes_in_use = -1;
  args->peak_bytes_in_use_is_set = false;
  args->bytes_limit = 1 << 30;
  args->bytes_limit_is_set = true;
  return NULL;
}

static PJRT_Error* MemoryNeverMoves(AbiDeviceMemoryStatsArgs* args) {
  args->bytes_in_use = 1 << 20;
  args->peak_bytes_in_use = 1 << 20;
  args->peak_bytes_in_use_is_set = true;
  args->bytes_limit = 1 << 30;
  args->bytes_limit_is_set = true;
  return NULL;
}

REFUSES(NoCostAnalysis, kAbiUnimplemented, "there is no cost analysis")

// In place of the plugin's own properties.
#define GIVES_FLOPS(name, flops)                                             \
  static PJRT_Error* name(AbiExecutableGetCostAnalysisArgs* args) {          \
    static const AbiNamedValue value = {ABI_SIZE(AbiNamedValue, value_size), \
                                        NULL,                                \
                                        "flops",                             \
                                        sizeof("flops") - 1,                 \
                                        kAbiValueFloat,                      \
                                        {.float_value = flops},              \
                                        1};                                  \
    args->properties = &value;                                               \
    args->num_properties = 1;                                                \
    return NULL;                                                             \
  }

GIVES_FLOPS(NoFlops, 0)
GIVES_FLOPS(NegativeFlops, -1)

static PJRT_Error* ZeroCompiledStats(
    AbiExecutableGetCompiledMemoryStatsArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableGetCompiledMemoryStats, args);
  args->argument_size_in_bytes = 0;
  args->output_size_in_bytes = 0;
  args->temp_size_in_bytes = 0;
  return error;
}

static PJRT_Error* OneOutputMore(AbiExecutableNumOutputsArgs* args) {
  PJRT_Error* error = CallInner(kSlotExecutableNumOutputs, args);
  args->num_outputs += 1;
  return error;
}

static PJRT_Error* NoSize(AbiBufferOnDeviceSizeInBytesArgs* args) {
  args->on_device_size_in_bytes = 0;
  return NULL;
}

static PJRT_Error* NoDimensions(AbiBufferDimensionsArgs* args) {
  PJRT_Error* error = CallInner(kSlotBufferDimensions, args);
  args->num_dims = 0;
  return error;
}

const Fault kFigureFaults[] = {
    FAULT("output-count", "every program has one output more than it has",
          {SPOILS(ExecutableNumOutputs, OneOutputMore)}),
    FAULT("buffer-size-zero", "every buffer takes 0 bytes on its device",
          {SPOILS(BufferOnDeviceSizeInBytes, NoSize)}),
    FAULT("buffer-dimensions", "every buffer is a scalar",
          {SPOILS(BufferDimensions, NoDimensions)}),
    FAULT("no-memory-stats", "the table has no PJRT_Device_MemoryStats",
          {SPOILS(DeviceMemoryStats, Absent)}),
    FAULT("memory-stats-negative", "-1 bytes are in use on each device",
          {SPOILS(DeviceMemoryStats, NegativeMemory)}),
    FAULT("memory-stats-constant", "always 1 MiB is in use on each device",
          {SPOILS(DeviceMemoryStats, MemoryNeverMoves)}),
    FAULT("no-cost-analysis", "PJRT_Executable_GetCostAnalysis: UNIMPLEMENTED",
          {SPOILS(ExecutableGetCostAnalysis, NoCostAnalysis)}),
    FAULT("cost-analysis-zero", "every program costs 0 flops",
          {SPOILS(ExecutableGetCostAnalysis, NoFlops)}),
    FAULT("cost-analysis-negative", "every program costs -1 flops",
          {SPOILS(ExecutableGetCostAnalysis, NegativeFlops)}),
    FAULT("compiled-memory-zero",
          "every program needs 0 bytes for arguments, outputs and scratch",
          {SPOILS(ExecutableGetCompiledMemoryStats, ZeroCompiledStats)}),
    {.name = NULL},
};
