// The core of the plugins for tests: the plugin behind one, if there is any,
// and errors that are known apart from its own.

#ifndef TEST_CSRC_PLUGIN_CORE_H_
#define TEST_CSRC_PLUGIN_CORE_H_

#include <stdbool.h>
#include <stddef.h>

#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

// The plugin behind this one; NULL: none, and a strange error ends the process.
extern const AbiApi* inner;

// The table of a library, or NULL, with a message that begins with `name`.
const AbiApi* OpenPlugin(const char* path, const char* name);
PJRT_Error* CallInner(int slot, void* args);
void CallInnerVoid(int slot, void* args);
// For calls that cannot fail, or whose failure changes nothing.
bool TryInner(int slot, void* args);

// Errors of our own, of which the plugin behind must not be asked.

PJRT_Error* Refuse(int code, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
int LiveErrors(void);
int CodeOf(const PJRT_Error* error);
void FreeError(PJRT_Error* error);
// The functions of errors that know ours and the other plugin's apart.
void ErrorDestroy(AbiErrorDestroyArgs* args);
void ErrorMessage(AbiErrorMessageArgs* args);
PJRT_Error* ErrorGetCode(AbiErrorGetCodeArgs* args);
PJRT_Error* ErrorForEachPayload(AbiErrorForEachPayloadArgs* args);
// Puts them into a table that has entries of them.
void SetErrorFunctions(AbiApi* table);

// Memory, of zeros; ends the process where there is none.
void* Allocate(size_t size);
void* Duplicate(const void* bytes, size_t size);

#endif  // TEST_CSRC_PLUGIN_CORE_H_
