#define _GNU_SOURCE
#include "CAllocations.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

// glibc's own names for what is stood before here.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static _Atomic uint64_t count;
static _Atomic int64_t live_bytes;

static void *counted(void *memory) {
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    if (memory) atomic_fetch_add_explicit(&live_bytes, (int64_t)malloc_usable_size(memory), memory_order_relaxed);
    return memory;
}

static void uncounted(void *memory) {
    if (memory) atomic_fetch_sub_explicit(&live_bytes, (int64_t)malloc_usable_size(memory), memory_order_relaxed);
}

void *malloc(size_t size) { return counted(__libc_malloc(size)); }

void *calloc(size_t number, size_t size) { return counted(__libc_calloc(number, size)); }

void *realloc(void *memory, size_t size) {
    uncounted(memory);
    return counted(__libc_realloc(memory, size));
}

void *memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void free(void *memory) {
    uncounted(memory);
    __libc_free(memory);
}

uint64_t allocations_count(void) { return atomic_load_explicit(&count, memory_order_relaxed); }

int64_t allocations_live_bytes(void) { return atomic_load_explicit(&live_bytes, memory_order_relaxed); }
