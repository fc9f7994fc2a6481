// Replacing the callback, from within and while it runs on other threads.

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test/csrc/compile_call.h"

static void UseText(PjrtShardy_Compilation* compilation,
                    const PjrtShardy_CompileRequest* request, void* user) {
  (void)request;
  CHECK(Try(compilation, user) == 0);
  CHECK(Try(compilation, user) == 0);
}

// Replaced from within, the running callback still has its user data.
static void ReplaceSelf(PjrtShardy_Compilation* compilation,
                        const PjrtShardy_CompileRequest* request, void* user) {
  shim.set_callback(UseText, "unused");
  shim.set_callback(NULL, NULL);
  (void)request;
  ++*(int*)user;
  CHECK(Try(compilation, "replaced") == 0);
}

static void CallbackReplacesItself(void) {
  OpenInner();
  int calls = 0;
  shim.set_callback(ReplaceSelf, &calls);
  for (int i = 0; i < 2; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    CHECK(Compile(call) == NULL);
    ExpectCompiled(call, i == 0 ? "replaced" : "first",
                   i == 0 ? "other" : "options");
    FreeCompileCall(call);
  }
  CHECK(calls == 1);
  ExpectNothingAlive();
}

static void* CompileMany(void* unused) {
  for (int i = 0; i < 100; ++i) {
    CompileCall call = MakeCompileCall(0, 0);
    CHECK(Compile(call) == NULL);
    CHECK(call.args->executable != NULL);
    FreeCompileCall(call);
  }
  return unused;
}

// The user data of a callback may be freed as soon as it is replaced.
static void CallbackThreads(void) {
  OpenInner();
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], NULL, CompileMany, NULL) == 0);
  }
  char* previous = NULL;
  for (int i = 0; i < 200; ++i) {
    char* text = strdup("from a thread");
    CHECK(text != NULL);
    shim.set_callback(i % 3 == 2 ? NULL : UseText, text);
    free(previous);
    previous = text;
  }
  shim.set_callback(NULL, NULL);
  free(previous);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  ExpectNothingAlive();
}

static atomic_bool inside;
static atomic_bool left;

static void Linger(PjrtShardy_Compilation* compilation,
                   const PjrtShardy_CompileRequest* request, void* user) {
  inside = true;
  usleep(100000);
  UseText(compilation, request, user);
  left = true;
}

// Replacing a callback waits until it is no longer running elsewhere.
static void CallbackAwaited(void) {
  OpenInner();
  char* text = strdup("still in use");
  CHECK(text != NULL);
  shim.set_callback(Linger, text);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, CompileMany, NULL) == 0);
  while (!inside) usleep(1000);
  shim.set_callback(NULL, NULL);
  CHECK(left);
  free(text);
  CHECK(pthread_join(thread, NULL) == 0);
  ExpectNothingAlive();
}

static int bound = 0;
static int IsBound(void) { return bound; }

static void NoteThread(PjrtShardy_Compilation* compilation,
                       const PjrtShardy_CompileRequest* request, void* user) {
  *(pthread_t*)user = pthread_self();
  UseText(compilation, request, "elsewhere");
  shim.set_callback(NULL, NULL);  // Which must not wait for itself.
}

static bool RunsHere(void) {
  pthread_t ran;
  CompileCall call = MakeCompileCall(0, 0);
  CHECK(CompileThrough(NoteThread, &ran, call) == NULL);
  ExpectCompiled(call, "elsewhere", "other");
  FreeCompileCall(call);
  return pthread_equal(ran, pthread_self());
}

static void* RunsOnAnother(void* unused) {
  CHECK(RunsHere());
  return unused;
}

static void CallbackLeavesFirstThread(void) {
  OpenInner();
  CHECK(RunsHere());
  shim.leave_first_thread(IsBound);
  CHECK(!RunsHere());
  bound = 1;
  CHECK(RunsHere());
  bound = 0;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, RunsOnAnother, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  shim.leave_first_thread(NULL);
  CHECK(RunsHere());
  ExpectNothingAlive();
}

const Scenario callback_scenarios[] = {
    {"callback_replaces_itself", CallbackReplacesItself},
    {"callback_threads", CallbackThreads},
    {"callback_awaited", CallbackAwaited},
    {"callback_leaves_first_thread", CallbackLeavesFirstThread},
    {NULL, NULL}};
