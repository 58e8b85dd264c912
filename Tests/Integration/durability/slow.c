// Loaded into a broker: a disk that syncs at once, save that every hundredth sync takes as long as SLOW_MILLISECONDS says. The names of the
// threads that have synced go to the file SLOW_THREADS, a line each time that it is another one.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int fdatasync(int descriptor)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char last[16];
    static int count;
    (void)descriptor;
    pthread_mutex_lock(&mutex);
    int is_slow = ++count % 100 == 0;
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (strcmp(name, last) != 0) {
        strcpy(last, name);
        FILE *threads = fopen(getenv("SLOW_THREADS"), "a");
        if (threads) {
            fprintf(threads, "%s\n", name);
            fclose(threads);
        }
    }
    pthread_mutex_unlock(&mutex);
    if (is_slow) {
        long milliseconds = atol(getenv("SLOW_MILLISECONDS"));
        nanosleep(&(struct timespec){ milliseconds / 1000, milliseconds % 1000 * 1000000 }, NULL);
    }
    return 0;
}
