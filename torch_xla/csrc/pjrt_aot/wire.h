// Reading protobuf messages field by field, without copies.

#ifndef TORCH_XLA_CSRC_PJRT_AOT_WIRE_H_
#define TORCH_XLA_CSRC_PJRT_AOT_WIRE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What is left of a message.
typedef struct {
  const unsigned char* at;
  const unsigned char* end;
  bool malformed;
} AotWire;

typedef struct {
  int number;
  // Of a string, message or packed list; NULL of a number.
  const unsigned char* bytes;
  size_t size;
  uint64_t value;  // of a number
} AotField;

AotWire AotWireOf(const void* bytes, size_t size);
// The message that a field holds; malformed if the field is a number.
AotWire AotWireIn(const AotField* field);
// Reads the next field; false at the end, and where the bytes are malformed.
bool AotNextField(AotWire* wire, AotField* field);
// Replaces a message by its last field of that number; an empty one if it has
// none. False where it is malformed.
bool AotDescend(AotWire* wire, int number);

// A list of integers that grows.
typedef struct {
  int64_t* values;
  size_t count;
  size_t room;
} AotInts;

// False without memory.
bool AotPush(AotInts* ints, int64_t value);

typedef enum { kAotRead, kAotMalformed, kAotNoMemory } AotReadResult;

// Appends the values of a repeated integer field, packed or not.
AotReadResult AotReadInts(const AotField* field, AotInts* ints);

#endif  // TORCH_XLA_CSRC_PJRT_AOT_WIRE_H_
