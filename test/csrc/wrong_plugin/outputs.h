// The outputs of an execution, and what can be done to them.

#ifndef TEST_CSRC_WRONG_PLUGIN_OUTPUTS_H_
#define TEST_CSRC_WRONG_PLUGIN_OUTPUTS_H_

#include "test/csrc/wrong_plugin/wrong_plugin.h"

typedef struct {
  PJRT_Buffer** const* lists;  // per device
  size_t devices;
  size_t count;  // of each device
} Outputs;

Outputs OutputsOf(const AbiLoadedExecutableExecuteArgs* args);

void EachOutput(const Outputs* outputs, void (*spoil)(PJRT_Buffer* buffer));
// The first element is far off: a bool is its opposite, of all else the second
// highest bit is flipped.
void SpoilFirstElements(const Outputs* outputs);
// The same on the last of several devices.
void SpoilOnLastDevice(const Outputs* outputs);
// Each device gets what the next one has; as SpoilFirstElements where all have
// the same.
void RotateDevices(const Outputs* outputs);
// The first float32 is a NaN.
void MakeNan(const Outputs* outputs);
// Floats keep the upper half of their mantissas.
void LosePrecision(const Outputs* outputs);

#endif  // TEST_CSRC_WRONG_PLUGIN_OUTPUTS_H_
