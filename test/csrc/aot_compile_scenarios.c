// PJRT_Client_Compile, and what is known of a program.

#include "test/csrc/aot_run.h"

static void Compile(void) {
  World world = Open("fake:8");
  const FakeProgram program = TwoArguments();
  const Message options = {7, "options"};
  CHECK(aot.last_program() == -1);
  PJRT_LoadedExecutable* loaded = Compiled(world, &program, &options);
  CHECK(aot.last_program() == 0);
  // Handed on to the byte.
  CHECK(Fake()->compile_options_size == options.size);
  CHECK(memcmp(Fake()->compile_options, options.bytes, options.size) == 0);
  PJRT_LoadedExecutable* second = Compiled(world, &program, &options);
  CHECK(aot.last_program() == 1);

  AbiLoadedExecutableGetExecutableArgs get = {.loaded_executable = loaded};
  CALL(world, LoadedExecutableGetExecutable, &get);
  DestroyLoaded(world, loaded);
  CHECK(Fake()->live_executables == 2);
  AbiExecutableNumOutputsArgs outputs = {.executable = get.executable};
  CALL(world, ExecutableNumOutputs, &outputs);
  CHECK(outputs.num_outputs == 2);
  CHECK(outputs.executable == get.executable);
  AbiProgram optimized = {.struct_size = ABI_SIZE(AbiProgram, format_size)};
  AbiExecutableOptimizedProgramArgs read = {.executable = get.executable,
                                            .program = &optimized};
  CALL(world, ExecutableOptimizedProgram, &read);
  CHECK(optimized.code_size == program.optimized_size);
  AbiExecutableSerializeArgs serialize = {.executable = get.executable};
  REFUSED(world, ExecutableSerialize, &serialize, kAbiUnimplemented,
          "ahead of time");
  AbiExecutableDeserializeAndLoadArgs load = {.client = world.client};
  REFUSED(world, ExecutableDeserializeAndLoad, &load, kAbiUnimplemented,
          "ahead of time");
  AbiExecutableDestroyArgs destroy = {.executable = get.executable};
  CALL(world, ExecutableDestroy, &destroy);
  CHECK(Fake()->live_executables == 1);
  DestroyLoaded(world, second);
  DestroyLoaded(world, NULL);
  destroy.executable = NULL;
  CALL(world, ExecutableDestroy, &destroy);

  PjrtAot_Program facts = Program(0);
  CHECK(facts.flops == 12.5 && facts.bytes_accessed == 77);
  CHECK(facts.executions == 0);
  CHECK(aot.program(2, &facts) == kAbiNotFound);
  CHECK(aot.program(-1, &facts) == kAbiNotFound);
  CHECK(aot.set_donated(2, NULL, 0) == kAbiNotFound);
  Close(world);
}

// The caller's struct of an older version is filled as far as it goes.
static void ShortStats(void) {
  World world = Open("fake:8");
  PJRT_LoadedExecutable* loaded = CompileForAll(world);
  AbiLoadedExecutableGetExecutableArgs get = {.loaded_executable = loaded};
  CALL(world, LoadedExecutableGetExecutable, &get);
  AbiExecutableGetCompiledMemoryStatsArgs stats = {
      .struct_size =
          ABI_SIZE(AbiExecutableGetCompiledMemoryStatsArgs, temp_size_in_bytes),
      .executable = get.executable,
      .host_generated_code_size_in_bytes = -5};
  CHECK(Call(world.api, kSlotExecutableGetCompiledMemoryStats, &stats) == NULL);
  CHECK(stats.temp_size_in_bytes == kFakeArgumentBytes + 4);
  CHECK(stats.host_generated_code_size_in_bytes == -5);
  AbiExecutableDestroyArgs destroy = {.executable = get.executable};
  CALL(world, ExecutableDestroy, &destroy);
  DestroyLoaded(world, loaded);
  Close(world);
}

// What a plugin does not tell is not known, and no reason to fail.
static void Untold(void) {
  World world = Open("fake:8");
  const FakeProgram program = TwoArguments();
  const Message options = {7, "options"};
  static const int slots[] = {kSlotExecutableGetCostAnalysis,
                              kSlotExecutableOutputMemoryKinds};
  for (int i = 0; i < 2; ++i) {
    Fake()->missing_slot = slots[i];
    DestroyLoaded(world, Compiled(world, &program, &options));
    const PjrtAot_Program facts = Program(i);
    CHECK(facts.flops == (i == 0 ? -1 : 12.5));
    CHECK(facts.bytes_accessed == (i == 0 ? -1 : 77));
  }
  Close(world);
}

// Whichever call fails, its error is given and nothing is left.
static void CompileFails(void) {
  World world = Open("fake:8");
  const FakeProgram program = TwoArguments();
  const Message options = {7, "options"};
  PJRT_LoadedExecutable* loaded = NULL;
  DestroyLoaded(world, Compiled(world, &program, &options));
  int failures = 0;
  // The call after these is the one that frees it.
  for (int i = 1; i <= 6; ++i) {
    const int64_t before = aot.last_program();
    Fake()->fail_at = Fake()->calls + i;
    PJRT_Error* error = TryCompile(world, &program, &options, &loaded);
    if (error == NULL) {
      CHECK(aot.last_program() > before);
      DestroyLoaded(world, loaded);
      continue;
    }
    ++failures;
    ExpectError(world.api, error, kAbiInternal, "fake: call");
    CHECK(loaded == NULL);
    CHECK(aot.last_program() == -1);
    CHECK(Fake()->live_executables == 0);
    CHECK(Fake()->live_errors == 0);
  }
  // To compile, and four on outputs.
  CHECK(failures == 5);
  Close(world);
}

static void ExpectNotCompiled(World world, const FakeProgram* program,
                              const Message* options, int code,
                              const char* part) {
  PJRT_LoadedExecutable* loaded = NULL;
  ExpectError(world.api, TryCompile(world, program, options, &loaded), code,
              part);
  CHECK(aot.last_program() == -1);
  CHECK(Fake()->live_executables == 0);
}

static void CompileErrors(void) {
  World world = Open("fake:8");
  const Message options = {7, "options"};
  FakeProgram program = TwoArguments();
  static const int slots[] = {
      kSlotExecutableNumOutputs, kSlotExecutableOutputElementTypes,
      kSlotExecutableOutputDimensions, kSlotExecutableOutputMemoryKinds};
  for (int i = 0; i < 4; ++i) {
    Fake()->odd_slot = slots[i];
    ExpectNotCompiled(world, &program, &options, kAbiInternal, "outputs");
  }
  Fake()->odd_slot = 0;
  // As a framework hands it over, with nothing in it.
  AbiClientCompileArgs args = {.client = world.client,
                               .compile_options = options.bytes,
                               .compile_options_size = options.size};
  REFUSED(world, ClientCompile, &args, kAbiInvalidArgument, "no program");
  AbiProgram code = {.struct_size = 16};
  args.program = &code;
  REFUSED(world, ClientCompile, &args, kAbiInvalidArgument, "too small");
  code.struct_size = sizeof(code);
  REFUSED(world, ClientCompile, &args, kAbiInvalidArgument,
          "fake: 0 bytes are no program");
  Close(world);
}

const Scenario aot_compile_scenarios[] = {{"compile", Compile},
                                          {"compile_short_stats", ShortStats},
                                          {"compile_untold", Untold},
                                          {"compile_fails", CompileFails},
                                          {"compile_errors", CompileErrors},
                                          {NULL, NULL}};
