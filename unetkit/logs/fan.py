"""Opens the loggers of a recipe and tells each of them everything; one that fails is left out, the training goes on."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unetkit.errors import UserError
from unetkit.logs.base import Log
from unetkit.recipe.schema import Logging, Recipe
from unetkit.runs import RunFolder

Say = Callable[[str], None]


def require_packages(logging: Logging) -> None:
    """Raises UserError where a logger's package is missing, before any work; what the recipe does not ask for is not looked at."""
    asked = (("wandb", logging.wandb is not None, "wandb"), ("tensorboard", logging.tensorboard, "tensorboardX"))
    for key, wanted, package in asked:
        if wanted and importlib.util.find_spec(package) is None:
            raise UserError(
                f"logging.{key}: {package} is not installed. Install it: pip install 'unetkit[{key}]', or set logging.{key} off."
            )


def open_logs(recipe: Recipe, folder: RunFolder, facts: Mapping[str, Any], say: Say) -> Logs:
    """The loggers that the recipe asks for, opened. Call it in the one process that writes to `folder`.

    Args:
        facts: plain values that are logged with the recipe, as the device.
        say: for what the user should be told.
    """
    makers: list[Callable[[], Log]] = []
    if recipe.logging.wandb is not None:
        from unetkit.logs.wandb import WandbLog

        makers.append(lambda: WandbLog(recipe, folder, facts, say))
    if recipe.logging.tensorboard:
        from unetkit.logs.tensorboard import TensorBoardLog

        makers.append(lambda: TensorBoardLog(folder))
    return Logs(makers, say)


class Logs:
    """Several loggers as one. `status` is the exit status that they are closed with; an exception makes it 1."""

    def __init__(self, makers: list[Callable[[], Log]], say: Say) -> None:
        self._say, self._logs = say, []
        self.status = 0
        for make in makers:
            try:
                self._logs.append(make())
            except Exception as error:  # a paid run must not end because a server or a client of it did
                say(f"logging: left out, {type(error).__name__}: {error}")

    def record(self, line: Mapping[str, Any]) -> None:
        self._each("record", line)

    def picture(self, step: int, path: Path) -> None:
        self._each("picture", step, path)

    def finish(self, checkpoint: Path | None) -> None:
        self._each("finish", checkpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._each("close", 1 if kind else self.status)
        self._logs.clear()

    def _each(self, method: str, *args: Any) -> None:
        for log in list(self._logs):
            try:
                getattr(log, method)(*args)
            except Exception as error:  # as above
                self._say(f"{log.title}: no longer written, {type(error).__name__}: {error}")
                self._logs.remove(log)
