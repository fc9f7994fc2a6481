// What a StableHLO vendor's plugin tells of a compiled program: MLIR text with
// the shapes and the shardings, and nothing of what is computed.

#ifndef TEST_CSRC_COMPILED_TEXT_H_
#define TEST_CSRC_COMPILED_TEXT_H_

#include <stdbool.h>
#include <stddef.h>

typedef enum {
  kTellShardings,
  kTellWrongSharding,  // the first that is not replicated is told as such
  kTellNoShardings,
} Telling;

// The text, NUL-terminated, for the caller to free; NULL if `program` is no
// serialized HloModuleProtoWithConfig.
char* CompiledText(const void* program, size_t program_size, Telling telling);

#endif  // TEST_CSRC_COMPILED_TEXT_H_
