// Reading protobuf messages field by field, without copies.

#ifndef TEST_CSRC_WRONG_PLUGIN_WIRE_H_
#define TEST_CSRC_WRONG_PLUGIN_WIRE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What is left of a message.
typedef struct {
  const unsigned char* at;
  const unsigned char* end;
  bool malformed;
} Wire;

typedef struct {
  int number;
  // Of a string, message or packed list; NULL of a number.
  const unsigned char* bytes;
  size_t size;
  uint64_t value;  // of a number
} WireField;

Wire WireOf(const void* bytes, size_t size);
// The message that a field holds; malformed if the field is a number.
Wire WireIn(const WireField* field);
// Reads the next field; false at the end, and where the bytes are malformed.
bool WireNextField(Wire* wire, WireField* field);

// Reads the values of a repeated integer field, packed or not, as far as there
// is room; how many.
size_t WireReadInts(const WireField* field, int64_t* values, size_t room);

#endif  // TEST_CSRC_WRONG_PLUGIN_WIRE_H_
