// A PJRT plugin before a real one, with one fault. All is the real plugin's own
// but for what the fault replaces. The name of the library's file says which it
// is, FAULT.so or FAULT@OPCODE.so, so that one process can load any of them by
// a link; right.so has none.
//
// FAULT   the name of a fault, of the tables below
// OPCODE  an HLO opcode that a program has to hold to meet with the fault, for
//         those of them that say so; without it, any program. Or a number, in
//         place of the one that a fault's text tells
//
// The real plugin is inner.so in the same folder.

#ifndef TEST_CSRC_WRONG_PLUGIN_WRONG_PLUGIN_H_
#define TEST_CSRC_WRONG_PLUGIN_WRONG_PLUGIN_H_

#include <stdbool.h>
#include <stddef.h>

#include "test/csrc/plugin_core.h"

enum { kMaxOverrides = 5 };

typedef struct {
  int slot;
  AbiFunction function;  // Absent: the table has no such function
} Override;

typedef struct {
  const char* name;  // NULL: the end of a table of faults
  const char* what;
  Override overrides[kMaxOverrides];  // up to one without a function
  void (*change)(AbiApi* table);      // or NULL: what no override can do
  bool one_load;                      // the table is given once
} Fault;

#define FAULT(fault, text, ...) \
  {.name = fault, .what = text, .overrides = __VA_ARGS__}
#define SPOILS(slot, function) {kSlot##slot, (AbiFunction)function}
#define COMPILES(function) {SPOILS(ClientCompile, function)}
#define EXECUTES(function) {SPOILS(LoadedExecutableExecute, function)}
#define UPLOADS(function) {SPOILS(ClientBufferFromHostBuffer, function)}
#define DOWNLOADS(function) {SPOILS(BufferToHostBuffer, function)}
#define COPIES(function) {SPOILS(BufferCopyToDevice, function)}
// What a compilation has marked, an execution spoils.
#define MARKED(mark, execute) \
  {SPOILS(ClientCompile, mark), SPOILS(LoadedExecutableExecute, execute)}

// A function that refuses.
#define REFUSES(name, code, text)       \
  static PJRT_Error* name(void* args) { \
    (void)args;                         \
    return Refuse(code, text);          \
  }
// One that ends the process where the real plugin gives an error.
#define ABORTS(slot)                                   \
  static PJRT_Error* slot##OrAbort(void* args) {       \
    if (CallInner(kSlot##slot, args) != NULL) abort(); \
    return NULL;                                       \
  }

typedef AbiClientBufferFromHostBufferArgs UploadArgs;
typedef AbiBufferToHostBufferArgs DownloadArgs;
typedef AbiLoadedExecutableExecuteArgs ExecuteArgs;
typedef AbiExecutableDeserializeAndLoadArgs LoadArgs;

void Absent(void);

// The tables, which end with a fault that has no name.
extern const Fault kStartFaults[], kErrorFaults[], kTransferFaults[],
    kReadbackFaults[], kCompileFaults[], kProgramFaults[], kReadingFaults[],
    kResultFaults[], kExecuteFaults[], kArgumentFaults[], kAheadFaults[],
    kCacheFaults[], kFigureFaults[], kGroupFaults[], kRoundingFaults[],
    kSizeFaults[], kCountFaults[], kLoadFaults[], kEventFaults[], kLeakFaults[],
    kRaceFaults[], kPublicFaults[];

// That of the file's name, or "".
const char* ChosenOpcode(void);
// The number that stands there in its place, or `otherwise`.
long ChosenNumber(long otherwise);

#endif  // TEST_CSRC_WRONG_PLUGIN_WRONG_PLUGIN_H_
