/// Counts what the process allocates, by standing before glibc's allocator.
#pragma once

#include <stdint.h>

/// Calls of malloc, realloc and their kin so far, by any thread.
uint64_t allocations_count(void);

/// Bytes that are allocated now and not freed, as the allocator rounds them.
int64_t allocations_live_bytes(void);
