"""Answers on disk: folders by key, safe under several processes, bounded in size, the longest unused dropped first.

An entry appears whole, by rename, and is never changed. Whoever makes one holds that key's lock meanwhile, so that a second
process which wants the same answer waits for it instead of paying again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unetkit.files import cache_root

DEFAULT_LIMIT_BYTES = 2 * 2**30


@dataclass(frozen=True)
class Usage:
    entries: int
    size_bytes: int
    limit_bytes: int


class Cache:
    """Folders by key under `root`.

    Args:
        root: where; `answers` below `cache_root()` by default.
        limit_bytes: entries beyond this are dropped, the longest unused first, never the newest.
    """

    def __init__(self, root: Path | None = None, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.root = Path(root) if root else cache_root() / "answers"
        self.limit_bytes = limit_bytes

    def find(self, key: str) -> Path | None:
        """The entry's folder, marked as used now; None when there is none."""
        entry = self.root / key
        try:
            os.utime(entry)
        except FileNotFoundError:
            return None
        return entry

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[None]:
        """Holds the key's lock, waiting for whoever has it. Look again with `find` once inside."""
        with self._locked(key):
            yield

    def put(self, key: str, fill) -> Path:
        """Makes an entry: `fill(folder)` writes into an empty folder, which then becomes the entry at once.

        Call it while holding the key's lock. Nothing is left behind when `fill` fails.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".making-", dir=self.root))
        try:
            fill(made)
            entry = self.root / key
            if entry.exists():
                shutil.rmtree(entry)
            os.replace(made, entry)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        self._drop_oldest(keep=key)
        return entry

    def usage(self) -> Usage:
        entries = self._entries()
        return Usage(len(entries), sum(size for _, _, size in entries), self.limit_bytes)

    def clear(self) -> Usage:
        """Drops every entry; returns what there was."""
        before = self.usage()
        with self._locked("all"):
            for path, _, _ in self._entries():
                self._remove(path)
            self._drop_abandoned()
        return before

    def _drop_oldest(self, keep: str) -> None:
        with self._locked("all"):
            entries = sorted(self._entries(), key=lambda e: e[1])
            total = sum(size for _, _, size in entries)
            for path, _, size in entries:
                if total <= self.limit_bytes:
                    break
                if path.name != keep:
                    self._remove(path)
                    total -= size
            self._drop_abandoned()

    def _drop_abandoned(self) -> None:
        """Half-made entries of processes that were killed: none takes a day to make."""
        for path in self.root.glob(".making-*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > 86400:
                    shutil.rmtree(path, ignore_errors=True)

    def _entries(self) -> list[tuple[Path, float, int]]:
        """(folder, last use, bytes) of every entry; one that vanishes meanwhile is not one."""
        found = []
        for path in self.root.iterdir() if self.root.is_dir() else ():
            if path.name.startswith("."):
                continue
            with contextlib.suppress(FileNotFoundError):
                found.append((path, path.stat().st_mtime, sum(f.stat().st_size for f in path.iterdir())))
        return found

    def _remove(self, path: Path) -> None:
        """By rename first, so that no one ever sees half an entry."""
        doomed = self.root / f".dropped-{os.getpid()}-{path.name}"
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        locks = self.root / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        with open(locks / name, "a+b") as file:
            _lock(file)
            yield  # closing the file frees the lock, also when this process dies


if sys.platform == "win32":
    import msvcrt

    def _lock(file) -> None:
        file.seek(0)
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # gives up after ten seconds
            except OSError:
                continue
            return

else:
    import fcntl

    def _lock(file) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
