"""The disk that stores lie on: what it is, and how long it takes to sync."""
import os
import pathlib
import statistics
import tempfile
import time

# What a small commit of a store writes: two pages of 4 KiB with their heads.
SYNC_BYTES = 8240
_SYNCS = 1000

# What is gone with the power syncs in no time.
_MEMORY = ("tmpfs", "ramfs")


def usual_place():
    """Where stores go if nobody says otherwise: /tmp is memory on many machines, /var/tmp has to survive a restart."""
    return pathlib.Path("/var/tmp") if os.access("/var/tmp", os.W_OK) else pathlib.Path(tempfile.gettempdir())


def is_memory(directory):
    return file_system(directory)[0] in _MEMORY


def facts(directory):
    """The disk as (what, value)."""
    kind, source = file_system(directory)
    median, tail = _sync_seconds(directory)
    return [
        ("stores on", f"{kind} of {source}"),
        ("a sync there", f"{median * 1e3:.3f} ms, one in a hundred {tail * 1e3:.3f} ms or more "
                         f"({SYNC_BYTES} bytes written in place and fdatasync, {_SYNCS} times)"),
    ]


def file_system(directory):
    """The kind and the device of the file system that an existing directory is in."""
    wanted = pathlib.Path(directory).resolve()
    found = ("unknown", "unknown")
    length = -1
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        place = pathlib.Path(_unescaped(head.split()[4]))
        # Of several on one place the last one lies on top.
        if (place == wanted or place in wanted.parents) and len(place.parts) >= length:
            kind, source = tail.split()[:2]
            found, length = (kind, _unescaped(source)), len(place.parts)
    return found


def _unescaped(text):
    for octal in ("040", "011", "012", "134"):
        text = text.replace("\\" + octal, chr(int(octal, 8)))
    return text


def _sync_seconds(directory):
    """Median and 99th percentile of writing in place and syncing."""
    content = bytes(SYNC_BYTES)
    with tempfile.NamedTemporaryFile(dir=directory, prefix="compare-sync-") as file:
        number = file.fileno()
        os.pwrite(number, content, 0)
        os.fsync(number)
        taken = []
        for _ in range(_SYNCS):
            start = time.perf_counter()
            os.pwrite(number, content, 0)
            os.fdatasync(number)
            taken.append(time.perf_counter() - start)
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]
