// What a compiled program's own bytes tell: its arguments, and which of them
// are donated.

#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

// Field numbers of xla/service/hlo.proto and xla/xla_data.proto.
enum {
  kConfiguredModule = 1,
  kModuleProgramShape = 4,
  kModuleAlias = 8,
  kProgramShapeParameter = 1,
  kShapeElementType = 2,
  kShapeDimension = 3,
  kShapeTuple = 4,
  kShapeDynamic = 6,
  kAliasEntry = 1,
  kAliasParameter = 2,
  kAliasParameterIndex = 3,
};
// PrimitiveType
enum { kXlaTuple = 13 };

static PJRT_Error* Malformed(void) {
  return ShardyError(kAbiInternal,
                     "PJRT_Client_Compile: the optimized program that the "
                     "inner plugin gave is no HloModuleProto");
}

static PJRT_Error* OfResult(AotReadResult result) {
  return result == kAotRead        ? NULL
         : result == kAotMalformed ? Malformed()
                                   : ShardyNoMemory(kSlotClientCompile);
}

// The parts of a module that matter here.
typedef struct {
  AotField program_shape;
  AotField alias;
} Module;

static PJRT_Error* FindParts(AotWire wire, Module* module) {
  AotField field;
  while (AotNextField(&wire, &field)) {
    if (field.number == kModuleProgramShape) module->program_shape = field;
    if (field.number == kModuleAlias) module->alias = field;
  }
  return wire.malformed ? Malformed() : NULL;
}

// Appends the shape of an array, or those in a tuple: programs may take all
// arguments as one.
static PJRT_Error* AddShape(AotWire wire, bool in_tuple,
                            AotSignature* signature, size_t* room) {
  AotShape shape = {.type = kAbiTypeInvalid,
                    .first_dim = signature->dims.count};
  bool is_tuple = false;
  bool dynamic = false;
  AotField field;
  while (AotNextField(&wire, &field)) {
    PJRT_Error* error = NULL;
    if (field.number == kShapeElementType) {
      is_tuple = field.value == kXlaTuple;
      shape.type = AotTypeOfXla(field.value);
    } else if (field.number == kShapeDimension) {
      error = OfResult(AotReadInts(&field, &signature->dims));
    } else if (field.number == kShapeTuple && !in_tuple) {
      error = AddShape(AotWireIn(&field), true, signature, room);
    } else if (field.number == kShapeDynamic) {
      for (size_t i = 0; i < field.size; ++i) dynamic |= field.bytes[i] != 0;
      dynamic |= field.value != 0;
    }
    if (error != NULL) return error;
  }
  if (wire.malformed) return Malformed();
  if (is_tuple && !in_tuple) return NULL;
  shape.num_dims = signature->dims.count - shape.first_dim;
  // Of these the sizes differ from call to call.
  if (dynamic) shape.type = kAbiTypeInvalid;
  if (signature->num_arguments == *room) {
    const size_t more = *room > 0 ? 2 * *room : 16;
    AotShape* list = realloc(signature->arguments, more * sizeof(*list));
    if (list == NULL) return ShardyNoMemory(kSlotClientCompile);
    signature->arguments = list;
    *room = more;
  }
  signature->arguments[signature->num_arguments++] = shape;
  return NULL;
}

static PJRT_Error* ReadArguments(const AotField* program_shape,
                                 AotSignature* signature) {
  if (program_shape->bytes == NULL) return NULL;
  AotWire wire = AotWireIn(program_shape);
  AotField field;
  size_t room = 0;
  while (AotNextField(&wire, &field)) {
    if (field.number != kProgramShapeParameter) continue;
    PJRT_Error* error = AddShape(AotWireIn(&field), false, signature, &room);
    if (error != NULL) return error;
  }
  if (wire.malformed) return Malformed();
  signature->has_arguments = true;
  return NULL;
}

// The argument of an entry of HloInputOutputAliasProto: a parameter, or the
// element of the one that is a tuple.
static PJRT_Error* ReadAlias(AotWire wire, AotInts* donated) {
  AotInts index = {0};
  int64_t argument = 0;
  AotReadResult result = kAotRead;
  AotField field;
  while (result == kAotRead && AotNextField(&wire, &field)) {
    if (field.number == kAliasParameter) {
      argument = (int64_t)field.value;
    } else if (field.number == kAliasParameterIndex) {
      result = AotReadInts(&field, &index);
    }
  }
  if (result == kAotRead && wire.malformed) result = kAotMalformed;
  if (index.count > 0) argument = index.values[0];
  free(index.values);
  if (result == kAotRead && !AotPush(donated, argument)) result = kAotNoMemory;
  return OfResult(result);
}

static PJRT_Error* ReadAliases(const AotField* alias, AotInts* donated) {
  if (alias->bytes == NULL) return NULL;
  AotWire wire = AotWireIn(alias);
  AotField field;
  while (AotNextField(&wire, &field)) {
    if (field.number != kAliasEntry) continue;
    PJRT_Error* error = ReadAlias(AotWireIn(&field), donated);
    if (error != NULL) return error;
  }
  return wire.malformed ? Malformed() : NULL;
}

PJRT_Error* AotReadSignature(const AbiProgram* program,
                             AotSignature* signature) {
  *signature = (AotSignature){0};
  if (program->code == NULL) return NULL;
  static const char plain[] = "hlo";
  static const char configured[] = "hlo_with_config";
  AotWire wire = AotWireOf(program->code, program->code_size);
  if (program->format_size == sizeof(configured) - 1 &&
      memcmp(program->format, configured, sizeof(configured) - 1) == 0) {
    AotField field;
    AotField inner = {0};
    while (AotNextField(&wire, &field)) {
      if (field.number == kConfiguredModule) inner = field;
    }
    if (wire.malformed) return Malformed();
    wire = AotWireIn(&inner);
  } else if (program->format_size != sizeof(plain) - 1 ||
             memcmp(program->format, plain, sizeof(plain) - 1) != 0) {
    return NULL;  // in a format of the plugin's own
  }
  Module module = {{0}, {0}};
  PJRT_Error* error = FindParts(wire, &module);
  if (error == NULL) error = ReadArguments(&module.program_shape, signature);
  if (error == NULL) error = ReadAliases(&module.alias, &signature->donated);
  return error;
}

void AotFreeSignature(AotSignature* signature) {
  free(signature->arguments);
  free(signature->dims.values);
  free(signature->donated.values);
}
