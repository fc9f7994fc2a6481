// A PJRT plugin that behaves as vendors' that take StableHLO do, before a real
// one that computes. All is the inner plugin's own but for what a program has
// to be to be compiled, and what is told of it then. The environment says how
// when the library hands out its table:
//
// STABLEHLO_PLUGIN_INNER    the path of the real plugin
// STABLEHLO_PLUGIN_DEVICES  how many CPU devices, if the real one is XLA's; it
//                           has 4 where nobody says, whatever XLA_FLAGS say
// STABLEHLO_PLUGIN_VERSION  its stablehlo_current_version, as "1.13.3"; unset
//                           or empty: what the real one says; none: it has
//                           neither that nor a stablehlo_minimum_version
// STABLEHLO_PLUGIN_FORBIDS  what programs must not hold, between commas
// STABLEHLO_PLUGIN_ANSWERS  what it tells of a compiled program: "mlir", or
//                           nothing, for text of compiled_text.py,
//                           "wrong" for the same with a wrong sharding,
//                           "silent" for it without any, "damaged" for no
//                           program, "echo" for the program that it got, "hlo"
//                           for what the real one says, "none" for an error;
//                           "absent": it has no such function
// STABLEHLO_PLUGIN_TEXT     the path of compiled_text.py
// STABLEHLO_PLUGIN_DUMP     a folder for the Nth program: N.mlir and N.options
//                           as they came, N.compiled as the real one tells

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/plugin_core.h"

#define EXPORT __attribute__((visibility("default")))

const AbiApi* GetPjrtApi(void);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // of the list

// The settings. A process may change its environment later.

enum {
  kInner,
  kDevices,
  kVersion,
  kForbids,
  kAnswers,
  kDump,
  kText,
  kSettings,
};

static const char* settings[kSettings];  // "" where there is none

static void ReadSettings(void) {
  static const char* const names[kSettings] = {
      "STABLEHLO_PLUGIN_INNER",   "STABLEHLO_PLUGIN_DEVICES",
      "STABLEHLO_PLUGIN_VERSION", "STABLEHLO_PLUGIN_FORBIDS",
      "STABLEHLO_PLUGIN_ANSWERS", "STABLEHLO_PLUGIN_DUMP",
      "STABLEHLO_PLUGIN_TEXT"};
  for (int i = 0; i < kSettings; ++i) {
    const char* value = getenv(names[i]);
    if (value == NULL) value = "";
    settings[i] = strcpy(Allocate(strlen(value) + 1), value);
  }
}

// Attributes.

static const char kCurrent[] = "stablehlo_current_version";
static const char kMinimum[] = "stablehlo_minimum_version";

static bool IsNamed(const AbiNamedValue* value, const char* name) {
  return value->name_size == strlen(name) &&
         memcmp(value->name, name, value->name_size) == 0;
}

static AbiNamedValue CurrentVersion(const char* text) {
  static int64_t version[3];
  int parts[3] = {0, 0, 0};
  sscanf(text, "%d.%d.%d", &parts[0], &parts[1], &parts[2]);
  for (int i = 0; i < 3; ++i) version[i] = parts[i];
  return (AbiNamedValue){.struct_size = ABI_SIZE(AbiNamedValue, value_size),
                         .name = kCurrent,
                         .name_size = strlen(kCurrent),
                         .type = kAbiValueInt64List,
                         .int64_array_value = version,
                         .value_size = 3};
}

static PJRT_Error* PluginAttributes(AbiPluginAttributesArgs* args) {
  static AbiNamedValue* values;  // as long as the process, as the ABI wants
  static size_t count;
  const char* version = settings[kVersion];
  const bool none = strcmp(version, "none") == 0;
  PJRT_Error* error = CallInner(kSlotPluginAttributes, args);
  if (error != NULL || version[0] == '\0') return error;
  pthread_mutex_lock(&mutex);
  if (values == NULL) {
    values = Allocate((args->num_attributes + 1) * sizeof(values[0]));
    for (size_t i = 0; i < args->num_attributes; ++i) {
      const AbiNamedValue* value = &args->attributes[i];
      const bool drop =
          IsNamed(value, kCurrent) || (none && IsNamed(value, kMinimum));
      if (!drop) values[count++] = *value;
    }
    if (!none) values[count++] = CurrentVersion(version);
  }
  pthread_mutex_unlock(&mutex);
  args->attributes = values;
  args->num_attributes = count;
  return NULL;
}

// Devices.

// The beginning of PJRT_Client_Create_Args.
typedef struct {
  size_t struct_size;
  void* extension_start;
  const AbiNamedValue* options;
  size_t num_options;
} CreateArgs;

enum { kSlotCreate = 10 };

static PJRT_Error* ClientCreate(CreateArgs* args) {
  const AbiNamedValue* const options = args->options;
  const size_t count = args->num_options;
  AbiNamedValue* more = Allocate((count + 1) * sizeof(more[0]));
  if (count > 0) memcpy(more, options, count * sizeof(more[0]));
  static const char name[] = "cpu_device_count";
  more[count] =
      (AbiNamedValue){.struct_size = ABI_SIZE(AbiNamedValue, value_size),
                      .name = name,
                      .name_size = strlen(name),
                      .type = kAbiValueInt64,
                      .int64_value = atoi(settings[kDevices]),
                      .value_size = 1};
  args->options = more;
  args->num_options = count + 1;
  PJRT_Error* error = CallInner(kSlotCreate, args);
  args->options = options;
  args->num_options = count;
  free(more);
  return error;
}

// What an executable was compiled from. Kept for good: tests do not last. One
// that has ended, or that was not compiled, has no program.

typedef struct Source {
  struct Source* next;
  const void* executable;  // loaded, or got from a loaded one
  const char* program;
  size_t size;
} Source;

static Source* sources;

static void Remember(const void* executable, const char* program, size_t size) {
  Source* source = Allocate(sizeof(*source));
  *source = (Source){NULL, executable, program, size};
  pthread_mutex_lock(&mutex);
  source->next = sources;
  sources = source;
  pthread_mutex_unlock(&mutex);
}

// The newest at that address.
static const Source* Recall(const void* executable) {
  pthread_mutex_lock(&mutex);
  const Source* source = sources;
  while (source != NULL && source->executable != executable) {
    source = source->next;
  }
  pthread_mutex_unlock(&mutex);
  return source;
}

static PJRT_Error* GetExecutable(AbiLoadedExecutableGetExecutableArgs* args) {
  PJRT_Error* error = CallInner(kSlotLoadedExecutableGetExecutable, args);
  const Source* source = Recall(args->loaded_executable);
  if (error == NULL && source != NULL) {
    Remember(args->executable, source->program, source->size);
  }
  return error;
}

static PJRT_Error* LoadedExecutableDestroy(
    AbiLoadedExecutableDestroyArgs* args) {
  Remember(args->executable, NULL, 0);
  return CallInner(kSlotLoadedExecutableDestroy, args);
}

static PJRT_Error* ExecutableDestroy(AbiExecutableDestroyArgs* args) {
  Remember(args->executable, NULL, 0);
  return CallInner(kSlotExecutableDestroy, args);
}

// Compiled programs.

// What the real plugin tells; the bytes are for the caller to free.
static PJRT_Error* ReadInner(PJRT_Executable* executable, AbiProgram* program) {
  *program = (AbiProgram){.struct_size = ABI_SIZE(AbiProgram, format_size)};
  AbiExecutableOptimizedProgramArgs args = {
      ABI_SIZE(AbiExecutableOptimizedProgramArgs, program), NULL, executable,
      program};
  PJRT_Error* error = CallInner(kSlotExecutableOptimizedProgram, &args);
  if (error != NULL) return error;
  program->code = Allocate(program->code_size + 1);
  error = CallInner(kSlotExecutableOptimizedProgram, &args);
  if (error != NULL) free(program->code);
  return error;
}

// Answers the question for the size, or the one for the bytes.
static PJRT_Error* Tell(AbiProgram* program, const char* code, size_t size) {
  if (program->code != NULL && program->code_size < size) {
    return Refuse(kAbiInvalidArgument, "the buffer is too small");
  }
  if (program->code != NULL) memcpy(program->code, code, size);
  program->code_size = size;
  program->format = "mlir";
  program->format_size = 4;
  return NULL;
}

// Has Python, in whose process this is, write the text; NULL if it does not.
static char* CompiledText(const AbiProgram* compiled, const char* telling) {
  int (*take_lock)(void) = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
  void (*leave_lock)(int) = dlsym(RTLD_DEFAULT, "PyGILState_Release");
  int (*run)(const char*, void*) =
      dlsym(RTLD_DEFAULT, "PyRun_SimpleStringFlags");
  if (take_lock == NULL || leave_lock == NULL || run == NULL) return NULL;
  char* text = NULL;
  char code[4096];
  snprintf(code, sizeof(code),
           "__import__('runpy').run_path('%s')['write'](%zu, %zu, '%s', %zu)",
           settings[kText], (size_t)compiled->code, compiled->code_size,
           telling, (size_t)&text);
  const int state = take_lock();
  run(code, NULL);
  leave_lock(state);
  return text;
}

static PJRT_Error* TellText(AbiExecutableOptimizedProgramArgs* args,
                            const char* telling) {
  AbiProgram compiled;
  PJRT_Error* error = ReadInner(args->executable, &compiled);
  if (error != NULL) return error;
  char* text = CompiledText(&compiled, telling);
  free(compiled.code);
  if (text == NULL) {
    return Refuse(kAbiInternal, "the inner plugin tells of no HLO program");
  }
  error = Tell(args->program, text, strlen(text));
  free(text);
  return error;
}

static PJRT_Error* OptimizedProgram(AbiExecutableOptimizedProgramArgs* args) {
  const char* answer = settings[kAnswers];
  if (strcmp(answer, "none") == 0) {
    return Refuse(kAbiUnimplemented,
                  "PJRT_Executable_OptimizedProgram is not implemented");
  }
  if (strcmp(answer, "damaged") == 0) {
    static const char text[] = "module @damaged { what no parser takes";
    return Tell(args->program, text, strlen(text));
  }
  if (strcmp(answer, "echo") == 0) {
    const Source* source = Recall(args->executable);
    if (source == NULL || source->program == NULL) {
      return Refuse(kAbiUnimplemented, "this executable was not compiled here");
    }
    return Tell(args->program, source->program, source->size);
  }
  const bool is_right = answer[0] == '\0' || strcmp(answer, "mlir") == 0;
  return TellText(args, is_right ? "right" : answer);
}

// Programs.

// Writes FOLDER/NUMBER.WHAT, if there is to be a dump.
static void Dump(int number, const char* what, const char* bytes, size_t size) {
  const char* folder = settings[kDump];
  if (folder[0] == '\0') return;
  char path[4096];
  snprintf(path, sizeof(path), "%s/%d.%s", folder, number, what);
  FILE* file = fopen(path, "wb");
  if (file == NULL || fwrite(bytes, 1, size, file) != size ||
      fclose(file) != 0) {
    perror(path);
    abort();
  }
}

static void DumpCompiled(int number, PJRT_LoadedExecutable* loaded) {
  AbiLoadedExecutableGetExecutableArgs get = {
      ABI_SIZE(AbiLoadedExecutableGetExecutableArgs, executable), NULL, loaded,
      NULL};
  PJRT_Error* error = CallInner(kSlotLoadedExecutableGetExecutable, &get);
  AbiProgram compiled;
  if (error == NULL) {
    error = ReadInner(get.executable, &compiled);
    if (error == NULL) {
      Dump(number, "compiled", compiled.code, compiled.code_size);
      free(compiled.code);
    }
    AbiExecutableDestroyArgs put = {
        ABI_SIZE(AbiExecutableDestroyArgs, executable), NULL, get.executable};
    CallInner(kSlotExecutableDestroy, &put);
  }
  if (error != NULL) FreeError(error);
}

static PJRT_Error* CheckLacks(const AbiProgram* program, const char* text) {
  if (memmem(program->code, program->code_size, text, strlen(text)) == NULL) {
    return NULL;
  }
  return Refuse(kAbiInvalidArgument, "I do not take programs with '%s'", text);
}

static PJRT_Error* CheckProgram(const AbiProgram* program) {
  if (program->format_size != 4 || memcmp(program->format, "mlir", 4) != 0) {
    return Refuse(kAbiInvalidArgument,
                  "I take programs of format 'mlir', and not '%.*s'",
                  (int)program->format_size, program->format);
  }
  char forbidden[4096];
  snprintf(forbidden, sizeof(forbidden),
           "torch_xla.shardy.,mhlo.num_partitions,mhlo.num_replicas,%s",
           settings[kForbids]);
  PJRT_Error* error = NULL;
  char* rest = NULL;
  const char* text = strtok_r(forbidden, ",", &rest);
  while (text != NULL && error == NULL) {
    error = CheckLacks(program, text);
    text = strtok_r(NULL, ",", &rest);
  }
  return error;
}

static PJRT_Error* ClientCompile(AbiClientCompileArgs* args) {
  static atomic_int programs;
  const AbiProgram* program = args->program;
  const int number = programs++;
  Dump(number, "mlir", program->code, program->code_size);
  Dump(number, "options", args->compile_options, args->compile_options_size);
  PJRT_Error* error = CheckProgram(program);
  if (error == NULL) error = CallInner(kSlotClientCompile, args);
  if (error != NULL) return error;
  char* copy = Duplicate(program->code, program->code_size);
  Remember(args->executable, copy, program->code_size);
  if (settings[kDump][0] != '\0') {
    DumpCompiled(number, args->executable);
  }
  return NULL;
}

// The table.

static AbiApi* MakeTable(void) {
  ReadSettings();
  inner = OpenPlugin(settings[kInner], "STABLEHLO_PLUGIN_INNER=");
  if (inner == NULL) return NULL;
  AbiApi* table = Duplicate(inner, inner->struct_size);
  SetErrorFunctions(table);
  table->slots[kSlotPluginAttributes] = (AbiFunction)PluginAttributes;
  table->slots[kSlotClientCompile] = (AbiFunction)ClientCompile;
  table->slots[kSlotLoadedExecutableGetExecutable] = (AbiFunction)GetExecutable;
  table->slots[kSlotLoadedExecutableDestroy] =
      (AbiFunction)LoadedExecutableDestroy;
  table->slots[kSlotExecutableDestroy] = (AbiFunction)ExecutableDestroy;
  if (settings[kDevices][0] != '\0') {
    table->slots[kSlotCreate] = (AbiFunction)ClientCreate;
  }
  if (strcmp(settings[kAnswers], "hlo") != 0) {
    const bool is_absent = strcmp(settings[kAnswers], "absent") == 0;
    table->slots[kSlotExecutableOptimizedProgram] =
        is_absent ? NULL : (AbiFunction)OptimizedProgram;
  }
  return table;
}

EXPORT const AbiApi* GetPjrtApi(void) {
  static AbiApi* table;
  if (table == NULL) table = MakeTable();
  return table;
}
