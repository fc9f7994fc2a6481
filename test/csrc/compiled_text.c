#include "test/csrc/compiled_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Protobuf's wire format. What is malformed ends a message early.

typedef struct {
  const unsigned char* bytes;
  size_t size;
} Message;

typedef struct {
  uint64_t number;
  uint64_t value;   // of an integer
  Message message;  // of all that has a length
} Field;

static bool TakeInteger(Message* rest, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && rest->size > 0; shift += 7) {
    const unsigned char byte = *rest->bytes++;
    --rest->size;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

static bool TakeBytes(Message* rest, uint64_t size, Message* taken) {
  if (size > rest->size) return false;
  *taken = (Message){rest->bytes, (size_t)size};
  rest->bytes += size;
  rest->size -= (size_t)size;
  return true;
}

// Takes the next field off the rest of a message; false at its end.
static bool TakeField(Message* rest, Field* field) {
  enum { kInteger = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5 };
  *field = (Field){0, 0, {NULL, 0}};
  uint64_t tag;
  if (!TakeInteger(rest, &tag)) return false;
  field->number = tag >> 3;
  uint64_t size = (tag & 7) == kEightBytes ? 8 : 4;
  switch (tag & 7) {
    case kInteger:
      return TakeInteger(rest, &field->value);
    case kLength:
      return TakeInteger(rest, &size) && TakeBytes(rest, size, &field->message);
    case kEightBytes:
    case kFourBytes:
      return TakeBytes(rest, size, &field->message);
    default:
      return false;
  }
}

// Takes the next field of that number.
static bool TakeNumbered(Message* rest, uint64_t number, Field* field) {
  while (TakeField(rest, field)) {
    if (field->number == number) return true;
  }
  return false;
}

// A field that occurs once; all zero if it does not.
static bool Find(Message message, uint64_t number, Field* field) {
  return TakeNumbered(&message, number, field);
}

static uint64_t Integer(Message message, uint64_t number) {
  Field field;
  Find(message, number, &field);
  return field.value;
}

static Message Submessage(Message message, uint64_t number) {
  Field field;
  Find(message, number, &field);
  return field.message;
}

// The text, which grows.

typedef struct {
  char* bytes;
  size_t size;
} Text;

__attribute__((format(printf, 2, 3))) static void Add(Text* text,
                                                      const char* format, ...) {
  va_list args;
  va_start(args, format);
  const int added = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (added < 0) abort();
  char* bytes = realloc(text->bytes, text->size + (size_t)added + 1);
  if (bytes == NULL) abort();
  va_start(args, format);
  vsnprintf(bytes + text->size, (size_t)added + 1, format, args);
  va_end(args);
  text->bytes = bytes;
  text->size += (size_t)added;
}

// Adds all integers of a repeated field, packed or not, each with `before` it
// but for the first, and `after` it. Returns how many there are.
static int AddIntegers(Text* text, Message message, uint64_t number,
                       const char* before, const char* after) {
  int count = 0;
  Field field;
  while (TakeNumbered(&message, number, &field)) {
    Message packed = field.message;
    bool there = packed.bytes == NULL || TakeInteger(&packed, &field.value);
    while (there) {
      Add(text, "%s%" PRId64 "%s", count++ > 0 ? before : "",
          (int64_t)field.value, after);
      there = packed.size > 0 && TakeInteger(&packed, &field.value);
    }
  }
  return count;
}

// Shardings, of OpSharding. As XLA prints them.

enum {
  kReplicated,
  kMaximal,
  kTuple,
  kOther,
  kManual,
  kUnknown,
  kShardingTypes,
};

enum {
  kShardingType = 1,
  kTileDimensions = 3,
  kTileDevices = 4,
  kTupleShardings = 5,
  kReplicateOnLastTileDim = 6,
  kLastTileDims = 8,
  kIotaReshape = 9,
  kIotaTranspose = 10,
};

static const char* const kTypeNames[kShardingTypes] = {
    "replicated", "maximal", "tuple", "other", "manual", "unknown"};

static const char* TypeName(uint64_t type) {
  return kTypeNames[type < kShardingTypes ? type : kUnknown];
}

static bool IsTuple(Message sharding) {
  return Integer(sharding, kShardingType) == kTuple;
}

// `<=[2,4]T(1,0)`. The transposition of one dimension says nothing.
static void AddIota(Text* text, Message sharding) {
  Add(text, "<=[");
  const int count = AddIntegers(text, sharding, kIotaReshape, ",", "");
  Add(text, "]");
  if (count < 2) return;
  Text order = {NULL, 0};
  Text same = {NULL, 0};
  AddIntegers(&order, sharding, kIotaTranspose, ",", "");
  for (int i = 0; i < count; ++i) Add(&same, "%s%d", i > 0 ? "," : "", i);
  if (order.size > 0 && strcmp(order.bytes, same.bytes) != 0) {
    Add(text, "T(%s)", order.bytes);
  }
  free(order.bytes);
  free(same.bytes);
}

// The kinds of what tiles are divided by beyond the dimensions.
static void AddLastTileDims(Text* text, Message sharding) {
  Text types = {NULL, 0};
  AddIntegers(&types, sharding, kLastTileDims, " ", "");
  if (types.size > 0) {
    Add(text, " last_tile_dims={");
    char* rest = NULL;
    const char* type = strtok_r(types.bytes, " ", &rest);
    for (int i = 0; type != NULL; ++i) {
      Add(text, "%s%s", i > 0 ? ", " : "", TypeName(strtoull(type, NULL, 10)));
      type = strtok_r(NULL, " ", &rest);
    }
    Add(text, "}");
  }
  free(types.bytes);
}

static void AddTiles(Text* text, Message sharding) {
  Add(text, "{devices=[");
  AddIntegers(text, sharding, kTileDimensions, ",", "");
  Add(text, "]");
  Field iota;
  if (Find(sharding, kIotaReshape, &iota)) {
    AddIota(text, sharding);
  } else {
    AddIntegers(text, sharding, kTileDevices, ",", "");
  }
  if (Integer(sharding, kReplicateOnLastTileDim)) {
    Add(text, " last_tile_dim_replicate");
  }
  AddLastTileDims(text, sharding);
  Add(text, "}");
}

static void AddSharding(Text* text, Message sharding) {
  const uint64_t type = Integer(sharding, kShardingType);
  if (type == kOther) {
    AddTiles(text, sharding);
  } else if (type == kTuple) {
    Field element;
    const char* before = "{";
    while (TakeNumbered(&sharding, kTupleShardings, &element)) {
      Add(text, "%s", before);
      AddSharding(text, element.message);
      before = ", ";
    }
    Add(text, before[0] == '{' ? "{}" : "}");
  } else {
    Add(text, "{%s", TypeName(type));
    if (type == kMaximal) {
      Add(text, " device=");
      AddIntegers(text, sharding, kTileDevices, ",", "");
    }
    Add(text, "}");
  }
}

// Shapes, of ShapeProto.

enum { kElementType = 2, kDimensions = 3, kTupleShapes = 4 };
enum { kTupleType = 13 };

static const char* ElementType(uint64_t type) {
  static const char* const names[] = {
      [1] = "i1",
      [2] = "i8",
      [3] = "i16",
      [4] = "i32",
      [5] = "i64",
      [6] = "ui8",
      [7] = "ui16",
      [8] = "ui32",
      [9] = "ui64",
      [10] = "f16",
      [11] = "f32",
      [12] = "f64",
      [15] = "complex<f32>",
      [16] = "bf16",
      [18] = "complex<f64>",
      [19] = "f8E5M2",
      [20] = "f8E4M3FN",
      [21] = "i4",
      [22] = "ui4",
      [23] = "f8E4M3B11FNUZ",
      [24] = "f8E5M2FNUZ",
      [25] = "f8E4M3FNUZ",
      [26] = "i2",
      [27] = "ui2",
      [28] = "f8E4M3",
      [29] = "f8E3M4",
  };
  const char* name =
      type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
  return name != NULL ? name : "none";
}

static void AddTensor(Text* text, Message shape) {
  Add(text, "tensor<");
  AddIntegers(text, shape, kDimensions, "", "x");
  Add(text, "%s>", ElementType(Integer(shape, kElementType)));
}

// Several messages, where tuples count as what they hold.

typedef struct {
  Message* messages;
  int count;
} List;

static void Append(List* list, Message message) {
  list->messages = realloc(
      list->messages, ((size_t)list->count + 1) * sizeof(list->messages[0]));
  if (list->messages == NULL) abort();
  list->messages[list->count++] = message;
}

static void AppendShapes(List* list, Message shape) {
  if (Integer(shape, kElementType) != kTupleType) {
    Append(list, shape);
    return;
  }
  Field element;
  while (TakeNumbered(&shape, kTupleShapes, &element)) {
    AppendShapes(list, element.message);
  }
}

static void AppendShardings(List* list, Message sharding) {
  if (!IsTuple(sharding)) {
    Append(list, sharding);
    return;
  }
  Field element;
  while (TakeNumbered(&sharding, kTupleShardings, &element)) {
    AppendShardings(list, element.message);
  }
}

static void AddTensors(Text* text, const List* shapes) {
  for (int i = 0; i < shapes->count; ++i) {
    Add(text, "%s", i > 0 ? ", " : "");
    AddTensor(text, shapes->messages[i]);
  }
}

// The program, of HloModuleProto.

enum {
  kConfigModule = 1,
  kModuleName = 1,
  kProgramShape = 4,
  kOutputSharding = 12,
  kParameterShardings = 14,
  kShapeParameters = 1,
  kShapeResult = 2,
};

typedef struct {
  Message name;
  List parameters;
  List results;
  List shardings;   // of the parameters; none, or one of each
  bool has_output;  // a sharding of the results
  Message output;
} Program;

static Program ReadProgram(Message module) {
  Program program = {.name = Submessage(module, kModuleName)};
  Message shape = Submessage(module, kProgramShape);
  AppendShapes(&program.results, Submessage(shape, kShapeResult));
  Field field;
  while (TakeNumbered(&shape, kShapeParameters, &field)) {
    AppendShapes(&program.parameters, field.message);
  }
  if (Find(module, kOutputSharding, &field)) {
    program.has_output = true;
    program.output = field.message;
  }
  while (TakeNumbered(&module, kParameterShardings, &field)) {
    AppendShardings(&program.shardings, field.message);
  }
  if (program.shardings.count != program.parameters.count) {
    program.shardings.count = 0;
  }
  return program;
}

static void FreeProgram(Program program) {
  free(program.parameters.messages);
  free(program.results.messages);
  free(program.shardings.messages);
}

static void AddParameters(Text* text, const Program* program, Telling telling) {
  bool lie = telling == kTellWrongSharding;
  for (int i = 0; i < program->parameters.count; ++i) {
    Add(text, "%s%%arg%d: ", i > 0 ? ", " : "", i);
    AddTensor(text, program->parameters.messages[i]);
    if (program->shardings.count == 0 || telling == kTellNoShardings) continue;
    Message sharding = program->shardings.messages[i];
    if (lie && Integer(sharding, kShardingType) != kReplicated) {
      sharding.size = 0;
      lie = false;
    }
    Add(text, " {mhlo.sharding = \"");
    AddSharding(text, sharding);
    Add(text, "\"}");
  }
}

// Frameworks convert the text to HLO: one call that gives all results, and that
// every reader knows how to convert.
static void AddBody(Text* text, const Program* program) {
  const int count = program->results.count;
  Add(text, "    ");
  if (count > 0) Add(text, "%%0:%d = ", count);
  Add(text, "stablehlo.custom_call @vendor.compiled(");
  for (int i = 0; i < program->parameters.count; ++i) {
    Add(text, "%s%%arg%d", i > 0 ? ", " : "", i);
  }
  Add(text, ") : (");
  AddTensors(text, &program->parameters);
  Add(text, ") -> (");
  AddTensors(text, &program->results);
  Add(text, ")\n    return");
  for (int i = 0; i < count; ++i) Add(text, "%s%%0#%d", i > 0 ? ", " : " ", i);
  if (count > 0) Add(text, " : ");
  AddTensors(text, &program->results);
  Add(text, "\n");
}

char* CompiledText(const void* bytes, size_t size, Telling telling) {
  Field module;
  if (!Find((Message){bytes, size}, kConfigModule, &module)) return NULL;
  Program program = ReadProgram(module.message);
  Text text = {NULL, 0};
  Add(&text, "module @\"%.*s\"", (int)program.name.size,
      (const char*)program.name.bytes);
  if (program.has_output && telling != kTellNoShardings) {
    Add(&text, " attributes {mhlo.spmd_output_sharding = \"");
    AddSharding(&text, program.output);
    Add(&text, "\"}");
  }
  Add(&text, " {\n  func.func @main(");
  AddParameters(&text, &program, telling);
  Add(&text, ") -> (");
  AddTensors(&text, &program.results);
  Add(&text, ") {\n");
  AddBody(&text, &program);
  Add(&text, "  }\n}\n");
  FreeProgram(program);
  return text.bytes;
}
