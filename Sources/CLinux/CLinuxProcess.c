#define _GNU_SOURCE

#include "CLinuxProcess.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

void linux_syslog_open(const char *name, int local_facility) {
    // openlog keeps the pointer.
    static char kept[64];
    snprintf(kept, sizeof kept, "%s", name);
    openlog(kept, LOG_PID, local_facility < 0 ? LOG_DAEMON : LOG_LOCAL0 + (local_facility << 3));
}

void linux_syslog(int severity, const char *text) { syslog(severity, "%s", text); }

uint64_t linux_heap_bytes(void) {
    struct mallinfo2 information = mallinfo2();
    return (uint64_t)information.uordblks + information.hblkhd;
}

int linux_notify(const char *path, const void *bytes, size_t count) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address.sun_path) {
        errno = EINVAL;
        return -1;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') address.sun_path[0] = '\0';
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] == '@' ? 0 : 1));
    ssize_t sent = sendto(descriptor, bytes, count, MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    int number = errno;
    close(descriptor);
    errno = number;
    return sent < 0 ? -1 : 0;
}
