"""Runs ordinary Keras callbacks on our loop, at the ends of intervals.

An "epoch" is one validation interval and a "batch" is one log interval: `on_train_batch_end` gets the number of the last
step and the logs of the interval; `on_epoch_end` gets those and `val_l1`, `val_psnr`, `val_ssim`. `model.stop_training` ends
the run after the interval. What a callback remembers is not part of a checkpoint.
"""

from collections.abc import Sequence
from typing import Any

import keras

from unetkit.train.engines.base import Engine
from unetkit.train.hosts import Hosts
from unetkit.train.plan import Plan


class Callbacks:
    """Keras callbacks around one engine.

    Args:
        callbacks: `keras.callbacks.Callback` objects.
        engine: whose main network they see as `self.model`.
        plan: for `params`.
        hosts: only the first of them has callbacks; the others take over what they changed.
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback], engine: Engine, plan: Plan, hosts: Hosts | None = None) -> None:
        self.engine, self.hosts = engine, hosts or Hosts()
        self.model = engine.objective.networks[engine.objective.main]
        self.used = bool(callbacks)
        if self.used:
            self.model.compile(optimizer=engine.optimizers[engine.objective.main])  # callbacks look for model.optimizer
        self.model.stop_training = False
        epochs = -(-plan.steps // plan.validate.steps)
        self.list = keras.callbacks.CallbackList(
            list(callbacks) if self.hosts.first else [],
            model=self.model,
            add_history=False,
            epochs=epochs,
            steps=plan.validate.steps,
            verbose=0,
        )

    @property
    def stopped(self) -> bool:
        """Whether a callback asked for the end."""
        return self.model.stop_training

    def call(self, hook: str, *args: Any) -> None:
        """Calls one hook on every callback, with the trained values in the Keras variables, and takes over what they changed."""
        if not self.used:
            return
        self.engine.sync()
        if self.hosts.count == 1:
            getattr(self.list, hook)(*args)
            self.engine.adopt()
            return
        self.model.stop_training, changed = self.hosts.agree(lambda: self._called(hook, *args))
        if changed:
            self.engine.follow_first()

    def _called(self, hook: str, *args: Any) -> tuple[bool, bool]:
        """Calls the hook; whether the run shall stop, and whether a variable was assigned."""
        variables = [v for group in self.engine.variables().values() for v in group.values()]
        before = [v.value for v in variables]
        getattr(self.list, hook)(*args)
        changed = any(v.value is not held for v, held in zip(variables, before, strict=True))
        return bool(self.model.stop_training), changed
