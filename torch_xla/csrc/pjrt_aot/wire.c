#include "torch_xla/csrc/pjrt_aot/wire.h"

#include <stdlib.h>

// Types on the wire.
enum { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
enum { kVarintBytes = 10 };

AotWire AotWireOf(const void* bytes, size_t size) {
  AotWire wire = {bytes, bytes, false};
  if (size > 0) wire.end += size;
  return wire;
}

AotWire AotWireIn(const AotField* field) {
  AotWire wire = AotWireOf(field->bytes, field->size);
  wire.malformed = field->bytes == NULL;
  return wire;
}

static bool Varint(AotWire* wire, uint64_t* value) {
  *value = 0;
  for (int i = 0; i < kVarintBytes && wire->at < wire->end; ++i) {
    const unsigned char byte = *wire->at++;
    *value |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  wire->malformed = true;
  return false;
}

static bool Skip(AotWire* wire, uint64_t size) {
  if (size > (uint64_t)(wire->end - wire->at)) {
    wire->malformed = true;
    return false;
  }
  wire->at += size;
  return true;
}

bool AotNextField(AotWire* wire, AotField* field) {
  uint64_t tag;
  uint64_t size;
  if (wire->malformed || wire->at == wire->end || !Varint(wire, &tag)) {
    return false;
  }
  *field = (AotField){.number = (int)(tag >> 3)};
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

bool AotDescend(AotWire* wire, int number) {
  AotWire inner = AotWireOf(NULL, 0);
  AotField field;
  while (AotNextField(wire, &field)) {
    if (field.number == number) inner = AotWireIn(&field);
  }
  const bool whole = !wire->malformed;
  *wire = inner;
  return whole;
}

bool AotPush(AotInts* ints, int64_t value) {
  if (ints->count == ints->room) {
    const size_t room = ints->room > 0 ? 2 * ints->room : 16;
    int64_t* values = realloc(ints->values, room * sizeof(*values));
    if (values == NULL) return false;
    ints->values = values;
    ints->room = room;
  }
  ints->values[ints->count++] = value;
  return true;
}

AotReadResult AotReadInts(const AotField* field, AotInts* ints) {
  if (field->bytes == NULL) {
    return AotPush(ints, (int64_t)field->value) ? kAotRead : kAotNoMemory;
  }
  AotWire wire = AotWireIn(field);
  uint64_t value;
  while (wire.at < wire.end) {
    if (!Varint(&wire, &value)) return kAotMalformed;
    if (!AotPush(ints, (int64_t)value)) return kAotNoMemory;
  }
  return kAotRead;
}
