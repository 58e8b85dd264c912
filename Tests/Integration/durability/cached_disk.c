/* A disk with a volatile cache, as a file that a loop device can lie on: mounts one file with FUSE, of the size of an image, and serves it
 * until it is killed. What is written stays in the memory of this process until the file is synced, which is what a loop device makes of
 * FLUSH; then it goes to the image. So SIGKILL is the power cut: the image holds what was flushed before that instant, and every later
 * access fails.
 *
 *   cached_disk IMAGE FILE EVICTED SEED
 *
 *   EVICTED   of a hundred sectors that are written, how many go to the image at once: a cache gives up any part of what it holds at any
 *             time, so the image may hold later writes without earlier ones
 *   SEED      chooses them, not 0
 *
 * It says "serving" when FILE is there, and ends with the process that started it. A sector, 4 KiB, is written whole or not at all.
 */
#define FUSE_USE_VERSION 35
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 4096 };

static const double FOREVER = 1e9;

static int image;
static struct stat image_status;
/* What the disk shows: the image, mapped so that writes stay in memory. */
static char *shown;
/* The sectors that were written since the last sync, but for those that went to the image at once; and by sector, whether it is one of
 * them. */
static size_t *dirty, dirty_count;
static char *is_dirty;
static uint64_t evicted, chance;

static void die(const char *what) {
    fprintf(stderr, "cached_disk: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Xorshift; below a hundred. */
static uint64_t draw(void) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (chance >> 11) % 100;
}

static void keep(size_t sector) {
    off_t offset = (off_t)(sector * SECTOR);
    if (pwrite(image, shown + offset, SECTOR, offset) != SECTOR) die("writing to the image");
}

static void fill_status(struct stat *status) {
    memset(status, 0, sizeof *status);
    status->st_ino = FUSE_ROOT_ID;
    status->st_mode = S_IFREG | 0600;
    status->st_nlink = 1;
    status->st_size = image_status.st_size;
    status->st_blksize = SECTOR;
}

static void get_status(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file) {
    (void)inode, (void)file;
    struct stat status;
    fill_status(&status);
    fuse_reply_attr(request, &status, FOREVER);
}

static void open_file(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file) {
    (void)inode;
    fuse_reply_open(request, file);
}

static void read_file(fuse_req_t request, fuse_ino_t inode, size_t count, off_t offset, struct fuse_file_info *file) {
    (void)inode, (void)file;
    size_t left = offset < image_status.st_size ? (size_t)(image_status.st_size - offset) : 0;
    fuse_reply_buf(request, shown + offset, count < left ? count : left);
}

static void write_file(
    fuse_req_t request, fuse_ino_t inode, const char *bytes, size_t count, off_t offset, struct fuse_file_info *file) {
    (void)inode, (void)file;
    if (offset % SECTOR || count % SECTOR || offset + (off_t)count > image_status.st_size) {
        fuse_reply_err(request, EINVAL);
        return;
    }
    memcpy(shown + offset, bytes, count);
    for (size_t sector = (size_t)offset / SECTOR; sector < ((size_t)offset + count) / SECTOR; sector++) {
        if (draw() < evicted) {
            keep(sector);
        } else if (!is_dirty[sector]) {
            is_dirty[sector] = 1;
            dirty[dirty_count++] = sector;
        }
    }
    fuse_reply_write(request, count);
}

static void sync_file(fuse_req_t request, fuse_ino_t inode, int is_data_only, struct fuse_file_info *file) {
    (void)inode, (void)is_data_only, (void)file;
    for (size_t index = 0; index < dirty_count; index++) {
        keep(dirty[index]);
        is_dirty[dirty[index]] = 0;
    }
    dirty_count = 0;
    fuse_reply_err(request, 0);
}

static const struct fuse_lowlevel_ops operations = {
    .getattr = get_status,
    .open = open_file,
    .read = read_file,
    .write = write_file,
    .fsync = sync_file,
};

int main(int count, char **words) {
    if (count != 5) {
        fputs("usage: cached_disk IMAGE FILE EVICTED SEED\n", stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    evicted = strtoull(words[3], NULL, 10);
    chance = strtoull(words[4], NULL, 10);
    image = open(words[1], O_RDWR | O_CLOEXEC);
    if (image < 0 || fstat(image, &image_status)) die(words[1]);
    size_t size = (size_t)image_status.st_size;
    shown = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, image, 0);
    dirty = calloc(size / SECTOR, sizeof *dirty);
    is_dirty = calloc(size / SECTOR, 1);
    if (shown == MAP_FAILED || !dirty || !is_dirty) die("memory");

    char *options[] = {words[0], "-o", "fsname=cached_disk"};
    struct fuse_args arguments = FUSE_ARGS_INIT(3, options);
    struct fuse_session *session = fuse_session_new(&arguments, &operations, sizeof operations, NULL);
    if (!session || fuse_session_mount(session, words[2])) return 1;
    puts("serving");
    fflush(stdout);
    int result = fuse_session_loop(session);
    fuse_session_unmount(session);
    return result ? 1 : 0;
}
