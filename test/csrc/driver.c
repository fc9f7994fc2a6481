// Runs scenarios against the shim. Meant to be run under valgrind and, built
// with them, under the address and undefined-behaviour sanitizers.
//
//   driver SHIM INNER NOT_A_PLUGIN SCENARIO[,VARIABLE=VALUE]...  ...
//   driver --list

#include "test/csrc/driver.h"

Shim shim;
const char* shim_path;
const char* inner_path;
const char* not_a_plugin_path;

static void LoadShim(void) {
  void* library = LoadLibrary(shim_path);
  *(void**)&shim.get_api = FindSymbol(library, "GetPjrtApi");
  *(void**)&shim.version = FindSymbol(library, "PjrtShardy_Version");
  *(void**)&shim.open = FindSymbol(library, "PjrtShardy_Open");
  *(void**)&shim.set_callback =
      FindSymbol(library, "PjrtShardy_SetCompileCallback");
  *(void**)&shim.leave_first_thread =
      FindSymbol(library, "PjrtShardy_LeaveFirstThread");
  *(void**)&shim.attribute = FindSymbol(library, "PjrtShardy_PluginAttribute");
  *(void**)&shim.device_kind = FindSymbol(library, "PjrtShardy_DeviceKind");
  *(void**)&shim.compile = FindSymbol(library, "PjrtShardy_CompileProgram");
  *(void**)&shim.message = FindSymbol(library, "PjrtShardy_CompileMessage");
  *(void**)&shim.compiled = FindSymbol(library, "PjrtShardy_CompiledProgram");
  *(void**)&shim.memory = FindSymbol(library, "PjrtShardy_CompiledMemory");
  *(void**)&shim.serialized =
      FindSymbol(library, "PjrtShardy_SerializedExecutable");
  *(void**)&shim.load = FindSymbol(library, "PjrtShardy_LoadExecutable");
  *(void**)&shim.reuse = FindSymbol(library, "PjrtShardy_ReuseExecutable");
  *(void**)&shim.keep = FindSymbol(library, "PjrtShardy_KeepExecutable");
  *(void**)&shim.set_optimized =
      FindSymbol(library, "PjrtShardy_SetOptimizedProgram");
  *(void**)&shim.fail = FindSymbol(library, "PjrtShardy_Fail");
}

const AbiApi* OpenInner(void) {
  char message[512] = "unwritten";
  int code = shim.open(inner_path, message, sizeof(message));
  if (code != 0) fprintf(stderr, "%s\n", message);
  CHECK(code == 0);
  CHECK(message[0] == '\0');
  return shim.get_api();
}

const AbiApi* InnerApi(void) {
  const AbiApi* (*get)(void);
  *(void**)&get = FindSymbol(LoadLibrary(inner_path), "GetPjrtApi");
  return get();
}

const FakeRecord* Record(void) {
  const FakeRecord* (*get)(void);
  *(void**)&get = FindSymbol(LoadLibrary(inner_path), FAKE_PLUGIN_RECORD);
  return get();
}

void ExpectNothingAlive(void) {
  CHECK(Record()->live_errors == 0);
  CHECK(Record()->live_loaded_executables == 0);
  CHECK(Record()->live_executables == 0);
  CHECK(Record()->live_serialized == 0);
}

static const Scenario* const groups[] = {
    open_scenarios,    attribute_scenarios, compile_scenarios,
    answer_scenarios,  cache_scenarios,     callback_scenarios,
    execute_scenarios, kept_scenarios,      NULL};

int main(int argc, char** argv) {
  const bool lists = argc == 2;
  if (!lists) {
    if (argc < 5) {
      fprintf(stderr, "usage: driver SHIM INNER NOT_A_PLUGIN SCENARIO...\n");
      return 2;
    }
    shim_path = argv[1];
    inner_path = argv[2];
    not_a_plugin_path = argv[3];
  }
  const int first = lists ? 1 : 4;
  return RunScenarios(argc - first, argv + first, groups, LoadShim);
}
