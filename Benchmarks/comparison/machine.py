"""What the figures were measured on."""
import datetime
import os
import pathlib
import platform
import subprocess
import sys


def facts(brokers):
    """Machine, versions and date, as (what, value)."""
    versions = ", ".join(dict.fromkeys(f"{broker.name.split(',')[0]} {broker.version}".strip() for broker in brokers))
    return [
        ("date", datetime.date.today().isoformat()),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("memory", f"{_memory()} GiB"),
        ("system", f"{_system()}, Linux {platform.release()}"),
        ("brokers", versions),
        ("commit", _commit()),
    ]


def warn_if_busy():
    if os.getloadavg()[0] > 0.5:
        print(
            f"compare: this machine is busy (load {os.getloadavg()[0]:.1f}): rates will be off; "
            "ratios and CPU per message tell more", file=sys.stderr)


def _processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory():
    kibibytes = int(pathlib.Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0])
    return round(kibibytes / (1 << 20))


def _system():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def _commit():
    here = pathlib.Path(__file__).resolve().parent
    done = subprocess.run(["git", "-C", str(here), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
