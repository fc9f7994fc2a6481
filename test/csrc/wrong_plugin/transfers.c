// Faults on the way from the host to a device.

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "test/csrc/wrong_plugin/notes.h"

static PJRT_Error* Upload(UploadArgs* args,
                          void (*spoil)(unsigned char* bytes, size_t size)) {
  PJRT_Error* error = UploadCopy(args);
  size_t size = 0;
  unsigned char* bytes = error == NULL ? Bytes(args->buffer, &size) : NULL;
  if (bytes != NULL) spoil(bytes, size);
  return error;
}

static PJRT_Error* UploadOf(UploadArgs* args, int type,
                            void (*spoil)(unsigned char* bytes, size_t size)) {
  if (args->type == type) return Upload(args, spoil);
  return CallInner(kSlotClientBufferFromHostBuffer, args);
}

#define UPLOADS_OF(name, type, spoil)         \
  static PJRT_Error* name(UploadArgs* args) { \
    return UploadOf(args, type, spoil);       \
  }

static void DropLowBit16(unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; i += 2) bytes[i] &= 0xfe;
}

UPLOADS_OF(UploadBf16, kTypeBf16, DropLowBit16)
UPLOADS_OF(UploadF16, kTypeF16, DropLowBit16)

static void DropEveryEighth(unsigned char* bytes, size_t size) {
  for (size_t i = 7; i < size; i += 8) bytes[i] = 0;
}

UPLOADS_OF(UploadBool, kTypePred, DropEveryEighth)

static void KeepLowerHalf(unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; i += 8) {
    int32_t lower;
    memcpy(&lower, bytes + i, sizeof(lower));
    const int64_t value = lower;
    memcpy(bytes + i, &value, sizeof(value));
  }
}

UPLOADS_OF(UploadInt64, kTypeS64, KeepLowerHalf)

static void KeepSingle(unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; i += 8) {
    double value;
    memcpy(&value, bytes + i, sizeof(value));
    value = (double)(float)value;
    memcpy(bytes + i, &value, sizeof(value));
  }
}

UPLOADS_OF(UploadF64, kTypeF64, KeepSingle)

static void DropSign8(unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[i] &= 0x7f;
}

UPLOADS_OF(UploadUint8, kTypeU8, DropSign8)

// One of the kinds of floats that a device may not know.
static void ChangeF32(unsigned char* bytes, size_t size,
                      uint32_t (*change)(uint32_t bits)) {
  for (size_t i = 0; i < size; i += 4) {
    uint32_t bits;
    memcpy(&bits, bytes + i, sizeof(bits));
    bits = change(bits);
    memcpy(bytes + i, &bits, sizeof(bits));
  }
}

static const uint32_t kSign = 0x80000000U, kInfinity = 0x7f800000U,
                      kQuietNan = 0x7fc00000U, kLeastNormal = 0x00800000U;

static uint32_t WithoutNanBits(uint32_t bits) {
  return (bits & ~kSign) > kInfinity ? kQuietNan : bits;
}

static uint32_t WithoutNegativeZero(uint32_t bits) {
  return bits == kSign ? 0 : bits;
}

static uint32_t WithoutDenormals(uint32_t bits) {
  return (bits & ~kSign) < kLeastNormal ? bits & kSign : bits;
}

#define DROPS(name, change)                             \
  static void name(unsigned char* bytes, size_t size) { \
    ChangeF32(bytes, size, change);                     \
  }

DROPS(DropNanBits, WithoutNanBits)
DROPS(DropNegativeZero, WithoutNegativeZero)
DROPS(DropDenormals, WithoutDenormals)

UPLOADS_OF(UploadNan, kTypeF32, DropNanBits)
UPLOADS_OF(UploadNegativeZero, kTypeF32, DropNegativeZero)
UPLOADS_OF(UploadDenormal, kTypeF32, DropDenormals)

static void DropLastByte(unsigned char* bytes, size_t size) {
  if (size % 8 != 0) bytes[size - 1] = 0;
}

static PJRT_Error* UploadLastByte(UploadArgs* args) {
  return Upload(args, DropLastByte);
}

static void FlipFirst(unsigned char* bytes, size_t size) {
  (void)size;
  bytes[0] ^= 1;
}

static PJRT_Error* RacyUpload(UploadArgs* args) {
  static Overlap calls;
  const bool overlapped = Overlaps(&calls, 2000);
  PJRT_Error* error = overlapped
                          ? Upload(args, FlipFirst)
                          : CallInner(kSlotClientBufferFromHostBuffer, args);
  --calls.running;
  return error;
}

const Fault kTransferFaults[] = {
    FAULT("transfer-bfloat16",
          "bfloat16 loses its lowest bit on the way to a device",
          UPLOADS(UploadBf16)),
    FAULT("transfer-float16",
          "float16 loses its lowest bit on the way to a device",
          UPLOADS(UploadF16)),
    FAULT("transfer-bool",
          "every eighth bool becomes false on the way to a device",
          UPLOADS(UploadBool)),
    FAULT("transfer-int64",
          "int64 is what its lower half says, on the way to a device",
          UPLOADS(UploadInt64)),
    FAULT("transfer-uint8",
          "uint8 loses its highest bit on the way to a device",
          UPLOADS(UploadUint8)),
    FAULT("transfer-float64",
          "float64 is rounded to float32 on the way to a device",
          UPLOADS(UploadF64)),
    FAULT("transfer-nan",
          "every float32 NaN becomes 0x7fc00000 on the way to a device",
          UPLOADS(UploadNan)),
    FAULT("transfer-negative-zero",
          "a float32 -0.0 becomes 0.0 on the way to a device",
          UPLOADS(UploadNegativeZero)),
    FAULT("transfer-denormal",
          "float32 denormals become zero on the way to a device",
          UPLOADS(UploadDenormal)),
    FAULT("transfer-last-byte",
          "the last byte of an array is lost if its size is no multiple of "
          "8 bytes",
          UPLOADS(UploadLastByte)),
    FAULT("racy-upload",
          "of uploads that overlap, the first byte's lowest bit is flipped; "
          "each takes 2 ms",
          UPLOADS(RacyUpload)),
    {.name = NULL},
};
