/// What Martlet needs of Linux and Swift's Glibc module does not export.
///
/// Two rules keep this module apart from the prebuilt Glibc module. It does not define _GNU_SOURCE, which changes glibc's
/// structures; and it includes no header that declares them, or Swift would take this module for the home of `sockaddr_storage`.
/// So structures of the system pass as `void *`, and CLinux.c knows what they are. All functions answer as the kernel does, with -1
/// and errno, where nothing else is said.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "CLinuxProcess.h"

/// `struct epoll_event`: what a descriptor is ready for, and the data that it was registered with. Packed where the kernel's is.
struct linux_ready_event {
    uint32_t events;
    uint64_t data;
}
#ifdef __x86_64__
__attribute__((packed))
#endif
;

enum { linux_epoll_add = 1, linux_epoll_remove = 2, linux_epoll_modify = 3 };

/// An epoll instance, close-on-exec.
int linux_epoll_create(void);

/// epoll_ctl with its operation (one of the three above), events and data spelled out.
int linux_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t data);

/// epoll_wait.
int linux_epoll_wait(int epoll, struct linux_ready_event *events, int capacity, int timeout_milliseconds);

/// A non-blocking, close-on-exec eventfd with counter 0.
int linux_event_create(void);

/// Adds 1 to an eventfd.
int linux_event_signal(int descriptor);

/// Blocks the signals in the calling thread and returns a non-blocking, close-on-exec signalfd that gives them.
int linux_signal_create(const int32_t *signals, size_t count);

/// The next pending signal of a signalfd.
int linux_signal_read(int descriptor);

/// A non-blocking, close-on-exec TCP socket of the family.
int linux_stream_socket(int family);

/// bind, connect and getsockname on a `struct sockaddr_storage`.
int linux_bind(int descriptor, const void *address, uint32_t length);
int linux_connect(int descriptor, const void *address, uint32_t length);
int linux_socket_name(int descriptor, void *address, uint32_t *length);

/// Accepts a non-blocking, close-on-exec connection and writes its peer into a `struct sockaddr_storage`.
int linux_accept(int descriptor, void *peer);

/// Sends one run of bytes. A closed peer is EPIPE, never SIGPIPE.
intptr_t linux_send(int descriptor, const void *bytes, size_t count);

/// Receives into one run of bytes; 0 is the end of the stream.
intptr_t linux_receive(int descriptor, void *bytes, size_t count);

/// Sends at most 1024 `struct iovec` as writev does. A closed peer is EPIPE, never SIGPIPE.
intptr_t linux_send_vector(int descriptor, const void *slices, size_t count);

/// Names the calling thread. At most 15 bytes; returns an error number, 0 for none.
int linux_name_thread(const char *name);

/// Lets the calling thread wait for its turn when it is woken, if its policy is the ordinary one. Returns 0, or -1 with errno.
int linux_schedule_in_batches(void);

/// Makes the calling thread, and those that it starts from now on, nicer to others by so many steps of 40. Returns 0, or -1 with errno.
int linux_give_way(int steps);

/// Processors that the calling thread may run on.
int linux_usable_processors(void);

/// Fills at most 256 bytes with random ones, waiting for the kernel's pool to be seeded once after boot.
int linux_random(void *bytes, size_t count);

/// Asks the kernel to send `signal` to this process when its parent ends.
int linux_signal_on_parent_exit(int signal);

/// Copies the text of an error number into `text`, always terminated.
void linux_error_text(int number, char *text, size_t size);

/// How many columns a terminal has; -1 with errno when the descriptor is none.
int linux_terminal_columns(int descriptor);

/// How many rows a terminal has; -1 with errno when the descriptor is none.
int linux_terminal_rows(int descriptor);

/// Opens a file that exists, close-on-exec; the variadic open cannot be imported.
int linux_open(const char *path, int flags);

/// A non-blocking, close-on-exec timer on the monotonic clock, to be waited for as a descriptor.
int linux_timer_create(void);

/// Lets the timer become readable once, at that time in nanoseconds of the monotonic clock; what it had told before is taken back.
int linux_timer_set(int timer, uint64_t nanoseconds);
