// Faults on the way from a device to the host.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "test/csrc/wrong_plugin/notes.h"

// What was read last of each size; as long as the process.
typedef struct Last {
  struct Last* next;
  size_t size;
  const PJRT_Buffer* buffer;
  unsigned char bytes[];
} Last;

static Last* FindLast(Last* last, size_t size) {
  while (last != NULL && last->size != size) last = last->next;
  return last;
}

static void Swap(unsigned char* a, unsigned char* b, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    const unsigned char byte = a[i];
    a[i] = b[i];
    b[i] = byte;
  }
}

static PJRT_Error* StaleReadback(DownloadArgs* args) {
  static Last* all;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  PJRT_Error* error;
  if (!Download(args, &error)) return error;
  pthread_mutex_lock(&mutex);
  Last* last = FindLast(all, args->dst_size);
  if (last == NULL) {
    last = Allocate(sizeof(*last) + args->dst_size);
    last->next = all;
    last->size = args->dst_size;
    memcpy(last->bytes, args->dst, args->dst_size);
    all = last;
  } else if (last->buffer != args->src) {
    Swap(last->bytes, args->dst, args->dst_size);
  }
  last->buffer = args->src;
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static PJRT_Error* TransposedReadback(DownloadArgs* args) {
  AbiBufferDimensionsArgs shape = {ABI_SIZE(AbiBufferDimensionsArgs, num_dims),
                                   NULL, args->src, NULL, 0};
  const size_t element = ElementSize(ElementType(args->src));
  PJRT_Error* error;
  if (!Download(args, &error) || !TryInner(kSlotBufferDimensions, &shape) ||
      shape.num_dims != 2) {
    return error;
  }
  const size_t rows = (size_t)shape.dims[0], columns = (size_t)shape.dims[1];
  if (element * rows * columns != args->dst_size) return NULL;
  unsigned char* right = Duplicate(args->dst, args->dst_size);
  unsigned char* to = args->dst;
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < rows; ++row) {
      memcpy(to, right + (row * columns + column) * element, element);
      to += element;
    }
  }
  free(right);
  return NULL;
}

static PJRT_Error* LastByteLost(DownloadArgs* args) {
  PJRT_Error* error;
  if (Download(args, &error) && args->dst_size % 8 != 0) {
    ((unsigned char*)args->dst)[args->dst_size - 1] = 0;
  }
  return error;
}

static PJRT_Error* TooSmallIsTaken(DownloadArgs* args) {
  DownloadArgs measure = *args;
  measure.dst = NULL;
  const size_t size = args->dst_size;
  if (args->dst != NULL && TryInner(kSlotBufferToHostBuffer, &measure) &&
      measure.dst_size > size) {
    // The caller has no room for the rest: an event of something else.
    args->event = ReadyEvent(args->src);
    return NULL;
  }
  return CallInner(kSlotBufferToHostBuffer, args);
}

const Fault kReadbackFaults[] = {
    FAULT("stale-readback",
          "a buffer reads as the last other one of its size that was read",
          DOWNLOADS(StaleReadback)),
    FAULT("readback-transposed",
          "arrays of two dimensions arrive column by column",
          DOWNLOADS(TransposedReadback)),
    FAULT("readback-last-byte",
          "the last byte of an array is lost if its size is no multiple of "
          "8 bytes",
          DOWNLOADS(LastByteLost)),
    FAULT("readback-too-small",
          "a host buffer that is too small is left as it is, without an "
          "error",
          DOWNLOADS(TooSmallIsTaken)),
    {.name = NULL},
};
