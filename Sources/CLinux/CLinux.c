#define _GNU_SOURCE

#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

// The kernel fills our structure, and Swift's option sets carry epoll's own bits.
_Static_assert(sizeof(struct linux_ready_event) == sizeof(struct epoll_event), "epoll_event's size");
_Static_assert(offsetof(struct linux_ready_event, data) == offsetof(struct epoll_event, data), "epoll_event's data");
_Static_assert(linux_epoll_add == EPOLL_CTL_ADD && linux_epoll_remove == EPOLL_CTL_DEL && linux_epoll_modify == EPOLL_CTL_MOD,
               "epoll's operations");
_Static_assert(EPOLLIN == 0x1 && EPOLLOUT == 0x4 && EPOLLERR == 0x8 && EPOLLHUP == 0x10 && EPOLLET == 0x80000000, "epoll's bits");

int linux_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

int linux_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data = {.u64 = data}};
    return epoll_ctl(epoll, operation, descriptor, &event);
}

int linux_epoll_wait(int epoll, struct linux_ready_event *events, int capacity, int timeout_milliseconds) {
    return epoll_wait(epoll, (struct epoll_event *)events, capacity, timeout_milliseconds);
}

int linux_event_create(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int linux_event_signal(int descriptor) { return eventfd_write(descriptor, 1); }

int linux_signal_create(const int32_t *signals, size_t count) {
    sigset_t mask;
    sigemptyset(&mask);
    for (size_t index = 0; index < count; index++) {
        if (sigaddset(&mask, signals[index]) < 0) return -1;
    }
    int descriptor = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor < 0) return -1;
    int number = pthread_sigmask(SIG_BLOCK, &mask, NULL);
    if (number == 0) return descriptor;
    close(descriptor);
    errno = number;
    return -1;
}

int linux_signal_read(int descriptor) {
    struct signalfd_siginfo information;
    return read(descriptor, &information, sizeof information) < 0 ? -1 : (int)information.ssi_signo;
}

int linux_stream_socket(int family) { return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

int linux_bind(int descriptor, const void *address, uint32_t length) { return bind(descriptor, address, length); }

int linux_connect(int descriptor, const void *address, uint32_t length) { return connect(descriptor, address, length); }

int linux_socket_name(int descriptor, void *address, uint32_t *length) { return getsockname(descriptor, address, length); }

int linux_accept(int descriptor, void *peer) {
    socklen_t length = sizeof(struct sockaddr_storage);
    return accept4(descriptor, peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

// What moves bytes, by number: glibc's functions are cancellation points, which costs them as much again as the call's way through the C
// library.
intptr_t linux_send(int descriptor, const void *bytes, size_t count) {
    return syscall(SYS_sendto, descriptor, bytes, count, MSG_NOSIGNAL, NULL, 0);
}

intptr_t linux_receive(int descriptor, void *bytes, size_t count) {
    return syscall(SYS_recvfrom, descriptor, bytes, count, 0, NULL, NULL);
}

intptr_t linux_send_vector(int descriptor, const void *slices, size_t count) {
    // writev would raise SIGPIPE.
    struct msghdr message = {.msg_iov = (struct iovec *)slices, .msg_iovlen = count};
    return syscall(SYS_sendmsg, descriptor, &message, MSG_NOSIGNAL);
}

int linux_name_thread(const char *name) { return pthread_setname_np(pthread_self(), name); }

int linux_schedule_in_batches(void) {
    struct sched_param none = {0};
    if (sched_getscheduler(0) != SCHED_OTHER) return 0;
    return sched_setscheduler(0, SCHED_BATCH, &none);
}

int linux_give_way(int steps) {
    // -1 is a priority too; that of the calling thread can always be read.
    return setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + steps);
}

int linux_usable_processors(void) {
    // The kernel refuses a mask shorter than its own with EINVAL, and says nowhere how long its own is.
    for (int processors = 1024; processors <= 1024 * 1024; processors *= 4) {
        cpu_set_t *mask = CPU_ALLOC(processors);
        if (mask == NULL) return -1;
        size_t size = CPU_ALLOC_SIZE(processors);
        CPU_ZERO_S(size, mask);
        int answer = sched_getaffinity(0, size, mask);
        int number = errno;
        int count = answer == 0 ? CPU_COUNT_S(size, mask) : -1;
        CPU_FREE(mask);
        if (answer == 0) return count;
        errno = number;
        if (number != EINVAL) return -1;
    }
    return -1;
}

int linux_random(void *bytes, size_t count) {
    // Up to 256 bytes are given whole once the pool is seeded.
    return getrandom(bytes, count, 0) < 0 ? -1 : 0;
}

int linux_signal_on_parent_exit(int signal) { return prctl(PR_SET_PDEATHSIG, signal); }

void linux_error_text(int number, char *text, size_t size) {
    // The GNU variant may answer with a text of its own instead of filling ours.
    char own[256];
    snprintf(text, size, "%s", strerror_r(number, own, sizeof own));
}

int linux_open(const char *path, int flags) { return open(path, flags | O_CLOEXEC); }

int linux_terminal_columns(int descriptor) {
    struct winsize size;
    return ioctl(descriptor, TIOCGWINSZ, &size) < 0 ? -1 : size.ws_col;
}

int linux_terminal_rows(int descriptor) {
    struct winsize size;
    return ioctl(descriptor, TIOCGWINSZ, &size) < 0 ? -1 : size.ws_row;
}

int linux_timer_create(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); }

int linux_timer_set(int timer, uint64_t nanoseconds) {
    struct itimerspec time = {.it_value = {.tv_sec = (time_t)(nanoseconds / 1000000000), .tv_nsec = (long)(nanoseconds % 1000000000)}};
    return timerfd_settime(timer, TFD_TIMER_ABSTIME, &time, NULL);
}
