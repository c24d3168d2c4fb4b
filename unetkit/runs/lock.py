"""One writer per run folder: a lock that the operating system drops with the process that held it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import sys
import weakref
from pathlib import Path
from typing import Any

from unetkit.errors import UserError

# File systems mounted from object stores often have no locks; there the lock is only a note of who writes.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # far behind the text, which others must be able to read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Lock:
    """Exclusive for this process while it lives; a dead holder's lock is free, and so needs no cleaning up.

    The file stays when the lock is released: removing it would let two processes lock two files of one name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shared = False
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Takes the lock or says who has it. `shared` is true afterwards where the file system has no locks.

        Raises:
            UserError: another process, or another object of this one, writes to the folder.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _try_lock(descriptor)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise UserError(self._busy()) from error
            self.shared = True
        self._descriptor = descriptor
        _held.add(self)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())

    def release(self) -> None:
        """Gives the lock up; nothing happens when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)

    def _busy(self) -> str:
        holder = self._holder()
        folder = self.path.parent
        if holder.get("pid") == os.getpid() and holder.get("host") == platform.node():
            return f"{folder} is already open for writing in this process. Close that run first, or name another folder with --run."
        who = f"process {holder.get('pid', '(unknown)')} on {holder.get('host', 'an unknown machine')}"
        return f"{folder} is being written by {who}. Wait for it or stop it, or name another folder with --run."

    def _holder(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):  # the note only makes the message better
            note = json.loads(self.path.read_bytes())
            if isinstance(note, dict):
                return note
        return {}


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _release_in_child() -> None:
    """A forked child (a reader process of the data pipeline) inherits the lock, and would keep it after our death."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
