#include "test/csrc/wrong_plugin/outputs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/notes.h"

Outputs OutputsOf(const AbiLoadedExecutableExecuteArgs* args) {
  PJRT_Executable* executable = GetExecutable(args->executable);
  if (executable == NULL) abort();
  AbiExecutableNumOutputsArgs count = {
      ABI_SIZE(AbiExecutableNumOutputsArgs, num_outputs), NULL, executable, 0};
  if (!TryInner(kSlotExecutableNumOutputs, &count)) abort();
  PutExecutable(executable);
  return (Outputs){args->output_lists, args->num_devices, count.num_outputs};
}

static void SpoilFirstElement(PJRT_Buffer* buffer) {
  size_t size = 0;
  unsigned char* bytes = Bytes(buffer, &size);
  const int type = ElementType(buffer);
  const size_t element = ElementSize(type);
  if (bytes == NULL || element == 0) return;
  // Of a complex number, its real part.
  const bool is_complex = type == kTypeC64 || type == kTypeC128;
  const size_t part = is_complex ? element / 2 : element;
  bytes[part - 1] ^= type == kTypePred ? 1 : 0x40;
}

void EachOutput(const Outputs* outputs, void (*spoil)(PJRT_Buffer* buffer)) {
  for (size_t d = 0; d < outputs->devices; ++d) {
    for (size_t i = 0; i < outputs->count; ++i) spoil(outputs->lists[d][i]);
  }
}

void SpoilFirstElements(const Outputs* outputs) {
  EachOutput(outputs, SpoilFirstElement);
}

static void MakeFirstNan(PJRT_Buffer* buffer) {
  size_t size = 0;
  unsigned char* bytes = Bytes(buffer, &size);
  if (bytes != NULL && ElementType(buffer) == kTypeF32) {
    memset(bytes, 0xff, sizeof(float));
  }
}

void MakeNan(const Outputs* outputs) { EachOutput(outputs, MakeFirstNan); }

void SpoilOnLastDevice(const Outputs* outputs) {
  if (outputs->devices < 2) return;
  for (size_t i = 0; i < outputs->count; ++i) {
    SpoilFirstElement(outputs->lists[outputs->devices - 1][i]);
  }
}

// True if that changed something on any device.
static bool Rotate(const Outputs* outputs, size_t index) {
  size_t first_size = 0;
  unsigned char* place = Bytes(outputs->lists[0][index], &first_size);
  if (place == NULL) return false;
  unsigned char* first = Duplicate(place, first_size);
  bool changed = false;
  for (size_t d = 0; d < outputs->devices; ++d) {
    size_t size = first_size;
    const unsigned char* next = first;
    if (d + 1 < outputs->devices) {
      next = Bytes(outputs->lists[d + 1][index], &size);
    }
    if (next == NULL || size != first_size) break;
    changed = changed || memcmp(place, next, size) != 0;
    memcpy(place, next, size);
    place = (unsigned char*)next;
  }
  free(first);
  return changed;
}

void RotateDevices(const Outputs* outputs) {
  bool changed = false;
  for (size_t i = 0; i < outputs->count; ++i) {
    changed = Rotate(outputs, i) || changed;
  }
  if (!changed) SpoilFirstElements(outputs);
}

// The bits of a mantissa that are lost, of elements of this type.
static uint64_t LostBits(int type) {
  switch (type) {
    case kTypeBf16:
      return 0x7;
    case kTypeF16:
      return 0x1f;
    case kTypeF32:
    case kTypeC64:
      return 0xfff;
    case kTypeF64:
    case kTypeC128:
      return 0x3ffffff;
    default:
      return 0;
  }
}

static void LosePrecisionOf(PJRT_Buffer* buffer) {
  const int type = ElementType(buffer);
  const uint64_t lost = LostBits(type);
  size_t size = 0;
  unsigned char* bytes = lost != 0 ? Bytes(buffer, &size) : NULL;
  if (bytes == NULL) return;
  size_t step = ElementSize(type);
  if (type == kTypeC64 || type == kTypeC128) step /= 2;
  for (size_t i = 0; i < size; i += step) {
    uint64_t bits = 0;
    memcpy(&bits, bytes + i, step);
    bits &= ~lost;
    memcpy(bytes + i, &bits, step);
  }
}

void LosePrecision(const Outputs* outputs) {
  EachOutput(outputs, LosePrecisionOf);
}
