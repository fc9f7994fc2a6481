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

void Absent(void);

extern const Fault kStartFaults[];
extern const Fault kErrorFaults[];
extern const Fault kTransferFaults[];
extern const Fault kReadbackFaults[];
extern const Fault kCompileFaults[];
extern const Fault kProgramFaults[];
extern const Fault kReadingFaults[];
extern const Fault kResultFaults[];
extern const Fault kExecuteFaults[];
extern const Fault kArgumentFaults[];
extern const Fault kAheadFaults[];
extern const Fault kCacheFaults[];
extern const Fault kFigureFaults[];
extern const Fault kGroupFaults[];
extern const Fault kRoundingFaults[];
extern const Fault kSizeFaults[];
extern const Fault kCountFaults[];
extern const Fault kLoadFaults[];
extern const Fault kEventFaults[];
extern const Fault kLeakFaults[];
extern const Fault kRaceFaults[];
extern const Fault kPublicFaults[];

// That of the file's name, or "".
const char* ChosenOpcode(void);
// The number that stands there in its place, or `otherwise`.
long ChosenNumber(long otherwise);

#endif  // TEST_CSRC_WRONG_PLUGIN_WRONG_PLUGIN_H_
