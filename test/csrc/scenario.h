// Scenarios, each run in a process of its own, and what they check with.

#ifndef TEST_CSRC_SCENARIO_H_
#define TEST_CSRC_SCENARIO_H_

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) {                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, \
              #condition);                                         \
      exit(1);                                                     \
    }                                                              \
  } while (0)

// Checks that a text holds another, and shows both if it does not.
#define CHECK_HAS(text, part)                                           \
  do {                                                                  \
    const char* text_ = (text);                                         \
    if (strstr(text_, (part)) == NULL) {                                \
      fprintf(stderr, "%s:%d: \"%s\" does not have \"%s\"\n", __FILE__, \
              __LINE__, text_, (part));                                 \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

typedef struct {
  const char* name;
  void (*run)(void);
} Scenario;

// Runs scenarios, each in a child of its own: a plugin opens once per process.
// The children are forked, one after the other, so that valgrind has to start
// only once. After what each prints comes a line "end STATUS SCENARIO...",
// where a signal is a negative status.
//
// Args:
//   arguments: SCENARIO[,VARIABLE=VALUE]... of each, or --list alone.
//   groups: ended by NULL, each by a scenario without a name; beside them there
//     are canaries, which do what the checkers must see.
//   start: called in each child first.
//
// Returns 1 if any of them failed.
int RunScenarios(int count, char** arguments, const Scenario* const* groups,
                 void (*start)(void));

// A library, and what it exports; ends the process if it has not.
void* LoadLibrary(const char* path);
void* FindSymbol(void* library, const char* name);

// Calls an entry that returns an error.
PJRT_Error* Call(const AbiApi* api, int slot, void* args);
// Checks code and part of the message through the table, and destroys.
void ExpectError(const AbiApi* api, PJRT_Error* error, int code,
                 const char* part);

#endif  // TEST_CSRC_SCENARIO_H_
