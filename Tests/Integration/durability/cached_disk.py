"""A real file system on a disk whose power can be cut: ext4 on a loop device, which lies on the one file that cached_disk.c serves.

    broker ─► ext4 ─► loop device ─► FUSE ─► cached_disk: its memory ─ flush ─► image

Here everything between the broker and the disk is the kernel's own: its page cache, ext4's journal and the order of its flushes, memory
that is mapped. The cut is SIGKILL to cached_disk, so what is on the image belongs to one instant, whatever the broker is doing.

The FUSE mount is in a namespace of cached_disk's, that of ext4 in one of the holder's, which has the former too. Were they one, the end of
cached_disk would have to unmount ext4, which would wait for cached_disk. Both end with the test's process, and with them the mounts and
the loop device.
"""

import ctypes
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from durability.mount import inside

SOURCE = Path(__file__).with_name("cached_disk.c")
#: Bytes; the image has holes where nothing was written.
SIZE = 2 << 30
#: For sync_file_range: what is being written, and all that is to be, until it is done.
WRITE_AND_WAIT = 7


class Unavailable(Exception):
    """This machine does not offer what such a disk takes; says what is missing."""


class DiskMaker:
    """What all disks of one test run share."""

    def __init__(self, directory: Path):
        self._check_machine()
        self.program = directory / "cached_disk"
        options = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
        library = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], check=True, capture_output=True, text=True).stdout.split()
        subprocess.run(["cc", *options, SOURCE, "-o", self.program, *library], check=True)
        self._try(directory)

    def _check_machine(self):
        if os.geteuid() != 0:
            raise Unavailable("only root can mount")
        for device in ("/dev/fuse", "/dev/loop-control"):
            try:
                os.close(os.open(device, os.O_RDWR))
            except OSError as error:
                raise Unavailable(str(error)) from None
        for tool in ("unshare", "nsenter", "setpriv", "mount", "mkfs.ext4", "pkg-config"):
            if not shutil.which(tool):
                raise Unavailable(f"{tool} is not installed")
        if subprocess.run(["pkg-config", "--exists", "fuse3"]).returncode:
            raise Unavailable("libfuse3-dev is not installed")

    def _try(self, directory: Path):
        """A container may have the devices and not the right to use them."""
        disk = CachedDisk(directory / "trial", self)
        try:
            disk.power_on()
        except OSError as error:
            raise Unavailable(str(error)) from None
        finally:
            disk.close()


class CachedDisk:
    """power_on ─► the broker runs ─► power_cut ─► power_on … ─► close"""

    def __init__(self, directory: Path, maker: DiskMaker):
        #: Where the file system is, for those that `holder` lets in.
        self.directory = directory
        self._program = maker.program
        self._image = directory.with_name(directory.name + "-image")
        self._file = directory.with_name(directory.name + "-file")
        self._server: subprocess.Popen | None = None
        self.holder: subprocess.Popen | None = None
        directory.mkdir()
        self._file.touch()
        with self._image.open("wb") as image:
            image.truncate(SIZE)
        # A block is a sector of cached_disk; nothing is left for the kernel to initialize later.
        subprocess.run(
            ["mkfs.ext4", "-q", "-F", "-b", "4096", "-N", "256", "-J", "size=8",
                "-E", "lazy_itable_init=0,lazy_journal_init=0", self._image],
            check=True,
        )  # fmt: skip

    @property
    def seen(self) -> Path:
        """The file system as it looks from outside."""
        return Path(f"/proc/{self.holder.pid}/root{self.directory}")

    def power_on(self, *, evicted: int = 0, seed: int = 1):
        """Mounts what the image holds; ext4 replays its journal, and writes to it only when it is told to.

        Of a hundred sectors that are written, `evicted` reach the image without a flush; `seed` chooses them. OSError when the kernel
        refuses.
        """
        self._server = subprocess.Popen(
            ["unshare", "--mount", self._program, self._image, self._file, str(evicted), str(seed)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._await(self._server, "serving")
        self.holder = subprocess.Popen(
            inside(self._server, ["unshare", "--mount", "sh", "-c",
                f"mount -n -t ext4 -o loop,errors=remount-ro,commit=600 '{self._file}' '{self.directory}' && echo mounted && exec cat"]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._await(self.holder, "mounted")

    @staticmethod
    def _await(process: subprocess.Popen, word: str):
        if process.stdout.readline() != f"{word}\n":
            process.kill()
            raise OSError(process.communicate()[1].strip() or f"not {word}")

    def write_back(self):
        """The kernel gives the disk what it likes, when it likes; here all that the files hold, now. It does not flush."""
        library = ctypes.CDLL(None, use_errno=True)
        for path in self.seen.iterdir():
            # The broker may remove it meanwhile; lost+found is none.
            with suppress(FileNotFoundError, IsADirectoryError), path.open("rb") as file:
                library.sync_file_range(file.fileno(), ctypes.c_int64(0), ctypes.c_int64(0), WRITE_AND_WAIT)

    def power_cut(self):
        """The disk is gone, in the middle of whatever it did. Who still uses the file system gets EIO."""
        self._server.kill()
        complaint = self._server.communicate()[1]
        assert self._server.returncode == -signal.SIGKILL, f"the disk ended by itself, with {self._server.returncode}: {complaint}"

    def leave(self):
        """Lets go of the file system; it is unmounted when the broker has ended too."""
        self.holder.communicate()

    def loop_device(self) -> Path:
        """Its directory in sysfs."""
        mounts = [line.split() for line in Path(f"/proc/{self.holder.pid}/mounts").read_text().splitlines()]
        return next(Path("/sys/block", Path(words[0]).name) for words in mounts if words[1] == str(self.directory))

    def close(self):
        for process in (self._server, self.holder):
            if process and process.returncode is None:
                process.kill()
                process.communicate()
        self._image.unlink(missing_ok=True)
