// Loaded into a node: its wall clock is wrong by CLOCK_OFFSET_SECONDS; what measures time is right.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    long result = syscall(SYS_clock_gettime, clock, time);
    const char *offset = getenv("CLOCK_OFFSET_SECONDS");
    if (result == 0 && clock == CLOCK_REALTIME && offset) time->tv_sec += atol(offset);
    return (int)result;
}
