"""A disk that is soon full: a tmpfs in a mount namespace of its own, which ends with the process that holds it."""

import subprocess
from pathlib import Path


class SmallDisk:
    def __init__(self, directory: Path, size: str):
        directory.mkdir()
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size={size} none '{directory}' && echo mounted && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.is_mounted = self.holder.stdout.readline() == "mounted\n"
        #: The directory as it looks from outside.
        self.directory = Path(f"/proc/{self.holder.pid}/root{directory}")

    def refusal(self) -> str:
        return self.holder.stderr.read()

    def fill(self):
        """Takes all the room that is left."""
        with (self.directory / "ballast").open("ab", buffering=0) as ballast:
            for piece in (65536, 512):
                try:
                    while ballast.write(bytes(piece)) == piece:
                        pass
                except OSError:
                    pass

    def make_room(self):
        (self.directory / "ballast").unlink()

    def close(self):
        self.holder.stdin.close()
        self.holder.wait()
