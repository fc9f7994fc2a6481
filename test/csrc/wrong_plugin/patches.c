#include "test/csrc/wrong_plugin/patches.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/fields.h"

// Numbers below 128, of one byte each, as they are of devices and dimensions.
static int CompareBytes(const void* a, const void* b) {
  return *(const unsigned char*)a - *(const unsigned char*)b;
}

static void SortPacked(const WireField* field) {
  if (field->bytes == NULL) return;
  for (size_t i = 0; i < field->size; ++i) {
    if (field->bytes[i] >= 0x80) return;
  }
  qsort((void*)field->bytes, field->size, 1, CompareBytes);
}

// Where the options' use_shardy_partitioner stands, if it is true.
static const unsigned char* ShardyFlag(const char* options, size_t size) {
  Wire wire = WireOf(options, size);
  WireField build;
  const unsigned char* place = NULL;
  while (NextOf(&wire, kCompileOptionsBuild, &build)) {
    Wire inside = WireIn(&build);
    WireField flag;
    while (NextOf(&inside, kBuildShardy, &flag)) {
      place = flag.value != 0 ? inside.at - 1 : NULL;
    }
  }
  return place;
}

bool AsksForShardy(const char* options, size_t size) {
  return ShardyFlag(options, size) != NULL;
}

void AskNotForShardy(char* options, size_t size) {
  const unsigned char* place = ShardyFlag(options, size);
  if (place != NULL) *(unsigned char*)place = 0;
}

void AssignInOrder(char* options, size_t size) {
  Wire wire = WireOf(options, size);
  WireField build, assignment, computation, ids;
  while (NextOf(&wire, kCompileOptionsBuild, &build)) {
    Wire in_build = WireIn(&build);
    while (NextOf(&in_build, kBuildAssignment, &assignment)) {
      Wire in_assignment = WireIn(&assignment);
      unsigned char id = 0;
      while (NextOf(&in_assignment, kAssignmentComputations, &computation)) {
        Wire in_computation = WireIn(&computation);
        while (NextOf(&in_computation, kComputationIds, &ids)) {
          unsigned char* bytes = (unsigned char*)ids.bytes;
          for (size_t i = 0; i < ids.size; ++i) bytes[i] = id++;
        }
      }
    }
  }
}

// Shardings of HLO.

static void SortInSharding(Wire sharding, int number) {
  WireField field;
  while (WireNextField(&sharding, &field)) {
    if (field.number == number) SortPacked(&field);
    if (field.number == kShardingTuple && field.bytes != NULL) {
      SortInSharding(WireIn(&field), number);
    }
  }
}

// Nothing if the code is no HLO module.
static void SortInHlo(const char* code, size_t size, int number) {
  Wire module = WireOf(code, size);
  WireField computation, instruction, sharding;
  while (NextOf(&module, kModuleComputations, &computation)) {
    Wire in_computation = WireIn(&computation);
    while (NextOf(&in_computation, kComputationInstructions, &instruction)) {
      Wire in_instruction = WireIn(&instruction);
      while (NextOf(&in_instruction, kInstructionSharding, &sharding)) {
        SortInSharding(WireIn(&sharding), number);
      }
    }
  }
}

// Lists of numbers in texts.

static int Ascending(const void* a, const void* b) {
  return *(const int*)a - *(const int*)b;
}

static int Descending(const void* a, const void* b) { return Ascending(b, a); }

// Reads the numbers before any other character than those between them; the
// count.
static size_t ReadNumbers(Text text, int* numbers, size_t room) {
  size_t count = 0;
  while (IsDigit(&text) && count < room) {
    numbers[count] = 0;
    while (IsDigit(&text)) {
      numbers[count] = 10 * numbers[count] + (*text.at++ - '0');
    }
    ++count;
    while (text.at < text.end && (*text.at == ',' || *text.at == ' ')) {
      ++text.at;
    }
  }
  return count;
}

static void WriteNumber(Text* text, int number) {
  char digits[12];
  size_t count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  while (count > 0) *text->at++ = digits[--count];
}

// The same numbers in another order, in the same room.
static void SortNumbers(Text text, int (*compare)(const void*, const void*)) {
  enum { kRoom = 1024 };
  int numbers[kRoom];
  const size_t count = ReadNumbers(text, numbers, kRoom);
  Text rest = text;
  while (IsDigit(&rest)) ++rest.at;
  const bool spaced = rest.end - rest.at > 1 && rest.at[1] == ' ';
  qsort(numbers, count, sizeof(numbers[0]), compare);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) *text.at++ = ',';
    if (i > 0 && spaced) *text.at++ = ' ';
    WriteNumber(&text, numbers[i]);
  }
}

// Not in ascending order, which Shardy has no device_ids for.
void MisreadMeshes(char* code, size_t size) {
  Text text = {code, code + size};
  while (FindText(&text, "device_ids=[")) SortNumbers(text, Descending);
}

void MisreadV2(char* code, size_t size) {
  SortInHlo(code, size, kShardingPerm);
  Text text = {code, code + size};
  while (FindText(&text, "]T(")) SortNumbers(text, Ascending);
}

void MisreadV1(char* code, size_t size) {
  SortInHlo(code, size, kShardingDevices);
  Text text = {code, code + size};
  while (FindText(&text, "{devices=[")) {
    if (FindText(&text, "]")) SortNumbers(text, Ascending);
  }
}

void DropPriorities(char* code, size_t size) {
  Text text = {code, code + size};
  while (FindText(&text, "}p")) {
    if (IsDigit(&text)) *text.at = '0';
  }
}
