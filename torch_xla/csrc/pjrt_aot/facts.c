// What the inner plugin tells of a compiled program.

#include "torch_xla/csrc/pjrt_aot/internal.h"

// Negative where the plugin does not tell.
static double Cost(const AbiNamedValue* values, size_t count,
                   const char* name) {
  const AbiNamedValue* value = ShardyFindValue(values, count, name);
  if (value == NULL) return -1;
  if (value->type == kAbiValueInt64) return (double)value->int64_value;
  return value->type == kAbiValueFloat ? value->float_value : -1;
}

PjrtAot_Program AotReadFacts(PJRT_Executable* inner) {
  AbiExecutableGetCostAnalysisArgs costs = {.executable = inner};
  PJRT_Error* error = AOT_INNER(ExecutableGetCostAnalysis, &costs);
  const size_t count = error == NULL ? costs.num_properties : 0;
  ShardyFreeError(error);
  return (PjrtAot_Program){
      .flops = Cost(costs.properties, count, "flops"),
      .bytes_accessed = Cost(costs.properties, count, "bytes accessed")};
}
