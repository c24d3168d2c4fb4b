"""When things happen: lengths in images become steps, and steps become calls that never cross an interval's end."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from unetkit.recipe.schema import Recipe

SHARES = {"log": 100, "validate": 10, "sample": 10, "save": 10}  # default: that many per run


@dataclass(frozen=True)
class Every:
    """Due after every `steps` steps, and after the last one."""

    steps: int
    last: int

    def due(self, step: int) -> bool:
        return step % self.steps == 0 or step == self.last

    def after(self, step: int) -> int:
        """The next step that is due."""
        return min((step // self.steps + 1) * self.steps, self.last)


@dataclass(frozen=True)
class Plan:
    """Length and intervals of a run, in optimizer steps of `batch` images."""

    batch: int
    steps: int
    steps_per_call: int
    log: Every
    validate: Every
    sample: Every
    save: Every

    @property
    def images(self) -> int:
        """Length of the run in images: whole steps."""
        return self.steps * self.batch

    def calls(self, done: int) -> Iterator[tuple[int, int]]:
        """(first step, count) of each device call from `done` on; a call ends where an interval ends."""
        while done < self.steps:
            end = min(done + self.steps_per_call, *(every.after(done) for every in (self.log, self.validate, self.sample, self.save)))
            yield done, end - done
            done = end


def make_plan(recipe: Recipe, train_images: int) -> Plan:
    """The plan of a recipe for a training split of `train_images` images."""
    training, batch = recipe.training, recipe.training.batch
    images = training.images if training.images is not None else max(1, round((training.epochs or 0) * train_images))
    steps = max(1, math.ceil(images / batch))

    def every(kind: str, interval: int | None) -> Every:
        return Every(max(1, round(interval / batch)) if interval else math.ceil(steps / SHARES[kind]), steps)

    return Plan(
        batch=batch,
        steps=steps,
        steps_per_call=training.steps_per_call,
        log=every("log", recipe.logging.every_images),
        validate=every("validate", recipe.logging.validate_every_images),
        sample=every("sample", recipe.logging.samples.every_images),
        save=every("save", recipe.checkpoint.every_images),
    )
