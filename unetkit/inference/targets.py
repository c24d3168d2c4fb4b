"""Which file becomes which picture."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from unetkit.errors import UserError
from unetkit.inference.media import Medium


def plan(inputs: Sequence[str | Path], out: Path, medium: Medium) -> list[tuple[Path, Path]]:
    """(image, picture to write) for every image (or whatever `medium` reads) in `inputs`, files and folders.

    A picture keeps the image's stem and, below a folder, its subfolder. Where that name is taken already (a.jpg beside
    a.png, or the same name in two folders) it becomes a-2.png, and so on. Pictures that lie in `out` below one of the
    folders are results of an earlier call and no inputs.

    Raises:
        UserError: something is not there, no image was found, or a picture would overwrite an input.
    """
    found: dict[Path, Path] = {}  # image -> the picture's name below `out`
    for given in map(Path, inputs):
        if given.is_dir():
            own = {name: image for name, image in medium.inputs(given).items() if not _is_result(image, given, out)}
            found.update((image, Path(name)) for name, image in own.items() if image not in found)
        elif given.exists():
            found.setdefault(given, Path(given.name))
        else:
            raise UserError(_missing(given))
    if not found:
        raise UserError(f"no {medium.word} in {', '.join(map(str, inputs))}")
    planned, taken = [], set()
    for image, name in found.items():
        target = _free(out / name.with_suffix(medium.suffix), taken)
        taken.add(_key(target))
        planned.append((image, target))
    _refuse_overwriting(planned, medium.made)
    return planned


def _is_result(image: Path, folder: Path, out: Path) -> bool:
    inside = out.resolve()
    return inside != folder.resolve() and inside in image.resolve().parents


def _free(target: Path, taken: set[str]) -> Path:
    number, free = 2, target
    while _key(free) in taken:
        free = target.with_stem(f"{target.stem}-{number}")
        number += 1
    return free


def _key(target: Path) -> str:
    return str(target).casefold()  # some file systems take a.png and A.png for the same


def _refuse_overwriting(planned: list[tuple[Path, Path]], made: str) -> None:
    originals = {image.resolve() for image, _ in planned}
    for image, target in planned:
        if target.resolve() in originals:
            raise UserError(f"{target} is an input, and the {made} of {image} would overwrite it. Name another folder with --out")


def _missing(path: Path) -> str:
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, siblings, n=1)
    return f"there is no file or folder {path}" + (f"; the nearest is {path.parent / near[0]}" if near else "")
