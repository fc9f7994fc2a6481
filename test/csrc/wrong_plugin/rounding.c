// Faults of rounding: numbers are cut off in place of rounded to the nearest.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/notes.h"
#include "test/csrc/wrong_plugin/outputs.h"

static float SingleAt(const unsigned char* bytes, size_t index) {
  float value;
  memcpy(&value, bytes + 4 * index, sizeof(value));
  return value;
}

static float BrainAt(const unsigned char* bytes, size_t index) {
  const unsigned char bits[4] = {0, 0, bytes[2 * index], bytes[2 * index + 1]};
  return SingleAt(bits, 0);
}

// Towards zero: the upper half of a float32.
static void CutToBrain(float value, unsigned char* place) {
  unsigned char bits[4];
  memcpy(bits, &value, sizeof(bits));
  memcpy(place, bits + 2, 2);
}

// Towards zero; of numbers that are normal in float16.
static void CutToHalf(float value, unsigned char* place) {
  enum { kBias = 112, kLost = 13, kLargest = 31 };
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const int exponent = (int)(bits >> 23 & 0xff) - kBias;
  if (exponent <= 0 || exponent >= kLargest) return;
  const uint16_t half =
      (uint16_t)((bits >> 16 & 0x8000U) | ((uint32_t)exponent << 10) |
                 ((bits & 0x7fffffU) >> kLost));
  memcpy(place, &half, sizeof(half));
}

typedef struct {
  int argument;  // its element type
  int result;
  size_t above;  // of arrays of more elements
  bool tail;     // only what is behind the last 16 of an array
} Cut;

enum { kVector = 16, kMaxArguments = 2 };

// What is read of an execution's arguments before it runs.
typedef struct {
  unsigned char* bytes[kMaxArguments];
  size_t size;
  size_t count;
} Arguments;

static Arguments ReadArguments(const ExecuteArgs* args, int type) {
  Arguments arguments = {.count = 0};
  PJRT_Buffer** const* lists = args->argument_lists;
  if (args->num_args > kMaxArguments) return arguments;
  for (size_t i = 0; i < args->num_args; ++i) {
    if (ElementType(lists[0][i]) != type) break;
    const unsigned char* bytes = Bytes(lists[0][i], &arguments.size);
    if (bytes == NULL) break;
    arguments.bytes[arguments.count++] = Duplicate(bytes, arguments.size);
  }
  return arguments;
}

static void FreeArguments(Arguments* arguments) {
  for (size_t i = 0; i < arguments->count; ++i) free(arguments->bytes[i]);
}

static void CutElement(const Arguments* arguments, const Cut* cut, size_t index,
                       unsigned char* result) {
  const unsigned char* left = arguments->bytes[0];
  const float value =
      cut->argument == kTypeF32
          ? SingleAt(left, index)
          : BrainAt(left, index) + BrainAt(arguments->bytes[1], index);
  unsigned char* place = result + 2 * index;
  if (cut->result == kTypeBf16) {
    CutToBrain(value, place);
  } else {
    CutToHalf(value, place);
  }
}

static void CutResult(const Arguments* arguments, const Cut* cut,
                      PJRT_Buffer* result) {
  size_t size = 0;
  unsigned char* bytes = Bytes(result, &size);
  const size_t count = size / 2;
  if (bytes == NULL || ElementType(result) != cut->result ||
      count * ElementSize(cut->argument) != arguments->size ||
      count <= cut->above) {
    return;
  }
  for (size_t i = cut->tail ? count - count % kVector : 0; i < count; ++i) {
    CutElement(arguments, cut, i, bytes);
  }
}

// Programs of one device: a cast of one argument, or a sum of two.
static PJRT_Error* ExecuteAndCut(ExecuteArgs* args, const Cut* cut) {
  const size_t operands = cut->argument == kTypeF32 ? 1 : 2;
  if (args->num_args != operands || args->num_devices != 1 ||
      !Marked(args->executable)) {
    return CallInner(kSlotLoadedExecutableExecute, args);
  }
  Arguments arguments = ReadArguments(args, cut->argument);
  PJRT_Error* error = CallInner(kSlotLoadedExecutableExecute, args);
  if (error == NULL && arguments.count == operands) {
    const Outputs outputs = OutputsOf(args);
    if (outputs.count == 1) CutResult(&arguments, cut, outputs.lists[0][0]);
  }
  FreeArguments(&arguments);
  return error;
}

#define CUTS(name, ...)                                  \
  static PJRT_Error* name(ExecuteArgs* args) {           \
    return ExecuteAndCut(args, &(const Cut)__VA_ARGS__); \
  }

CUTS(CastBf16, {.argument = kTypeF32, .result = kTypeBf16})
CUTS(CastLargeBf16,
     {.argument = kTypeF32, .result = kTypeBf16, .above = 1 << 20})
CUTS(CastTailBf16, {.argument = kTypeF32, .result = kTypeBf16, .tail = true})
CUTS(CastLargeF16,
     {.argument = kTypeF32, .result = kTypeF16, .above = 16 << 20})
CUTS(SumBf16, {.argument = kTypeBf16, .result = kTypeBf16})

const Fault kRoundingFaults[] = {
    FAULT("cast-cuts-bfloat16",
          "float32 is cut off to bfloat16 in place of rounded, of programs "
          "for one device",
          MARKED(MarkCasts, CastBf16)),
    FAULT("cast-cuts-large-bfloat16",
          "the same, of arrays of more than 2^20 elements only",
          MARKED(MarkCasts, CastLargeBf16)),
    FAULT("cast-cuts-tail-bfloat16",
          "the same, of what is behind the last 16 elements only",
          MARKED(MarkCasts, CastTailBf16)),
    FAULT("cast-cuts-large-float16",
          "float32 is cut off to float16 in arrays of more than 2^24 "
          "elements",
          MARKED(MarkCasts, CastLargeF16)),
    FAULT("sum-cuts-bfloat16",
          "a sum of two bfloat16 is cut off in place of rounded",
          MARKED(MarkSums, SumBf16)),
    {.name = NULL},
};
