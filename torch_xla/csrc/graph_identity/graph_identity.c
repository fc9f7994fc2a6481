// Tells graphs apart by which data stands where (pytorch/xla#8353).
//
// `_XLAC` finds a compiled program by a hash to which all data of one shape and
// placement is alike, wherever it is used. That hash begins in torch's
// LazyGraphExecutor::RunPostOrder, which `_XLAC` finds by name. So this
// library, loaded before it and for all (RTLD_GLOBAL), has a function of that
// name: it calls torch's, and mixes in new hashes of the roots, in which data
// is told apart by the order in which the graph comes to it. That is the same
// in all processes, and whether the graph has a node twice or uses it twice.

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// See pjrt_shardy/load.c.
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
#endif

#define RUN_POST_ORDER                                               \
  "_ZN5torch4lazy17LazyGraphExecutor12RunPostOrderERKSt6vectorINS0_" \
  "5ValueESaIS3_EEPNS1_20SyncTensorCollectionE"

// The beginnings of torch's objects, and vectors of them, as in torch 2.9. A
// torch with others would not go with this wheel's `_XLAC`.
typedef struct Node Node;

typedef unsigned __int128 Hash;  // As C++ returns it: two integers.

typedef struct {
  const Node* node;
  size_t index;
} Output;

typedef struct {
  const Output *begin, *end, *capacity;
} Outputs;

struct Node {
  const struct {
    void (*destructors[2])(void);
    void (*shapes)(void);
    void (*shape)(void);
    const Outputs* (*operands)(const Node*);
    void (*operand)(void);
    void (*nullable_operand)(void);
    Hash (*hash)(const Node*);
  }* functions;
};

// What C++ knows of a class, before its functions.
typedef struct {
  const void* functions;
  const char* name;
} Type;

typedef struct {
  const Node* node;
  void* owners;
  size_t index;
} Value;

typedef struct {
  const Value *begin, *end, *capacity;
} Values;

typedef struct {
  bool config[2];
  void* indices[3];
  uint64_t hash[2];  // The low half first.
} Collection;

typedef struct {
  const void *data, *owners;
} Data;

typedef struct {
  const Node *const *begin, *const *end, *const *capacity;
  char emitted[56];  // A map of nodes.
  struct {
    const Data *begin, *end, *capacity;
  } parameters;
} PostOrder;

// In C++ a member function that gives an object, in memory of the caller's.
typedef PostOrder* (*Run)(PostOrder*, void*, const Values*, Collection*);

// The places of nodes in the post-order, from 1, by their addresses.
typedef struct {
  const Node* const* order;
  uint32_t* slots;
  int bits;
} Places;

// Where the place of a node stands, or 0 until it has one.
static uint32_t* Find(const Places* places, const Node* node) {
  const size_t mask = ((size_t)1 << places->bits) - 1;
  size_t slot =
      ((uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - places->bits);
  while (places->slots[slot] != 0 &&
         places->order[places->slots[slot] - 1] != node) {
    slot = (slot + 1) & mask;
  }
  return &places->slots[slot];
}

// Makes no two hashes one. The multiplier is PCG's, for 128 bits.
static Hash Mix(Hash hash, Hash other) {
  const Hash multiplier =
      (Hash)UINT64_C(0x2360ED051FC65DA4) << 64 | UINT64_C(0x4385DF649FCCF645);
  hash = (hash ^ other) * multiplier;
  return hash ^ hash >> 64;
}

static bool IsData(const Node* node) {
  const Type* const type = ((const Type* const*)node->functions)[-1];
  return strcmp(type->name, "N9torch_xla10DeviceDataE") == 0;
}

static void MixGraph(const PostOrder* nodes, const Values* roots,
                     uint64_t halves[2]) {
  const size_t count = (size_t)(nodes->end - nodes->begin);
  Places places = {nodes->begin, NULL, 1};
  while ((size_t)1 << places.bits < 2 * count) ++places.bits;
  places.slots = calloc((size_t)1 << places.bits, sizeof(uint32_t));
  Hash* const hashes = calloc(count + 1, sizeof(Hash));  // By place.
  // To go on could be to run the program of another graph.
  if (places.slots == NULL || hashes == NULL) abort();

  uint32_t data = 0;
  for (size_t i = 0; i < count; ++i) {
    const Node* const node = nodes->begin[i];
    const Outputs* const operands = node->functions->operands(node);
    Hash hash = node->functions->hash(node);
    if (operands->begin == operands->end && IsData(node)) {
      hash = Mix(hash, ++data);
    }
    for (const Output* o = operands->begin; o != operands->end; ++o) {
      hash = Mix(hash, hashes[*Find(&places, o->node)]);
    }
    hashes[i + 1] = hash;
    *Find(&places, node) = (uint32_t)i + 1;
  }
  Hash hash = (Hash)halves[1] << 64 | halves[0];
  for (const Value* root = roots->begin; root != roots->end; ++root) {
    hash = Mix(hash, hashes[*Find(&places, root->node)]);
  }
  free(hashes);
  free(places.slots);
  halves[0] = (uint64_t)hash;
  halves[1] = (uint64_t)(hash >> 64);
}

// The addresses of the data that the parameters of the last graph are, in their
// order, for who names them while it is compiled, which another thread does.
// Noted from the first time on that somebody asks.
static atomic_bool is_wanted;
static atomic_flag is_changing = ATOMIC_FLAG_INIT;
static const void** addresses;
static size_t num_addresses;

static void NoteParameters(const PostOrder* nodes) {
  const size_t count =
      (size_t)(nodes->parameters.end - nodes->parameters.begin);
  while (atomic_flag_test_and_set(&is_changing)) {
  }
  const void** const memory = realloc(addresses, (count + 1) * sizeof(void*));
  num_addresses = memory == NULL ? 0 : count;
  if (memory != NULL) addresses = memory;
  for (size_t i = 0; i < num_addresses; ++i) {
    addresses[i] = nodes->parameters.begin[i].data;
  }
  atomic_flag_clear(&is_changing);
}

// Copies as many as there is room for, and returns how many there are.
__attribute__((visibility("default"))) size_t
graph_identity_parameters(const void** data, size_t room) {
  atomic_store(&is_wanted, true);
  while (atomic_flag_test_and_set(&is_changing)) {
  }
  const size_t count = num_addresses;
  for (size_t i = 0; i < count && i < room; ++i) data[i] = addresses[i];
  atomic_flag_clear(&is_changing);
  return count;
}

__attribute__((visibility("default"))) PostOrder* RunPostOrder(
    PostOrder* result, void* executor, const Values* roots,
    Collection* collection) __asm__(RUN_POST_ORDER);

PostOrder* RunPostOrder(PostOrder* result, void* executor, const Values* roots,
                        Collection* collection) {
  static _Atomic(Run) of_torch;
  Run run = atomic_load(&of_torch);
  if (run == NULL) {
    // `_XLAC`, which calls this, needs that library and has it loaded.
    void* const torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    *(void**)&run = dlsym(torch, RUN_POST_ORDER);
    atomic_store(&of_torch, run);
  }
  run(result, executor, roots, collection);
  MixGraph(result, roots, collection->hash);
  if (atomic_load(&is_wanted)) NoteParameters(result);
  return result;
}
