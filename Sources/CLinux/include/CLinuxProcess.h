/// What concerns the process as a service: its log, its memory, its manager.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Names the process in the machine's log; `local_facility` is 0 to 7, or -1 for DAEMON.
void linux_syslog_open(const char *name, int local_facility);

/// Writes a text to the machine's log; `severity` is 3 (error) to 7 (debug).
void linux_syslog(int severity, const char *text);

/// The bytes that malloc has given away, mapped ones included.
uint64_t linux_heap_bytes(void);

/// Sends a datagram to a Unix socket; a path that begins with '@' is in the abstract namespace. Returns 0, or -1 and errno.
int linux_notify(const char *path, const void *bytes, size_t count);
