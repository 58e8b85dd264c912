/* Loaded into the broker with LD_PRELOAD, writes down what it does to the files of one directory: which bytes it wrote where, which names
 * it made, moved and removed, and what it made last with fsync. From that unsynced_disk.py knows what a disk would hold after a power cut.
 *
 *   UNSYNCED_DIRECTORY   the directory, without a slash at its end; it has no subdirectories
 *   UNSYNCED_RECORDS     the file that the records are appended to
 *
 * A record is a struct record, then `count` bytes of a name or of what was written. One lock lies around each call and its record, so
 * their orders agree; a sync has a record before it and one after it, and others may write between the two. Memory that is mapped is not
 * seen: SQLite maps only its -shm file, whose contents mean nothing after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATED = 1, WROTE, TRUNCATED, SYNCING, SYNCED, RENAMED, REMOVED };

struct record {
    uint32_t kind;
    uint32_t count;
    uint64_t inode;  /* the file; for a directory 0 */
    uint64_t number; /* an offset, a size, or what pairs SYNCING with SYNCED; for RENAMED the length of the first name */
};

enum { DESCRIPTORS_MAX = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char directory[PATH_MAX];
static size_t directory_length;
static int records = -1;
static uint64_t syncs;
/* The inode of each descriptor that is open on one of the files; 0 for others, DIRECTORY for the directory itself. */
static uint64_t inodes[DESCRIPTORS_MAX];
static const uint64_t DIRECTORY = UINT64_MAX;

#define REAL(name, type, ...) \
    static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static void die(const char *what) {
    dprintf(2, "unsynced: %s: %s\n", what, strerror(errno));
    abort();
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("UNSYNCED_DIRECTORY"), *file = getenv("UNSYNCED_RECORDS");
    if (!path || !file) return;
    if (!realpath(path, directory)) die(path);
    directory_length = strlen(directory);
    records = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (records < 0) die(file);
}

static void append(enum kind kind, uint64_t inode, uint64_t number, const void *bytes, size_t count) {
    REAL(writev, ssize_t, int, const struct iovec *, int);
    struct record record = {kind, (uint32_t)count, inode == DIRECTORY ? 0 : inode, number};
    struct iovec parts[2] = {{&record, sizeof record}, {(void *)bytes, count}};
    if (real_writev(records, parts, 2) != (ssize_t)(sizeof record + count)) die("appending a record");
}

/* The name in the directory that a path means, "" for the directory itself; NULL if it is elsewhere. */
static const char *name_of(const char *path) {
    static __thread char whole[2][PATH_MAX];
    static __thread int turn;
    char parent[PATH_MAX];
    if (records < 0 || !path) return NULL;
    const char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;
    size_t length = slash ? (size_t)(slash - path) : 1;
    if (length >= sizeof parent) return NULL;
    memcpy(parent, slash ? path : ".", length);
    parent[length] = 0;
    char *buffer = whole[turn ^= 1];
    if (realpath(path, buffer) && !strcmp(buffer, directory)) return "";
    if (!realpath(length ? parent : "/", buffer) || strcmp(buffer, directory)) return NULL;
    return last;
}

static uint64_t inode_at(int descriptor) {
    return descriptor >= 0 && descriptor < DESCRIPTORS_MAX ? inodes[descriptor] : 0;
}

static int is_file(int descriptor) {
    return inode_at(descriptor) && inode_at(descriptor) != DIRECTORY;
}

static int opened(int descriptor, const char *name, int flags, int is_new) {
    struct stat status;
    if (descriptor >= DESCRIPTORS_MAX || fstat(descriptor, &status)) die(name);
    inodes[descriptor] = *name ? status.st_ino : DIRECTORY;
    if (!*name) return descriptor;
    if (is_new) append(CREATED, status.st_ino, 0, name, strlen(name));
    else if (flags & O_TRUNC) append(TRUNCATED, status.st_ino, 0, NULL, 0);
    return descriptor;
}

static int open_file(int (*call)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    const char *name = name_of(path);
    if (!name) return call(path, flags, mode);
    pthread_mutex_lock(&lock);
    int is_new = (flags & O_CREAT) && access(path, F_OK);
    int descriptor = call(path, flags, mode);
    int error = errno;
    if (descriptor >= 0) opened(descriptor, name, flags, is_new);
    pthread_mutex_unlock(&lock);
    errno = error;
    return descriptor;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) {
    REAL(open, int, const char *, int, ...);
    MODE(flags)
    return open_file(real_open, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64, int, const char *, int, ...);
    MODE(flags)
    return open_file(real_open64, path, flags, mode);
}

int __open_2(const char *path, int flags) {
    return open(path, flags);
}

int __open64_2(const char *path, int flags) {
    return open64(path, flags);
}

int close(int descriptor) {
    REAL(close, int, int);
    pthread_mutex_lock(&lock);
    if (inode_at(descriptor)) inodes[descriptor] = 0;
    int result = real_close(descriptor);
    pthread_mutex_unlock(&lock);
    return result;
}

static ssize_t write_at(ssize_t (*call)(int, const void *, size_t, off_t), int descriptor, const void *bytes, size_t count, off_t offset) {
    if (!is_file(descriptor)) return call(descriptor, bytes, count, offset);
    pthread_mutex_lock(&lock);
    ssize_t written = call(descriptor, bytes, count, offset);
    int error = errno;
    if (written > 0) append(WROTE, inodes[descriptor], (uint64_t)offset, bytes, (size_t)written);
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    REAL(pwrite, ssize_t, int, const void *, size_t, off_t);
    return write_at(real_pwrite, descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off_t offset) {
    return pwrite(descriptor, bytes, count, offset);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    REAL(write, ssize_t, int, const void *, size_t);
    if (!is_file(descriptor)) return real_write(descriptor, bytes, count);
    pthread_mutex_lock(&lock);
    ssize_t written = real_write(descriptor, bytes, count);
    int error = errno;
    if (written > 0) {
        append(WROTE, inodes[descriptor], (uint64_t)(lseek(descriptor, 0, SEEK_CUR) - written), bytes, (size_t)written);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

int ftruncate(int descriptor, off_t size) {
    REAL(ftruncate, int, int, off_t);
    if (!is_file(descriptor)) return real_ftruncate(descriptor, size);
    pthread_mutex_lock(&lock);
    int result = real_ftruncate(descriptor, size);
    int error = errno;
    if (!result) append(TRUNCATED, inodes[descriptor], (uint64_t)size, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int ftruncate64(int descriptor, off_t size) {
    return ftruncate(descriptor, size);
}

static int synchronize(int (*call)(int), int descriptor) {
    uint64_t inode = inode_at(descriptor);
    if (!inode) return call(descriptor);
    pthread_mutex_lock(&lock);
    uint64_t number = ++syncs;
    append(SYNCING, inode, number, NULL, 0);
    pthread_mutex_unlock(&lock);
    int result = call(descriptor);
    int error = errno;
    pthread_mutex_lock(&lock);
    if (!result) append(SYNCED, inode, number, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int fsync(int descriptor) {
    REAL(fsync, int, int);
    return synchronize(real_fsync, descriptor);
}

int fdatasync(int descriptor) {
    REAL(fdatasync, int, int);
    return synchronize(real_fdatasync, descriptor);
}

int rename(const char *path, const char *target) {
    REAL(rename, int, const char *, const char *);
    const char *name = name_of(path), *new_name = name_of(target);
    if (!name && !new_name) return real_rename(path, target);
    if (!name || !new_name) die("a file moved into the directory or out of it");
    char names[2 * NAME_MAX + 2];
    int count = snprintf(names, sizeof names, "%s%s", name, new_name);
    pthread_mutex_lock(&lock);
    int result = real_rename(path, target);
    int error = errno;
    if (!result) append(RENAMED, 0, strlen(name), names, (size_t)count);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int unlink(const char *path) {
    REAL(unlink, int, const char *);
    const char *name = name_of(path);
    if (!name) return real_unlink(path);
    pthread_mutex_lock(&lock);
    int result = real_unlink(path);
    int error = errno;
    if (!result) append(REMOVED, 0, 0, name, strlen(name));
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
