#include "test/csrc/wrong_plugin/wire.h"

// Types on the wire.
enum { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
enum { kVarintBytes = 10 };

Wire WireOf(const void* bytes, size_t size) {
  Wire wire = {bytes, bytes, false};
  if (size > 0) wire.end += size;
  return wire;
}

Wire WireIn(const WireField* field) {
  Wire wire = WireOf(field->bytes, field->size);
  wire.malformed = field->bytes == NULL;
  return wire;
}

static bool Varint(Wire* wire, uint64_t* value) {
  *value = 0;
  for (int i = 0; i < kVarintBytes && wire->at < wire->end; ++i) {
    const unsigned char byte = *wire->at++;
    *value |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  wire->malformed = true;
  return false;
}

static bool Skip(Wire* wire, uint64_t size) {
  if (size > (uint64_t)(wire->end - wire->at)) {
    wire->malformed = true;
    return false;
  }
  wire->at += size;
  return true;
}

bool WireNextField(Wire* wire, WireField* field) {
  uint64_t tag;
  uint64_t size;
  if (wire->malformed || wire->at == wire->end || !Varint(wire, &tag)) {
    return false;
  }
  *field = (WireField){.number = (int)(tag >> 3)};
  switch (tag & 7) {
    case kVarint:
      return Varint(wire, &field->value);
    case kFixed64:
      return Skip(wire, 8);
    case kFixed32:
      return Skip(wire, 4);
    case kBytes:
      if (!Varint(wire, &size)) return false;
      field->bytes = wire->at;
      field->size = size;
      return Skip(wire, size);
    default:
      wire->malformed = true;
      return false;
  }
}

size_t WireReadInts(const WireField* field, int64_t* values, size_t room) {
  if (field->bytes == NULL) {
    values[0] = (int64_t)field->value;
    return 1;
  }
  Wire wire = WireIn(field);
  uint64_t value;
  size_t count = 0;
  while (count < room && wire.at < wire.end && Varint(&wire, &value)) {
    values[count++] = (int64_t)value;
  }
  return count;
}
