#include "test/csrc/wrong_plugin/compiled.h"

#include "test/csrc/wrong_plugin/fields.h"

static bool ModuleOf(const char* code, size_t size, Wire* module) {
  Wire wire = WireOf(code, size);
  WireField field;
  if (!NextOf(&wire, kWithConfigModule, &field)) return false;
  *module = WireIn(&field);
  return !module->malformed;
}

bool SplitsParameters(const char* code, size_t size) {
  Wire module;
  WireField sharding, tiles;
  if (!ModuleOf(code, size, &module)) return false;
  while (NextOf(&module, kModuleParameterShardings, &sharding)) {
    Wire inside = WireIn(&sharding);
    if (NextOf(&inside, kShardingTiles, &tiles)) return true;
  }
  return false;
}

static void ReplicateIn(const char* code, size_t size, int number) {
  Wire module;
  WireField sharding, part;
  if (!ModuleOf(code, size, &module)) return;
  while (NextOf(&module, number, &sharding)) {
    Wire tuple = WireIn(&sharding);
    bool is_tuple = false;
    while (NextOf(&tuple, kShardingTuple, &part)) {
      is_tuple = true;
      Replicate(WireIn(&part));
    }
    if (!is_tuple) Replicate(WireIn(&sharding));
  }
}

void ReplicateOutputs(char* code, size_t size) {
  ReplicateIn(code, size, kModuleOutputSharding);
}

void ReplicateParameters(char* code, size_t size) {
  ReplicateIn(code, size, kModuleParameterShardings);
}
