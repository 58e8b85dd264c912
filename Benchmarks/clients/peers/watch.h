/* Time and processor time of a job, told as JSON. */
#include <stdio.h>
#include <time.h>

static double watch_wall, watch_cpu;

static double watch_read(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void watch_start(void)
{
    watch_wall = watch_read(CLOCK_MONOTONIC);
    watch_cpu = watch_read(CLOCK_PROCESS_CPUTIME_ID);
}

static double watch_elapsed(void) { return watch_read(CLOCK_MONOTONIC) - watch_wall; }

static void watch_tell(long count)
{
    printf("{\"count\": %ld, \"seconds\": %f, \"cpu_seconds\": %f}\n", count, watch_elapsed(),
           watch_read(CLOCK_PROCESS_CPUTIME_ID) - watch_cpu);
    fflush(stdout);
}
