// Many threads at once.

#include <pthread.h>

#include "test/csrc/aot_run.h"

enum { kThreads = 8, kRounds = 40 };

static World shared;

// Each has a program compiled, executes it on buffers of its own and on one of
// all, and reads what is known of it.
static void* Work(void* unused) {
  (void)unused;
  for (int round = 0; round < kRounds; ++round) {
    PJRT_LoadedExecutable* loaded = CompileForAll(shared);
    const int64_t number = aot.last_program();
    Run run;
    Fill(shared, &run, loaded);
    CALL(shared, LoadedExecutableExecute, &run.args);
    REFUSED(shared, LoadedExecutableExecute, &run.args, kAbiFailedPrecondition,
            "donated");
    CHECK(Program(number).executions == 1);
    Empty(shared, &run);
    if (round % 8 == 0) aot.end_step();
    Counters();
    DestroyLoaded(shared, loaded);
  }
  return NULL;
}

static void Threads(void) {
  shared = Open("fake:8");
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, Work, NULL) == 0);
  }
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(Counters().executions == kThreads * kRounds);
  PjrtAot_Program program;
  CHECK(aot.program(kThreads * kRounds - 1, &program) == 0);
  CHECK(aot.program(kThreads * kRounds, &program) == kAbiNotFound);
  Close(shared);
}

static _Atomic int opened;

static void* OpenIt(void* unused) {
  (void)unused;
  const PjrtAot_Options options = Options("fake:8");
  char message[256];
  const int code = aot.open(&options, message, sizeof(message));
  CHECK(code == 0 || code == kAbiFailedPrecondition);
  if (code == 0) ++opened;
  PjrtAot_Device device;
  CHECK(aot.device(7, &device) == 0);
  return NULL;
}

static void OpenThreads(void) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, OpenIt, NULL) == 0);
  }
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(opened == 1 && Fake()->initialized == 1);
}

// A program's number is of the thread that had it compiled.
static void* NoProgram(void* unused) {
  (void)unused;
  CHECK(aot.last_program() == -1);
  return NULL;
}

static void LastProgram(void) {
  World world = Open("fake:8");
  PJRT_LoadedExecutable* loaded = CompileForAll(world);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, NoProgram, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(aot.last_program() == 0);
  DestroyLoaded(world, loaded);
  Close(world);
}

// What the thread sanitizer must see; a run that passes is a failure.
static int raced = 0;

static void* Race(void* unused) {
  (void)unused;
  for (int i = 0; i < 1000; ++i) ++raced;
  return NULL;
}

static void CanaryRace(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(pthread_create(&threads[i], NULL, Race, NULL) == 0);
  }
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

const Scenario aot_thread_scenarios[] = {{"threads", Threads},
                                         {"open_threads", OpenThreads},
                                         {"last_program", LastProgram},
                                         {"canary_race", CanaryRace},
                                         {NULL, NULL}};
