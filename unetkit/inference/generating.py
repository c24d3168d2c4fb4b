"""`unetkit generate`: image or WAV files and folders of any size through a trained network of one shape."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from unetkit.compilations import NETWORK, Compilations
from unetkit.errors import UnetkitError, UserError, WorkError
from unetkit.inference import bundle
from unetkit.inference.ledger import Ledger
from unetkit.inference.maker import Maker, open_maker
from unetkit.inference.streaming import WriteBehind, read_ahead
from unetkit.inference.targets import plan
from unetkit.progress import Count


def generate(
    run: str | Path,
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    depth: int | None = None,
    tile: int | Sequence[int] | None = None,
    overlap: int | str = "auto",
    window: str = "auto",
    batch: int | None = None,
    enlarged: bool = False,
    allow_code: bool = False,
    no_recompile: bool = False,
    progress: bool = True,
    seed: int = 0,
    **sampling: float | str | None,
) -> list[Path]:
    """Sends images of any size through a run's best weights and writes a PNG of the same size for each; of sound, WAV files.

    What is larger than a tile is cut into tiles, see `unetkit.inference.Tiled`; what is smaller is mirrored out to one. An
    image is taken as the network's input as it stands. Only a run that was trained by `super_resolve` enlarges it first, by
    the factor it was trained with. The same call again goes on where an interrupted one stopped.

    Args:
        run: the run folder, or a bundle that `unetkit export` wrote.
        inputs: image files (WAV files for a network of signals), and folders that are read with their subfolders.
        out: the folder to write to; a picture keeps the stem and subfolder of its image.
        depth: 8 (None) or 16 bits per channel; of sound 8, 16 (None), 24 or 32, which are floating point. Values are clipped,
            then rounded.
        tile: pixels of a tile (None: the training size); overlap, window, batch: as of `Tiled`.
        enlarged: the inputs of a `super_resolve` run have been enlarged already.
        allow_code: trust the code that the run's recipe names.
        no_recompile: stop with a LimitError where the network is compiled a second time.
        progress: whether to show rate and time left (where it takes more than two seconds), and the outcome.
        seed: of the noise that pictures begin with, for runs of flow and diffusion.
        **sampling: `steps`, `guidance` and `sampler` in place of the recipe's, for those runs.

    Returns:
        The pictures, in the order of the inputs, with those that an interrupted call had made.

    Raises:
        UserError: bad input; nothing has been written then.
        WorkError: some images could not be read or written; all the others have been.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; name a folder to write to")
    if bundle.is_bundle(run):
        if named := [f"--{name}" for name, value in sampling.items() if value is not None]:
            raise UserError(f"{' and '.join(named)}: {run} is a bundle, whose network makes a picture in one pass; leave it out")
        maker = bundle.open_bundle(run, depth=depth, enlarged=enlarged, allow_code=allow_code)
    else:
        maker = open_maker(run, depth=depth, enlarged=enlarged, allow_code=allow_code, seed=seed, sampling=sampling)
    planned = plan(inputs, out, maker.medium)
    maker.prepare(tile=tile, overlap=overlap, window=window, batch=batch)
    ledger = Ledger(out, maker.settings)
    with contextlib.closing(ledger):
        todo = [pair for pair in planned if not ledger.has(*pair)]
        line = Count(len(todo), progress)
        if len(todo) < len(planned):
            line.note(
                f"{len(planned) - len(todo):,} of {len(planned):,} are in {out} already, made by the same network from the same files"
            )
        work = _Work(maker, ledger, line, no_recompile)
        try:
            with work.compilations:
                work.run(todo)
        finally:
            line.close()
    if work.compilations.again():
        line.note(f"compiled more than once: {work.compilations}")
    made = {target for _, target in planned} - work.failed.keys()
    line.note(f"{len(made):,} {maker.medium.made}{'' if len(made) == 1 else 's'} in {out}")
    if work.failed:
        listed = "\n".join(f"  {reason}" for reason in work.failed.values())
        others = f"; the others are in {out}" if made else ""
        raise WorkError(f"{len(work.failed)} of {len(planned)} {maker.medium.word} could not be used{others}:\n{listed}")
    return [target for _, target in planned]


class _Work:
    """Reads, computes and writes a list of files, at the same time."""

    def __init__(self, maker: Maker, ledger: Ledger, line: Count, no_recompile: bool) -> None:
        self.maker, self.ledger, self.line = maker, ledger, line
        self.compilations, self.no_recompile = Compilations({NETWORK}), no_recompile
        self.failed: dict[Path, str] = {}
        self.written = 0
        self.under_way: deque[tuple[Path, Path]] = deque()

    def run(self, todo: Sequence[tuple[Path, Path]]) -> None:
        with WriteBehind(self.maker.medium.write, self._written) as writer:
            for output in self.maker.tiled.map(self._inputs(todo)):
                if self.no_recompile:
                    self.compilations.require_one_each()
                image, target = self.under_way.popleft()
                writer.put((image, target), target, output, image)

    def _inputs(self, todo: Sequence[tuple[Path, Path]]) -> Iterator[np.ndarray]:
        """The inputs that can be used, one after the other; the others are noted."""
        told = False
        for pair, reading in read_ahead(todo, lambda pair: self.maker.medium.read(pair[0])):
            try:
                array = reading.result()
            except UserError as error:
                self._failed(pair[1], error)
                continue
            if self.maker.note and not told and self.maker.tiled.plan(array.shape[:-1]).tiles > 1:
                told = True
                self.line.note(self.maker.note)
            self.under_way.append(pair)
            yield array

    def _written(self, pair: tuple[Path, Path], error: BaseException | None) -> None:
        image, target = pair
        if isinstance(error, UnetkitError):
            self._failed(target, error)
        elif isinstance(error, OSError):
            reason = error.strerror or error
            raise WorkError(f"{target} cannot be written: {reason}. {self.written} were; the same command goes on.") from error
        elif error is not None:
            raise error
        else:
            self.ledger.add(image, target)
            self.written += 1
            self._show()

    def _failed(self, target: Path, error: BaseException) -> None:
        self.failed[target] = str(error)
        self._show()

    def _show(self) -> None:
        self.line.done(self.written + len(self.failed))
