// What the inner plugin tells of a compiled program.

#include "torch_xla/csrc/pjrt_aot/internal.h"

static double FloatOr(const AbiNamedValue* value, double absent) {
  if (value == NULL) return absent;
  if (value->type == kAbiValueInt64) return (double)value->int64_value;
  return value->type == kAbiValueFloat ? value->float_value : absent;
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
  PjrtAot_Program facts = {
      .struct_size = sizeof(facts), .flops = -1, .bytes_accessed = -1};
  ReadCosts(inner, &facts);
  return facts;
}
