// Which arguments a compiled program donates, by its own bytes.

#include <stdlib.h>
#include <string.h>

#include "torch_xla/csrc/pjrt_aot/internal.h"

// Field numbers of xla/service/hlo.proto.
enum {
  kConfiguredModule = 1,
  kModuleAlias = 8,
  kAliasEntry = 1,
  kAliasParameter = 2,
  kAliasParameterIndex = 3,
};

static PJRT_Error* Malformed(void) {
  return ShardyError(kAbiInternal,
                     "PJRT_Client_Compile: the optimized program that the "
                     "inner plugin gave is no HloModuleProto");
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
  return result == kAotRead        ? NULL
         : result == kAotMalformed ? Malformed()
                                   : ShardyNoMemory(kSlotClientCompile);
}

static bool HasFormat(const AbiProgram* program, const char* format) {
  return program->format_size == strlen(format) &&
         memcmp(program->format, format, program->format_size) == 0;
}

PJRT_Error* AotReadDonated(const AbiProgram* program, AotInts* donated) {
  const bool configured = HasFormat(program, "hlo_with_config");
  if (program->code == NULL || !(configured || HasFormat(program, "hlo"))) {
    return NULL;
  }
  AotWire wire = AotWireOf(program->code, program->code_size);
  if ((configured && !AotDescend(&wire, kConfiguredModule)) ||
      !AotDescend(&wire, kModuleAlias)) {
    return Malformed();
  }
  AotField field;
  while (AotNextField(&wire, &field)) {
    if (field.number != kAliasEntry) continue;
    PJRT_Error* error = ReadAlias(AotWireIn(&field), donated);
    if (error != NULL) return error;
  }
  return wire.malformed ? Malformed() : NULL;
}
