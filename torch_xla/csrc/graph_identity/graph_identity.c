// Tells graphs apart by which node is whose operand (pytorch/xla#8353).
//
// `_XLAC` finds a compiled program by a hash to which all data of one shape and
// placement is alike, wherever it is used. That hash begins in torch's
// LazyGraphExecutor::RunPostOrder, which `_XLAC` finds by name. So this
// library, loaded before it and for all (RTLD_GLOBAL), has a function of that
// name: it calls torch's, and mixes in the positions in the post-order of all
// nodes' operands, and of the roots. They are the same in all processes.

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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
  }* functions;
};

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
  const Node *const *begin, *const *end, *const *capacity;
} PostOrder;

// In C++ a member function that gives an object, in memory of the caller's.
typedef PostOrder* (*Run)(PostOrder*, void*, const Values*, Collection*);

// The positions of nodes, from 1, by their addresses.
typedef struct {
  const Node* const* order;
  uint32_t* slots;
  int bits;
} Positions;

// Where the position of a node stands, or 0 until it has one.
static uint32_t* Find(const Positions* positions, const Node* node) {
  const size_t mask = ((size_t)1 << positions->bits) - 1;
  size_t slot = ((uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15)) >>
                (64 - positions->bits);
  while (positions->slots[slot] != 0 &&
         positions->order[positions->slots[slot] - 1] != node) {
    slot = (slot + 1) & mask;
  }
  return &positions->slots[slot];
}

// Makes no two hashes one. The multiplier is PCG's, for 128 bits.
static unsigned __int128 Mix(unsigned __int128 hash, uint32_t position) {
  const unsigned __int128 multiplier =
      (unsigned __int128)UINT64_C(0x2360ED051FC65DA4) << 64 |
      UINT64_C(0x4385DF649FCCF645);
  hash = (hash ^ position) * multiplier;
  return hash ^ hash >> 64;
}

static void MixStructure(const PostOrder* nodes, const Values* roots,
                         uint64_t halves[2]) {
  const size_t count = (size_t)(nodes->end - nodes->begin);
  Positions positions = {nodes->begin, NULL, 1};
  while ((size_t)1 << positions.bits < 2 * count) ++positions.bits;
  positions.slots = calloc((size_t)1 << positions.bits, sizeof(uint32_t));
  // To go on could be to run the program of another graph.
  if (positions.slots == NULL) abort();

  unsigned __int128 hash = (unsigned __int128)halves[1] << 64 | halves[0];
  for (size_t i = 0; i < count; ++i) {
    const Node* const node = nodes->begin[i];
    const Outputs* const operands = node->functions->operands(node);
    for (const Output* o = operands->begin; o != operands->end; ++o) {
      hash = Mix(hash, *Find(&positions, o->node));
    }
    *Find(&positions, node) = (uint32_t)i + 1;
  }
  for (const Value* root = roots->begin; root != roots->end; ++root) {
    hash = Mix(hash, *Find(&positions, root->node));
  }
  free(positions.slots);
  halves[0] = (uint64_t)hash;
  halves[1] = (uint64_t)(hash >> 64);
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
  MixStructure(result, roots, collection->hash);
  return result;
}
