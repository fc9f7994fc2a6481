#include "test/csrc/wrong_plugin/compiled.h"

#include "test/csrc/wrong_plugin/fields.h"

static bool ModuleOf(const char* code, size_t size, AotWire* module) {
  AotWire wire = AotWireOf(code, size);
  AotField field;
  if (!NextOf(&wire, kWithConfigModule, &field)) return false;
  *module = AotWireIn(&field);
  return !module->malformed;
}

bool SplitsParameters(const char* code, size_t size) {
  AotWire module;
  AotField sharding, tiles;
  if (!ModuleOf(code, size, &module)) return false;
  while (NextOf(&module, kModuleParameterShardings, &sharding)) {
    AotWire inside = AotWireIn(&sharding);
    if (NextOf(&inside, kShardingTiles, &tiles)) return true;
  }
  return false;
}

static void ReplicateIn(const char* code, size_t size, int number) {
  AotWire module;
  AotField sharding, part;
  if (!ModuleOf(code, size, &module)) return;
  while (NextOf(&module, number, &sharding)) {
    AotWire tuple = AotWireIn(&sharding);
    bool is_tuple = false;
    while (NextOf(&tuple, kShardingTuple, &part)) {
      is_tuple = true;
      Replicate(AotWireIn(&part));
    }
    if (!is_tuple) Replicate(AotWireIn(&sharding));
  }
}

void ReplicateOutputs(char* code, size_t size) {
  ReplicateIn(code, size, kModuleOutputSharding);
}

void ReplicateParameters(char* code, size_t size) {
  ReplicateIn(code, size, kModuleParameterShardings);
}
