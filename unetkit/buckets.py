"""Buckets (`gs://`): a local copy that is worked on, and what is sent back, through the `tf.io.gfile` that TensorFlow brings.

An object store has no folders to rename, no locks and no half-open files: a run folder lives on the local disk, under the cache,
and is sent after each save: everything a checkpoint's marker speaks of before the marker, and `DONE` last. What a kill leaves in
the bucket is then a checkpoint without its marker, which does not count.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unetkit import files
from unetkit.errors import UserError, WorkError

SCHEMES = ("gs://", "ram://")  # ram:// is TensorFlow's own file system in memory: a bucket for tests
THREADS = 16
MARKER, DONE, CHECKPOINTS, LOCK = "COMPLETE.json", "DONE", "checkpoints", ".lock"
STAYS = ("wandb", LOCK)  # not sent: W&B has its own server, and a lock is this machine's


def is_bucket(path: str | Path) -> bool:
    """Whether `path` names something in a bucket."""
    return isinstance(path, str) and path.startswith(SCHEMES)


def gfile() -> Any:
    """`tf.io.gfile`.

    Raises:
        UserError: no TensorFlow is installed.
    """
    try:
        import tensorflow as tf
    except ImportError as error:
        raise UserError("gs:// is read through TensorFlow, which is not here; beside JAX: pip install tensorflow-cpu") from error
    return tf.io.gfile


def local_place(address: str, use: Literal["read", "trained"]) -> Path:
    """Where the local copy of an address lies: one to read from, and another one for the run that is trained there."""
    scheme, _, rest = address.rstrip("/").partition("://")
    return files.cache_root() / "buckets" / use / scheme / rest


def fetch(address: str, say: Callable[[str], None] = lambda text: None) -> Path:
    """Makes the local copy of a folder equal to it and returns where that is. What has not changed is not read again.

    Raises:
        UserError: there is no such folder, or it cannot be read.
    """
    remote, place = Remote(address), local_place(address, "read")
    there = remote.files()
    if not there:
        raise UserError(f"{address} is empty, is not there, or may not be read. Look: gcloud storage ls {address}")
    here = _stamps(place)
    missing = [name for name, about in there.items() if name not in here or here[name].size != about.size or here[name].time < about.time]
    if missing:
        size = sum(there[name].size for name in missing) / 1e6
        say(f"{address}: reading {len(missing):,} of {len(there):,} files, {size:,.0f} MB, into {place}")
    _all(lambda name: remote.read(name, place / name), missing)
    for name in here.keys() - there.keys():
        (place / name).unlink()
    return place


class Stamp(NamedTuple):
    """Bytes of a file, and when it was last written, in nanoseconds since 1970."""

    size: int
    time: int


class Remote:
    """A folder in a bucket. Names are relative to it, with slashes."""

    def __init__(self, address: str) -> None:
        self.address, self.gfile = address.rstrip("/"), gfile()

    def files(self) -> dict[str, Stamp]:
        """Every file in it; none where there is no such folder."""
        if not self.gfile.exists(self.address):
            return {}
        found = [f"{folder.rstrip('/')}/{name}" for folder, _, names in self.gfile.walk(self.address) for name in names]
        paths = [path.removeprefix(f"{self.address}/") for path in found if not files.is_partial(path.rsplit("/", 1)[-1])]
        return dict(zip(paths, _all(self._stamp, paths), strict=True))

    def _stamp(self, name: str) -> Stamp:
        about = self.gfile.stat(f"{self.address}/{name}")
        return Stamp(about.length, about.mtime_nsec)

    def read(self, name: str, to: Path) -> None:
        """Copies a file here; it appears whole."""
        to.parent.mkdir(parents=True, exist_ok=True)
        partial = files.partial_name(to)
        self.gfile.copy(f"{self.address}/{name}", str(partial), overwrite=True)
        partial.replace(to)

    def write(self, name: str, of: Path) -> None:
        """Copies a file there. One that no marker vouches for goes under another name first and is renamed: a copy may die halfway."""
        target = f"{self.address}/{name}"
        folder, _, last = target.rpartition("/")
        self.gfile.makedirs(folder)
        if name.startswith(f"{CHECKPOINTS}/") and last != MARKER:
            self.gfile.copy(str(of), target, overwrite=True)
            return
        partial = f"{folder}/{files.PARTIAL}{last}"
        self.gfile.copy(str(of), partial, overwrite=True)
        self.gfile.rename(partial, target, overwrite=True)

    def remove(self, names: Iterable[str]) -> None:
        """Removes files, the markers among them first."""
        for name in sorted(names, key=lambda name: not name.endswith(f"/{MARKER}")):
            self.gfile.remove(f"{self.address}/{name}")


class Mirror:
    """A run folder in a bucket and its local copy, which is where the run is written. One machine at a time may train it.

    Args:
        address: of the run folder, as gs://bucket/runs/name.
        say: for what the user should be told.
    """

    def __init__(self, address: str, say: Callable[[str], None]) -> None:
        self.remote, self.place, self.say = Remote(address), local_place(address, "trained"), say
        self._sent: dict[str, Stamp] = {}

    def pull(self) -> Path:
        """Brings the local copy to what the bucket has, unless it is further itself (a send that failed), and returns its folder.

        Raises:
            WorkError: the bucket cannot be read.
        """
        try:
            there = self.remote.files()
            if not there and self.place.exists():
                shutil.rmtree(self.place)  # the bucket is the truth, and the run was removed there
            elif there and _newest(there) >= _newest(_stamps(self.place)):
                names = [name for name in there if _counts(name, there)]
                if self.place.exists():
                    shutil.rmtree(self.place)
                _all(lambda name: self.remote.read(name, self.place / name), names)
        except _errors() as error:
            raise WorkError(f"cannot read {self.remote.address}: {_short(error)}") from error
        return self.place

    def push(self, last: bool = False) -> None:
        """Sends what has changed. A failure is told and tried again with the next save.

        Raises:
            WorkError: `last`, and it failed: the run is complete in the local copy alone.
        """
        try:
            self._send()
        except _errors() as error:
            if last:
                raise WorkError(
                    f"cannot write {self.remote.address}: {_short(error)}. All of it is in {self.place}; the same command sends it again"
                ) from error
            self.say(f"could not send to {self.remote.address} ({_short(error)}); tried again with the next save")

    def _send(self) -> None:
        here = _stamps(self.place)
        changed = sorted((name for name, stamp in here.items() if self._sent.get(name) != stamp), key=_turn)
        for name in changed:
            self.remote.write(name, self.place / name)
            self._sent[name] = here[name]
        gone = [name for name in self.remote.files() if name not in here]
        self.remote.remove(gone)
        self._sent = {name: stamp for name, stamp in self._sent.items() if name in here}


def _turn(name: str) -> tuple[int, str]:
    """The order of sending: the recipe and the logs, then what a checkpoint holds, then its marker, then DONE."""
    last = name.rsplit("/", 1)[-1]
    place = 3 if name == DONE else 2 if last == MARKER else 1 if name.startswith(f"{CHECKPOINTS}/") else 0
    return place, name


def _counts(name: str, there: Iterable[str]) -> bool:
    """Whether a file of the bucket is worth reading: of a checkpoint without its marker nothing is."""
    if not name.startswith(f"{CHECKPOINTS}/"):
        return True
    return f"{name.rsplit('/', 1)[0]}/{MARKER}" in there


def _newest(names: Iterable[str]) -> str:
    """The newest checkpoint that has its marker; names have a fixed width, so that they sort by step."""
    return max((name for name in names if name.endswith(f"/{MARKER}")), default="")


def _stamps(place: Path) -> dict[str, Stamp]:
    """The files of a folder, without those that stay on this machine."""
    found = {}
    for path in sorted(place.rglob("*")) if place.exists() else ():
        name = path.relative_to(place).as_posix()
        if path.is_file() and name.split("/", 1)[0] not in STAYS and not files.is_partial(path.name):
            about = path.stat()
            found[name] = Stamp(about.st_size, about.st_mtime_ns)
    return found


def _all(do: Callable[[str], Any], names: Iterable[str]) -> list[Any]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(do, names))


def _errors() -> tuple[type[BaseException], ...]:
    """What goes wrong with a bucket: TensorFlow's errors, and those of the local disk."""
    import tensorflow as tf

    return tf.errors.OpError, OSError


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
