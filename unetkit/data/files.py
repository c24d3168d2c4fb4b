"""Which files count, and who pairs with whom.

A folder is read with its subfolders, links followed. Files and folders whose name begins with a dot do not count, nor
do files whose name does not end as an image's (or a WAV file's) does, in either case. Names are relative, with forward slashes, sorted.
"""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from unetkit.errors import UserError

IMAGES = frozenset((".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".dib", ".tif", ".tiff", ".gif"))
SHOWN = 5


class BadFile(UserError):
    """A file that cannot be read as what it should be: which, and why."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = Path(path), reason


def few(names: Iterable[str]) -> str:
    """The first few names and how many more there are."""
    names = list(names)
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


@dataclass(frozen=True)
class Listing:
    """The files of one kind in one folder by name, and what else lies there, by reason."""

    folder: Path
    files: dict[str, Path]
    ignored: dict[str, tuple[str, ...]]


def list_images(folder: str | Path, key: str) -> Listing:
    """The images of a folder; see `list_files`."""
    return list_files(folder, key, IMAGES, "not named as an image")


def list_files(folder: str | Path, key: str, endings: frozenset[str], otherwise: str) -> Listing:
    """Lists the files of a folder whose names end so. `key` is the recipe key (or argument) it came from, for errors.

    `otherwise` is why the others are ignored. Raises UserError where there is no such folder, naming the nearest one.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise UserError(f"{key}: {_missing(root)}")
    found: dict[str, Path] = {}
    ignored = defaultdict[str, list[str]](list)
    seen = {root.resolve()}
    for where, folders, files in os.walk(root, followlinks=True):
        here = Path(where)
        for name in sorted(folders):
            inner = here / name
            if name.startswith("."):
                ignored["hidden"].append(inner.relative_to(root).as_posix() + "/")
            elif inner.is_symlink() and inner.resolve() in seen:
                ignored["link to a folder that is read already"].append(inner.relative_to(root).as_posix() + "/")
            else:
                seen.add(inner.resolve())
                continue
            folders.remove(name)
        for name in files:
            path = here / name
            relative = path.relative_to(root).as_posix()
            if name.startswith("."):
                ignored["hidden"].append(relative)
            elif path.suffix.lower() not in endings:
                ignored[otherwise].append(relative)
            else:
                found[relative] = path
    return Listing(root, dict(sorted(found.items())), {reason: tuple(sorted(names)) for reason, names in ignored.items()})


def _missing(root: Path) -> str:
    if root.exists():
        return f"{root} is a file where a folder was expected"
    parent, child = root.parent, root.name
    while not parent.is_dir():
        parent, child = parent.parent, parent.name
    siblings = sorted(entry.name for entry in parent.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    near = difflib.get_close_matches(child, siblings, n=1)
    if near:
        return f"there is no folder {root}; the nearest is {parent / near[0]}"
    return f"there is no folder {root}; {parent} has {few(siblings) or 'no folders'}"


def match(inputs: Listing, targets: Listing) -> tuple[dict[str, tuple[Path, Path]], list[str], dict[str, tuple[str, ...]]]:
    """Pairs by stem: the name without its extension, subfolders included.

    Returns the pairs by stem (sorted), problems that leave it open who pairs with whom (duplicate stems), and the
    stems that only one side has, by side.
    """
    problems: list[str] = []
    sides = []
    for key, listing in (("data.source.inputs", inputs), ("data.source.targets", targets)):
        stems = defaultdict[str, list[str]](list)
        for name in listing.files:
            stems[name.rpartition(".")[0]].append(name)
        twice = [" and ".join(names) for names in stems.values() if len(names) > 1]
        if twice:
            problems.append(f"{key}: files of one stem cannot be told apart in {listing.folder}: {few(twice)}")
        sides.append({stem: listing.files[names[0]] for stem, names in stems.items()})
    first, second = sides
    pairs = {stem: (first[stem], second[stem]) for stem in sorted(first.keys() & second.keys())}
    alone = {
        f"only in {inputs.folder}": tuple(sorted(first.keys() - second.keys())),
        f"only in {targets.folder}": tuple(sorted(second.keys() - first.keys())),
    }
    return pairs, problems, {side: stems for side, stems in alone.items() if stems}
