// Executables that are kept when the framework destroys them.

#include <pthread.h>

#include "test/csrc/compile_call.h"

static int clients[2];  // Two addresses.

typedef struct {
  uint64_t id;
  const char* program;  // compiled if there is no such id; NULL: never
  const char* after;    // compiled whatever comes before, or NULL
  bool fails;
  int code;  // out, of the call for the id
} Reuse;

static void DoReuse(PjrtShardy_Compilation* compilation,
                    const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  Reuse* reuse = user;
  reuse->code = shim.reuse(compilation, reuse->id);
  if (reuse->code != 0) {
    CHECK(reuse->code == kAbiNotFound);
    if (reuse->program != NULL) CHECK(Try(compilation, reuse->program) == 0);
    shim.keep(compilation, reuse->id);
  }
  if (reuse->after != NULL) Try(compilation, reuse->after);
  if (reuse->fails) shim.fail(compilation, kAbiNotFound, "Python said no", 14);
}

// One more compile for the first client.
static CompileCall Ask(Reuse* reuse) {
  CompileCall call = MakeCompileCall(8, 0);
  call.args->client = (PJRT_Client*)&clients[0];
  CHECK(CompileThrough(DoReuse, reuse, call) == NULL);
  return call;
}

// Asks and destroys; whether it was there before.
static bool IsKept(uint64_t id, const char* program) {
  Reuse reuse = {.id = id, .program = program};
  CompileCall call = Ask(&reuse);
  ExpectCompiled(call, program, "other");
  FreeCompileCall(call);
  return reuse.code == 0;
}

static int Alive(void) { return Record()->live_loaded_executables; }

static void EndClient(int which) {
  AbiClientDestroyArgs args = {sizeof(args), NULL,
                               (PJRT_Client*)&clients[which]};
  CHECK(Call(shim.get_api(), kSlotClientDestroy, &args) == NULL);
}

static void KeptReused(void) {
  OpenInner();
  CHECK(!IsKept(7, "good"));
  const void* compiled = Record()->compile_args;
  Reuse reuse = {.id = 7};
  for (int i = 0; i < 3; ++i) {
    CHECK(Alive() == 1);
    CompileCall call = Ask(&reuse);
    CHECK(reuse.code == 0);
    ExpectCompiled(call, "good", "other");
    CHECK(Record()->compile_args == compiled);
    FreeCompileCall(call);
  }
  // As a framework that asked for no such thing.
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(Compile(call) == NULL);
  FreeCompileCall(call);
  CHECK(Alive() == 1);
  EndClient(1);
  CHECK(Alive() == 1);
  EndClient(0);
  CHECK(Record()->alive_at_client_destroy == 0);
  ExpectNothingAlive();
  CHECK(!IsKept(7, "good"));
  EndClient(0);
}

// The framework has an executable alone.
static void KeptInUse(void) {
  OpenInner();
  Reuse first = {.id = 7, .program = "good"};
  Reuse second = first;
  CompileCall calls[] = {Ask(&first), Ask(&second)};
  CHECK(second.code == kAbiNotFound);
  CHECK(calls[0].args->executable != calls[1].args->executable);
  FreeCompileCall(calls[1]);
  CHECK(IsKept(7, "good"));
  EndClient(0);
  CHECK(Record()->alive_at_client_destroy == 1);
  FreeCompileCall(calls[0]);
  ExpectNothingAlive();
}

static void KeptOther(void) {
  const AbiApi* api = OpenInner();
  CHECK(!IsKept(7, "good"));
  CHECK(!IsKept(8, "better"));
  Reuse reuse = {.id = 7};
  CompileCall call = MakeCompileCall(0, 0);
  call.args->client = (PJRT_Client*)&clients[1];
  ExpectError(api, CompileThrough(DoReuse, &reuse, call), kAbiInternal,
              "compiled nothing");
  FreeCompileCall(call);
  CHECK(IsKept(7, "good") && IsKept(8, "better"));
  EndClient(0);
  ExpectNothingAlive();
}

static void KeptEviction(void) {
  OpenInner();
  for (uint64_t id = 1; id <= 70; ++id) CHECK(!IsKept(id, "good"));
  CHECK(Alive() == 64);
  CHECK(IsKept(7, "good"));  // By now the newest.
  CHECK(!IsKept(6, "good") && !IsKept(8, "good"));
  CHECK(IsKept(7, "good") && IsKept(70, "good"));
  CHECK(Alive() == 64);
  EndClient(0);
  ExpectNothingAlive();
}

// Nobody may get what was deleted, or what nobody says it of.
static void KeptDeleted(void) {
  OpenInner();
  CHECK(!IsKept(7, "deleted") && !IsKept(8, "mute"));
  ExpectNothingAlive();
}

static void KeptFail(void) {
  const AbiApi* api = OpenInner();
  CHECK(!IsKept(7, "good"));
  Reuse reuse = {.id = 7, .fails = true};
  CompileCall call = MakeCompileCall(0, 0);
  call.args->client = (PJRT_Client*)&clients[0];
  ExpectError(api, CompileThrough(DoReuse, &reuse, call), kAbiNotFound,
              "Python said no");
  ExpectNothingAlive();
  reuse = (Reuse){.id = 7, .program = "good", .after = "bad"};
  ExpectError(api, CompileThrough(DoReuse, &reuse, call), kAbiUnimplemented,
              "bad");
  FreeCompileCall(call);
  ExpectNothingAlive();
}

// What comes after is none of it.
static void KeptReplaced(void) {
  OpenInner();
  CHECK(!IsKept(7, "good"));
  Reuse reuse = {.id = 7, .after = "better"};
  CompileCall call = Ask(&reuse);
  ExpectCompiled(call, "better", "other");
  CHECK(Alive() == 1);
  FreeCompileCall(call);
  ExpectNothingAlive();
}

static void ReuseAsked(PjrtShardy_Compilation* compilation,
                       const PjrtShardy_CompileRequest* request, void* user) {
  (void)user;
  const uint64_t id = (unsigned char)request->program[0];
  if (shim.reuse(compilation, id) == 0) return;
  CHECK(shim.compile(compilation, request->program, request->program_size, NULL,
                     0, "other", 5) == 0);
  shim.keep(compilation, id);
}

static void* CompileMany(void* name) {
  CompileCall call = MakeCompileCall(0, 0);
  call.args->client = (PJRT_Client*)&clients[0];
  call.program->code = name;
  call.program->code_size = strlen(name);
  for (int i = 0; i < 100; ++i) {
    CHECK(Call(shim.get_api(), kSlotClientCompile, call.args) == NULL);
    ExpectCompiled(call, name, "other");
    AbiLoadedExecutableDestroyArgs destroy = {sizeof(destroy), NULL,
                                              call.args->executable};
    CHECK(Call(shim.get_api(), kSlotLoadedExecutableDestroy, &destroy) == NULL);
  }
  call.args->executable = NULL;
  FreeCompileCall(call);
  return NULL;
}

static void KeptThreads(void) {
  OpenInner();
  shim.set_callback(ReuseAsked, NULL);
  char* names[] = {"one", "one", "two"};
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], NULL, CompileMany, names[i]) == 0);
  }
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  shim.set_callback(NULL, NULL);
  CHECK(Alive() == 2 || Alive() == 3);
  EndClient(0);
  ExpectNothingAlive();
}

const Scenario kept_scenarios[] = {{"kept_reused", KeptReused},
                                   {"kept_in_use", KeptInUse},
                                   {"kept_other", KeptOther},
                                   {"kept_eviction", KeptEviction},
                                   {"kept_deleted", KeptDeleted},
                                   {"kept_fail", KeptFail},
                                   {"kept_replaced", KeptReplaced},
                                   {"kept_threads", KeptThreads},
                                   {NULL, NULL}};
