#include "test/csrc/wrong_plugin/anything.h"

#include <string.h>

// CompileOptionsProto: executable_build_options of one replica and partition.
static const char kOptions[] = {0x1a, 4, 0x20, 1, 0x28, 1};

static AbiProgram Anything(void) {
  static char code[] =
      "module @anything {\n"
      "  func.func @main() -> tensor<f32> {\n"
      "    %0 = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "    return %0 : tensor<f32>\n"
      "  }\n"
      "}\n";
  return (AbiProgram){ABI_SIZE(AbiProgram, format_size),
                      NULL,
                      code,
                      strlen(code),
                      "mlir",
                      strlen("mlir")};
}

PJRT_Error* CompileAnything(PJRT_Client* client,
                            PJRT_LoadedExecutable** executable) {
  const AbiProgram program = Anything();
  AbiClientCompileArgs args = {ABI_SIZE(AbiClientCompileArgs, executable),
                               NULL,
                               client,
                               &program,
                               kOptions,
                               sizeof(kOptions),
                               NULL};
  PJRT_Error* error = CallInner(kSlotClientCompile, &args);
  *executable = args.executable;
  return error;
}

PJRT_Error* CompileAnythingAhead(const PJRT_TopologyDescription* topology,
                                 PJRT_Executable** executable) {
  const AbiProgram program = Anything();
  AbiCompileArgs args = {ABI_SIZE(AbiCompileArgs, executable),
                         NULL,
                         topology,
                         &program,
                         kOptions,
                         sizeof(kOptions),
                         NULL,
                         NULL};
  PJRT_Error* error = CallInner(kSlotCompile, &args);
  *executable = args.executable;
  return error;
}
