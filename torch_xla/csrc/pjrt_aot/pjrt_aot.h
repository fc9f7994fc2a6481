// A PJRT plugin that compiles and does not run: libpjrt_aot.so.
//
// It stands before a plugin that has topologies and PJRT_Compile, such as
// libtpu, and gives the framework a client with the devices of a topology that
// is not there. Programs are compiled by that plugin, for those devices.
// Buffers have a type, dimensions and a place and no data; an execution gives
// buffers as the executable describes its outputs, and computes nothing; what
// is read back is zeros.
//
// The client is that of one process of many: the devices of one host are
// addressable, the others are not.
//
// Codes are those of PJRT_Error_Code, 0 is success. The caller is of the same
// version, and what it hands over is valid.

#ifndef TORCH_XLA_CSRC_PJRT_AOT_PJRT_AOT_H_
#define TORCH_XLA_CSRC_PJRT_AOT_PJRT_AOT_H_

#include <stddef.h>
#include <stdint.h>

#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_AOT_VERSION 5

typedef struct {
  const char* library;   // the plugin that compiles, a path
  const char* topology;  // as that plugin names it
  // For PJRT_TopologyDescription_Create.
  const AbiNamedValue* topology_options;
  size_t num_topology_options;
  int host;            // the process whose devices are addressable
  int one_process;     // not 0: all devices say they are of process 0
  int refuse_reads;    // not 0: reading a value is an error
  int64_t step_limit;  // executions are refused after this many; 0: never
  int stop_signal;     // sent at each such refusal but the first; 0: no
} PjrtAot_Options;

typedef struct {
  int64_t id;
  int process;       // the topology's own, whatever one_process says
  int addressable;   // 0 or 1
  const char* kind;  // "TPU v5 lite"; lives as long as the process
  size_t kind_size;
  // From its attributes; -1 and no coordinates where the plugin has none.
  int64_t coordinates[3];
  size_t num_coordinates;
  int64_t slice;
} PjrtAot_Device;

// Of one device.
typedef struct {
  double flops;           // negative: the plugin does not tell
  double bytes_accessed;  // likewise
  int64_t executions;     // so far
  // The most that buffers other than its arguments took on a device when it was
  // executed, as dense arrays.
  int64_t beside;
} PjrtAot_Program;

typedef struct {
  int64_t steps;       // that have ended
  int64_t executions;  // of whatever program
  int64_t reads;       // of values that were computed, or only uploaded
  int64_t refused;     // executions, after the last step
  int64_t buffers;     // alive
} PjrtAot_Counters;

int PjrtAot_Version(void);

// Opens the plugin that compiles and the topology. Once per process, and before
// GetPjrtApi's table is used: until then all of its entries fail.
//
// The reason of a failure is written to `message`, NUL-terminated and cut to
// `message_size`. After a failure it may be called again.
int PjrtAot_Open(const PjrtAot_Options* options, char* message,
                 size_t message_size);

// What the plugin that compiles calls its platform and version. They live as
// long as the process. FAILED_PRECONDITION before PjrtAot_Open.
int PjrtAot_Platform(const char** name, size_t* name_size, const char** version,
                     size_t* version_size);

// The devices by their position, sorted by id. FAILED_PRECONDITION before
// PjrtAot_Open, NOT_FOUND after the last.
int PjrtAot_GetDevice(size_t position, PjrtAot_Device* device);

// What a device says from here on that it has, in bytes; 0: it does not say.
void PjrtAot_SetMemoryLimit(int64_t bytes);

// The program that this thread last had compiled, counted from 0 in the whole
// process; -1 if it has not, or if its last was refused.
int64_t PjrtAot_LastProgram(void);

// The positions of the arguments that a program may write over: executions
// delete them unless the caller keeps them. Before its first execution.
// NOT_FOUND, or RESOURCE_EXHAUSTED.
int PjrtAot_SetDonated(int64_t number, const int64_t* positions, size_t count);

// What is known of a program, also after its executable is gone. NOT_FOUND.
int PjrtAot_GetProgram(int64_t number, PjrtAot_Program* program);

// A step is one round of programs: it ends when one is executed that was
// already executed in it, or when this is called after something was executed.
// Returns how many have ended.
int64_t PjrtAot_EndStep(void);

// The executions from number `first` on, in order: of each, its program and how
// many steps had ended. Returns how many were written, `capacity` at most.
size_t PjrtAot_GetExecutions(int64_t first, int64_t* programs,
                             int64_t* in_steps, size_t capacity);

void PjrtAot_GetCounters(PjrtAot_Counters* counters);

#ifdef __cplusplus
}
#endif

#endif  // TORCH_XLA_CSRC_PJRT_AOT_PJRT_AOT_H_
