"""Files that appear whole or not at all: written under a temporary name, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".partial."


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a stream whose content becomes `path` when the block ends without an exception.

    Until then `path` keeps what it held. An ordinary exception removes the temporary file; a kill leaves it, and the
    next write of the same path overwrites it.

    Raises:
        OSError: the disk is full, the folder is missing, and so on.
    """
    temporary = partial_name(path)
    try:
        with open(temporary, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except Exception:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def write(path: Path, content: str | bytes) -> None:
    """Writes text (UTF-8) or bytes to `path` in one piece."""
    with replacing(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def partial_name(path: Path) -> Path:
    """The temporary name of `path`: in its folder, for a rename must not cross file systems, and with its ending."""
    return path.with_name(f"{PARTIAL}{path.name}")


def is_partial(name: str) -> bool:
    """Whether `name` is a temporary name left by a killed process."""
    return name.startswith(PARTIAL)


def sync_folder(folder: Path) -> None:
    """Makes the renames in `folder` durable, where the file system can: Windows and some network ones cannot."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cache_root() -> Path:
    """`UNETKIT_CACHE_DIR`, or the platform's folder for caches of a user."""
    if asked := os.environ.get("UNETKIT_CACHE_DIR"):
        return Path(asked).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "unetkit" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "unetkit"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unetkit"
