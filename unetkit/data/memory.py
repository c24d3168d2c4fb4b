"""How much memory arrays of images take, and whether this machine has it."""

from __future__ import annotations

import os
from pathlib import Path

from unetkit.errors import UserError

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def image_bytes(count: int, height: int, width: int, channels: int, value_bytes: int) -> int:
    """Bytes of `count` images in an array."""
    return count * height * width * channels * value_bytes


def available() -> int | None:
    """Bytes that this process may still take without swapping: the machine's and the container's limit. None: unknown."""
    limits = []
    if MEMINFO.exists():
        fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        limits.append(int(fields["MemAvailable"].split()[0]) * 1024)
    elif "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    most = CGROUP / "memory.max"
    if most.exists() and (limit := most.read_text().strip()) != "max":
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        # the file cache counts as used, but gives way
        used = int((CGROUP / "memory.current").read_text()) - int(stat["inactive_file"])
        limits.append(int(limit) - used)
    return min(limits, default=None)


def require(needed: int, what: str, remedy: str, limit: int | None = None) -> None:
    """Raises UserError where `what` needs more bytes than are available (or than `limit`)."""
    limit = available() if limit is None else limit
    if limit is not None and needed > limit:
        raise UserError(f"{what} needs {in_words(needed)} of memory and {in_words(limit)} are available; {remedy}")


def in_words(count: int) -> str:
    """Bytes in words: `126 GB`, `2.4 GB`, `17 MB`, `3 kB`."""
    if count < 1e9:
        return f"{count / 1e6:,.0f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"
    return f"{count / 1e9:.1f} GB" if count < 10e9 else f"{count / 1e9:,.0f} GB"
