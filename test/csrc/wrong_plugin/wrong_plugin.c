#include "test/csrc/wrong_plugin/wrong_plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/notes.h"

const AbiApi* GetPjrtApi(void);

static char opcode[64];

void Absent(void) {}

const char* ChosenOpcode(void) { return opcode; }

long ChosenNumber(long otherwise) {
  return opcode[0] != '\0' ? strtol(opcode, NULL, 10) : otherwise;
}

// A table may be shorter than the one we know: what is not there is not
// replaced.
static bool Has(const AbiApi* table, int slot) {
  return (size_t)slot <
         (table->struct_size - offsetof(AbiApi, slots)) / sizeof(AbiFunction);
}

static void Replace(AbiApi* table, int slot, AbiFunction function) {
  if (!Has(table, slot) || table->slots[slot] == NULL) return;
  table->slots[slot] = function == Absent ? NULL : function;
}

static PJRT_Error* LoadedExecutableDestroy(
    AbiLoadedExecutableDestroyArgs* args) {
  Forget(args->executable);
  return CallInner(kSlotLoadedExecutableDestroy, args);
}

static void Spoil(AbiApi* table, const Fault* fault) {
  for (int i = 0; i < kMaxOverrides; ++i) {
    const Override* override = &fault->overrides[i];
    if (override->function == NULL) break;
    Replace(table, override->slot, override->function);
  }
  if (fault->change != NULL) fault->change(table);
}

static const Fault* const tables[] = {
    kStartFaults,   kErrorFaults,    kTransferFaults, kReadbackFaults,
    kCompileFaults, kProgramFaults,  kReadingFaults,  kResultFaults,
    kExecuteFaults, kArgumentFaults, kAheadFaults,    kCacheFaults,
    kFigureFaults,  kGroupFaults,    kRoundingFaults, kSizeFaults,
    kCountFaults,   kLoadFaults,     kEventFaults,    kLeakFaults,
    kRaceFaults,    kPublicFaults};
enum { kTables = sizeof(tables) / sizeof(tables[0]) };

static const Fault* FindFault(const char* name) {
  for (int i = 0; i < kTables; ++i) {
    for (const Fault* fault = tables[i]; fault->name != NULL; ++fault) {
      if (strcmp(fault->name, name) == 0) return fault;
    }
  }
  return NULL;
}

static const Fault* fault;

// Splits "FOLDER/FAULT@OPCODE.so": the folder with its slash, and the fault,
// NULL where the plugin is right. False, with a message, if there is no such
// fault.
static bool ReadPath(char* path) {
  char* file = strrchr(path, '/');
  file = file != NULL ? file + 1 : path;
  char name[128];
  snprintf(name, sizeof(name), "%.127s", file);
  *file = '\0';
  char* end = strstr(name, ".so");
  if (end != NULL) *end = '\0';
  char* at = strchr(name, '@');
  if (at != NULL) {
    *at = '\0';
    snprintf(opcode, sizeof(opcode), "%.63s", at + 1);
  }
  if (strcmp(name, "right") == 0) return true;
  fault = FindFault(name);
  if (fault == NULL) {
    fprintf(stderr,
            "no fault is called '%s': link the library as FAULT.so, or as "
            "right.so\n",
            name);
  }
  return fault != NULL;
}

static AbiApi* MakeTable(void) {
  Dl_info info;
  if (dladdr((const void*)&inner, &info) == 0) return NULL;
  char path[4000], real[4096];
  snprintf(path, sizeof(path), "%s", info.dli_fname);
  if (!ReadPath(path)) return NULL;
  snprintf(real, sizeof(real), "%sinner.so", path);
  inner = OpenPlugin(real, "");
  if (inner == NULL) return NULL;
  AbiApi* table = Duplicate(inner, inner->struct_size);
  SetErrorFunctions(table);
  Replace(table, kSlotLoadedExecutableDestroy,
          (AbiFunction)LoadedExecutableDestroy);
  if (fault != NULL) Spoil(table, fault);
  return table;
}

__attribute__((visibility("default"))) const AbiApi* GetPjrtApi(void) {
  static AbiApi* table;
  if (table == NULL) {
    table = MakeTable();
    return table;
  }
  return fault != NULL && fault->one_load ? NULL : table;
}
