// PjrtAot_TryCompile: what the plugin that compiles says to a program.

#include "torch_xla/csrc/pjrt_aot/internal.h"

static PJRT_Error* TryCompile(const PjrtAot_Options* where,
                              AbiCompileArgs* compile) {
  PJRT_TopologyDescription* topology = NULL;
  PJRT_Error* error = AotCreateTopology(where, &topology);
  if (error != NULL) return error;
  compile->topology = topology;
  error = AOT_INNER(Compile, compile);
  if (error == NULL) {
    AbiExecutableDestroyArgs destroy = {.executable = compile->executable};
    ShardyFreeError(AOT_INNER(ExecutableDestroy, &destroy));
  }
  AbiTopologyDescriptionDestroyArgs destroy = {.topology = topology};
  ShardyFreeError(AOT_INNER(TopologyDescriptionDestroy, &destroy));
  return error;
}

SHARDY_EXPORT int PjrtAot_TryCompile(const PjrtAot_Options* where,
                                     const char* program, size_t program_size,
                                     const char* format, size_t format_size,
                                     const char* options, size_t options_size,
                                     char* message, size_t message_size) {
  if (message != NULL && message_size > 0) message[0] = '\0';
  if (AotGetWorld() == NULL) {
    return ShardyFailOpen(message, message_size, kAbiFailedPrecondition,
                          "no topology is open: call PjrtAot_Open");
  }
  const AbiProgram given = {sizeof(given), NULL,   (char*)program,
                            program_size,  format, format_size};
  AbiCompileArgs compile = {.program = &given,
                            .compile_options = options,
                            .compile_options_size = options_size};
  PJRT_Error* error = TryCompile(where, &compile);
  if (error == NULL) return kAbiOk;
  return AotGiveReason(error, NULL, message, message_size);
}
