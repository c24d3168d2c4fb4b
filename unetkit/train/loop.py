"""The loop: batches in, steps done, intervals kept. The same for both engines.

How a run starts: 1. take over the latest checkpoint, 2. move the data to its sample, 3. go on. Nothing else is needed,
because data order, augmentation, dropout, noise and learning rate are functions of the step.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unetkit.errors import WorkError
from unetkit.progress import Progress
from unetkit.train.callbacks import Callbacks
from unetkit.train.engines.base import Engine
from unetkit.train.plan import Plan

STOPPED = (
    "Training stopped; the last checkpoint is from before. A lower optimizer.learning_rate, optimizer.clip_norm: 1.0 or a warm-up "
    "(optimizer.warmup_images) usually helps."
)


@dataclass
class Pending:
    """What has been summed since the last line of the log; saved with a checkpoint, so that a resumed log repeats it."""

    steps: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def take(self, values: dict[str, np.ndarray]) -> None:
        for name, per_step in values.items():
            for value in per_step:  # in order, one by one: the sum must not depend on where calls begin
                self.sums[name] = self.sums.get(name, 0.0) + float(value)
        self.steps += len(next(iter(values.values())))

    def means(self) -> dict[str, float]:
        return {name: total / self.steps for name, total in self.sums.items()}

    def clear(self) -> None:
        self.steps, self.sums = 0, {}


@dataclass
class Clock:
    """Images per second and the share of time spent waiting for input, without the first call, which compiles."""

    started: float = 0.0
    waited: float = 0.0
    images: int = 0
    compiled: bool = False

    def begin(self) -> None:
        self.started, self.waited, self.images = time.monotonic(), 0.0, 0

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self.started, 1e-9)

    @property
    def wait_share(self) -> float:
        return min(self.waited / self.seconds, 1.0)

    @property
    def rate(self) -> float | None:
        return self.images / self.seconds if self.images else None


@dataclass
class Hooks:
    """What the loop does at interval ends, and (`check`) after whatever may have compiled something; `fit` fills them in."""

    record: Callable[[dict], None]
    validate: Callable[[int], dict[str, float]]
    sample: Callable[[int], None]
    save: Callable[[int, dict], None]
    stop_requested: Callable[[], bool]
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Ended:
    """Where the loop stopped: steps done, and the share of time spent waiting for input."""

    step: int
    input_wait_share: float


def train(engine: Engine, batches, plan: Plan, hooks: Hooks, callbacks: Callbacks, progress: Progress, *, done: int, meta: dict) -> Ended:
    """Trains from step `done` to the plan's end, or until a signal or a callback asks to stop.

    Args:
        batches: iterator of global batches, already at sample `done * plan.batch`, with `wait_seconds`.
        meta: of the checkpoint that `done` comes from; {} at the start.

    Raises:
        WorkError: the loss is not finite. Nothing is saved then: the last checkpoint is from before.
        LimitError: what `hooks.check` says.
    """
    pending = Pending(**meta.get("pending", {}))
    overall, since_log = Clock(), Clock()
    overall.begin(), since_log.begin()
    loss = None
    callbacks.call("on_train_begin")
    epoch = done // plan.validate.steps
    callbacks.call("on_epoch_begin", epoch)
    for first, count in plan.calls(done):
        before = batches.wait_seconds
        taken = [next(batches) for _ in range(count)]
        for timer in (overall, since_log):
            timer.waited += batches.wait_seconds - before
        values = engine.run(taken, first)
        hooks.check()
        check_finite(values, first)
        done = first + count
        pending.take(values)
        loss = pending.means()["loss"]
        for timer in (overall, since_log):
            timer.images += count * plan.batch
        if not overall.compiled:
            overall.compiled = True
            overall.begin(), since_log.begin()
        progress.update(done * plan.batch, overall.rate, loss)

        logs: dict[str, float] = {}
        if plan.log.due(done):
            logs = pending.means()
            pending.clear()
            speed = {"images_per_second": since_log.rate, "input_wait_share": since_log.wait_share}
            rate = engine.learning_rate(done - 1)
            hooks.record({"step": done, "images": done * plan.batch, **logs, "learning_rate": rate, **speed})
            callbacks.call("on_train_batch_end", done - 1, logs)
        metrics: dict[str, float] = {}
        if plan.validate.due(done):
            metrics = hooks.validate(done)
            hooks.record({"step": done, "images": done * plan.batch, **{f"val_{k}": v for k, v in metrics.items()}})
            callbacks.call("on_epoch_end", epoch, {**logs, **{f"val_{k}": v for k, v in metrics.items()}})
            epoch += 1
            if done < plan.steps:
                callbacks.call("on_epoch_begin", epoch)
        if plan.sample.due(done):
            hooks.sample(done)
        hooks.check()
        ending = hooks.stop_requested() or callbacks.stopped
        if plan.save.due(done) or ending:
            hooks.save(done, {"metrics": metrics, "pending": {"steps": pending.steps, "sums": pending.sums}})
        if plan.log.due(done):
            since_log.begin()
        if ending:
            break
    callbacks.call("on_train_end")
    progress.close()
    return Ended(done, overall.wait_share)


def check_finite(values: dict[str, np.ndarray], first: int) -> None:
    """Raises WorkError naming the first step whose loss is not finite."""
    for name, per_step in values.items():
        bad = np.flatnonzero(~np.isfinite(per_step))
        if bad.size:
            raise WorkError(f"{name} is {per_step[bad[0]]} at step {first + int(bad[0]) + 1}. {STOPPED}")
