// Put before each source of the starved variant of the compile-only plugin: the
// allocation that FAIL_ALLOCATION counts down to finds no memory.

#ifndef TEST_CSRC_AOT_STARVED_H_
#define TEST_CSRC_AOT_STARVED_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STARVED_VARIABLE "FAIL_ALLOCATION"

// The sources share the count through the environment, as they share nothing
// else that the library would not export.
static inline int StarvedNow(void) {
  const char* left = getenv(STARVED_VARIABLE);
  if (left == NULL) return 0;
  char text[16];
  snprintf(text, sizeof(text), "%d", atoi(left) - 1);
  setenv(STARVED_VARIABLE, text, 1);
  return strcmp(text, "0") == 0;
}

static inline void* StarvedMalloc(size_t size) {
  return StarvedNow() ? NULL : malloc(size);
}

static inline void* StarvedCalloc(size_t count, size_t size) {
  return StarvedNow() ? NULL : calloc(count, size);
}

static inline void* StarvedRealloc(void* old, size_t size) {
  return StarvedNow() ? NULL : realloc(old, size);
}

static inline char* StarvedStrdup(const char* text) {
  return StarvedNow() ? NULL : strdup(text);
}

#undef strdup
#define malloc StarvedMalloc
#define calloc StarvedCalloc
#define realloc StarvedRealloc
#define strdup StarvedStrdup

#endif  // TEST_CSRC_AOT_STARVED_H_
