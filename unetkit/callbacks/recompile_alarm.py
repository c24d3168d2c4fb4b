"""Tells when a `fit` compiles its step anew because a shape has changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import keras

from unetkit.compilations import Compilations


class RecompileAlarm(keras.callbacks.Callback):
    """Counts what is compiled during a `fit`, and warns (or stops it) when a function is compiled a second time.

    ```python
    from unetkit.callbacks import RecompileAlarm

    model.fit(batches, callbacks=[RecompileAlarm()])
    # RecompileAlarm: train_step was compiled 2 times; the last for float32[3,64,64,3], float32[3,64,64,3]
    ```

    On either Keras backend, for any model. `unetkit.compilations.Compilations` is the same as a context manager, for any code.

    Args:
        error: raise at the end of the batch in which it happened, in place of a warning at the end of training.
        functions: names to count (None: all).

    Attributes:
        compilations: what was seen, a `Compilations`.

    Raises:
        LimitError: with `error`, naming the function and both shapes.
    """

    def __init__(self, error: bool = False, functions: Iterable[str] | None = None) -> None:
        super().__init__()
        self.error = error
        self.compilations = Compilations(functions)

    def on_train_begin(self, logs: Any = None) -> None:
        self.compilations.__enter__()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._check()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._check()

    def on_train_end(self, logs: Any = None) -> None:
        self.compilations.__exit__()
        late = {one.function: one for one in self.compilations.again()}
        for name, one in late.items():
            times = self.compilations.counts()[name]
            shown = ", ".join(one.shapes[-2:])
            warnings.warn(f"RecompileAlarm: {name} was compiled {times} times; the last for {shown}", stacklevel=2)

    def _check(self) -> None:
        if self.error and self.compilations.again():
            self.compilations.__exit__()
            self.compilations.require_one_each()
