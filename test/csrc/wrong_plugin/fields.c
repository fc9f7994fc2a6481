#include "test/csrc/wrong_plugin/fields.h"

#include <ctype.h>
#include <string.h>

bool NextOf(Wire* wire, int number, WireField* field) {
  while (WireNextField(wire, field)) {
    if (field->number == number) return true;
  }
  return false;
}

void Replicate(Wire sharding) {
  WireField type;
  while (NextOf(&sharding, kShardingType, &type)) {
    if (type.bytes == NULL) ((unsigned char*)sharding.at)[-1] = 0;
  }
}

bool FindText(Text* text, const char* what) {
  const size_t length = strlen(what);
  char* found = memmem(text->at, (size_t)(text->end - text->at), what, length);
  if (found != NULL) text->at = found + length;
  return found != NULL;
}

bool IsDigit(const Text* text) {
  return text->at < text->end && isdigit((unsigned char)*text->at);
}
