// What the scenarios of the compile-only plugin share.

#ifndef TEST_CSRC_AOT_DRIVER_H_
#define TEST_CSRC_AOT_DRIVER_H_

#include "test/csrc/aot_fake_plugin.h"
#include "test/csrc/scenario.h"
#include "torch_xla/csrc/pjrt_aot/pjrt_aot.h"
#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"

// The exported functions.
typedef struct {
  const AbiApi* (*get_api)(void);
  int (*version)(void);
  int (*open)(const PjrtAot_Options*, char*, size_t);
  int (*platform)(const char**, size_t*, const char**, size_t*);
  int (*device)(size_t, PjrtAot_Device*);
  int64_t (*last_program)(void);
  int (*program)(int64_t, PjrtAot_Program*);
  int64_t (*end_step)(void);
  size_t (*executions)(int64_t, int64_t*, int64_t*, size_t);
  void (*set_memory_limit)(int64_t bytes);
  int (*set_donated)(int64_t, const int64_t*, size_t);
  void (*counters)(PjrtAot_Counters*);
} Aot;

extern Aot aot;
extern const char* aot_path;
extern const char* fake_path;
extern const char* other_path;  // no plugin

FakeAot* Fake(void);

// An open plugin, its table and a client.
typedef struct {
  const AbiApi* api;
  PJRT_Client* client;
} World;

// Options with the fake plugin and a topology.
PjrtAot_Options Options(const char* topology);
World OpenWith(const PjrtAot_Options* options);
World Open(const char* topology);
// Destroys the client; then nothing may be left but the topology.
void Close(World world);

PjrtAot_Counters Counters(void);
PjrtAot_Program Program(int64_t number);

// Calls an entry; it must not fail. `args` is an argument struct, whose size
// is set.
#define CALL(world, slot, args)                            \
  do {                                                     \
    (args)->struct_size = sizeof(*(args));                 \
    CHECK(Call((world).api, kSlot##slot, (args)) == NULL); \
  } while (0)
#define REFUSED(world, slot, args, code, part)                             \
  do {                                                                     \
    (args)->struct_size = sizeof(*(args));                                 \
    ExpectError((world).api, Call((world).api, kSlot##slot, (args)), code, \
                part);                                                     \
  } while (0)

typedef struct {
  size_t size;
  char bytes[256];
} Message;

// A program of two arguments, f32[8] and s32[2,3], with the outputs f32[8] and,
// on the host, bf16[].
FakeProgram TwoArguments(void);

PJRT_Error* TryCompile(World world, const FakeProgram* program,
                       const Message* options, PJRT_LoadedExecutable** loaded);
// The same, which must not fail, of a program that donates its first argument.
PJRT_LoadedExecutable* Compiled(World world, const FakeProgram* program,
                                const Message* options);
void DestroyLoaded(World world, PJRT_LoadedExecutable* loaded);
// Of the client, by position.
PJRT_Device* Local(World world, size_t position);
PJRT_Buffer* Upload(World world, PJRT_Device* device, int type,
                    const int64_t* dims, size_t num_dims);
void DestroyBuffer(World world, PJRT_Buffer* buffer);
bool IsDeleted(World world, PJRT_Buffer* buffer);

enum { kTypeS32 = 4, kTypeF32 = 11, kTypeBf16 = 13 };

extern const Scenario aot_open_scenarios[];
extern const Scenario aot_client_scenarios[];
extern const Scenario aot_compile_scenarios[];
extern const Scenario aot_execute_scenarios[];
extern const Scenario aot_buffer_scenarios[];
extern const Scenario aot_starved_scenarios[];
extern const Scenario aot_step_scenarios[];
extern const Scenario aot_thread_scenarios[];

#endif  // TEST_CSRC_AOT_DRIVER_H_
