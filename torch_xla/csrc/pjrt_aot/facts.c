// What the inner plugin tells of a compiled program.

#include "torch_xla/csrc/pjrt_aot/internal.h"

static double FloatOr(const AbiNamedValue* value, double absent) {
  if (value == NULL) return absent;
  if (value->type == kAbiValueInt64) return (double)value->int64_value;
  return value->type == kAbiValueFloat ? value->float_value : absent;
}

static void ReadMemory(PJRT_Executable* inner, PjrtAot_Program* facts) {
  AbiExecutableGetCompiledMemoryStatsArgs memory = {.executable = inner,
                                                    .peak_memory_in_bytes = -1};
  PJRT_Error* error = AOT_INNER(ExecutableGetCompiledMemoryStats, &memory);
  if (error != NULL) {
    ShardyFreeError(error);
    return;
  }
  facts->generated_code = memory.generated_code_size_in_bytes;
  facts->arguments = memory.argument_size_in_bytes;
  facts->outputs = memory.output_size_in_bytes;
  facts->aliases = memory.alias_size_in_bytes;
  facts->temporaries = memory.temp_size_in_bytes;
  facts->peak = memory.peak_memory_in_bytes;
}

static void ReadCosts(PJRT_Executable* inner, PjrtAot_Program* facts) {
  AbiExecutableGetCostAnalysisArgs costs = {.executable = inner};
  PJRT_Error* error = AOT_INNER(ExecutableGetCostAnalysis, &costs);
  if (error != NULL) {
    ShardyFreeError(error);
    return;
  }
  const size_t count = costs.num_properties;
  facts->flops = FloatOr(ShardyFindValue(costs.properties, count, "flops"), -1);
  facts->bytes_accessed =
      FloatOr(ShardyFindValue(costs.properties, count, "bytes accessed"), -1);
}

PjrtAot_Program AotReadFacts(PJRT_Executable* inner) {
  PjrtAot_Program facts = {.struct_size = sizeof(facts),
                           .generated_code = -1,
                           .arguments = -1,
                           .outputs = -1,
                           .aliases = -1,
                           .temporaries = -1,
                           .peak = -1,
                           .flops = -1,
                           .bytes_accessed = -1};
  ReadMemory(inner, &facts);
  ReadCosts(inner, &facts);
  return facts;
}
