"""Which functions were compiled, how often, and for which shapes, on either engine, without changing them."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from unetkit.errors import LimitError

NETWORK = "forward"
"""Name of the function that `unetkit.compiled.compiled` makes of a network."""

JAX_LOGGER = "jax._src.interpreters.pxla"


@dataclass(frozen=True)
class Compilation:
    """One program: the function it was made of, and the shapes of its arguments as the engine writes them."""

    function: str
    shapes: tuple[str, ...]


class Compilations:
    """Counts what is compiled while it is entered.

    ```python
    with Compilations() as seen:
        for image in images:
            model.predict(image[None])
    print(seen)  # one_step_on_data_distributed: 7 (float32[1,65,97,3], ...)
    ```

    On TensorFlow it is the traces of every `tf.function`, each of which is a program of its own (one with a relaxed signature,
    compiled by XLA again for every shape, counts once). On JAX it is the compilations of every `jit`, but for single
    operations of `jax.numpy` and `jax.lax`, which JAX compiles one by one where it runs them outside of a `jit`.

    Args:
        functions: names to count (None: all).

    Attributes:
        seen: in order.
    """

    def __init__(self, functions: Iterable[str] | None = None) -> None:
        self.functions = None if functions is None else frozenset(functions)
        self.seen: list[Compilation] = []
        self._leave: list[Callable[[], None]] = []

    def __enter__(self) -> Compilations:
        if "tensorflow" in sys.modules:
            self._leave.append(_listen_to_tensorflow(self._add))
        if "jax" in sys.modules:
            self._leave.append(_listen_to_jax(self._add))
        return self

    def __exit__(self, *error: object) -> None:
        while self._leave:
            self._leave.pop()()

    def counts(self) -> dict[str, int]:
        """Compilations per function."""
        counts: dict[str, int] = {}
        for one in self.seen:
            counts[one.function] = counts.get(one.function, 0) + 1
        return counts

    def again(self) -> list[Compilation]:
        """All but the first compilation of each function."""
        first: set[str] = set()
        return [one for one in self.seen if one.function in first or first.add(one.function)]

    def require_one_each(self) -> None:
        """Raises LimitError where a function was compiled a second time, naming the shapes of both."""
        for late in self.again():
            early = next(one for one in self.seen if one.function == late.function)
            raise LimitError(
                f"{late.function} was compiled a second time, for {_few(late.shapes)}; the first time was for {_few(early.shapes)}. "
                "Give it inputs of one shape: unetkit.inference.Tiled does, or pad the last batch"
            )

    def __str__(self) -> str:
        last = {one.function: one for one in self.seen}
        return ", ".join(f"{name}: {count} ({_few(last[name].shapes)})" for name, count in self.counts().items()) or "nothing compiled"

    def _add(self, function: str, shapes: tuple[str, ...]) -> None:
        if self.functions is None or function in self.functions:
            self.seen.append(Compilation(function, shapes))


def _few(shapes: tuple[str, ...], most: int = 3) -> str:
    """The shapes of the last arguments, which are the data: weights come before them."""
    return ", ".join((["..."] if len(shapes) > most else []) + list(shapes[-most:])) or "no arrays"


def _listen_to_tensorflow(add: Callable[[str, tuple[str, ...]], None]) -> Callable[[], None]:
    import tensorflow as tf

    # The list that TensorFlow calls with each new concrete function. There is no public way to be told of a trace.
    from tensorflow.python.eager.polymorphic_function import transform

    def traced(function: Any) -> None:
        name = re.sub(r"^__inference_|_\d+$", "", function.name.decode() if isinstance(function.name, bytes) else function.name)
        if name.startswith("Dataset_"):  # tf.data's own steps
            return
        given = tf.nest.flatten(function.structured_input_signature)
        specs = [spec for spec in given if isinstance(spec, tf.TensorSpec)]
        add(name, tuple(f"{spec.dtype.name}[{_sides(spec.shape)}]" for spec in specs))

    transform.CONCRETE_FUNCTION_CALLBACKS.append(traced)
    return lambda: transform.CONCRETE_FUNCTION_CALLBACKS.remove(traced)


def _sides(shape: Any) -> str:
    return ",".join("?" if side is None else str(side) for side in shape) if shape.rank is not None else "..."


def _listen_to_jax(add: Callable[[str, tuple[str, ...]], None]) -> Callable[[], None]:
    """JAX logs each compilation with the function's name and the shapes (`jax_log_compiles` shows it); its events have no shapes."""
    import jax

    logger = logging.getLogger(JAX_LOGGER)
    before = logger.level
    shown = logger.getEffectiveLevel()

    def compiled(record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Compiling ") and isinstance(record.args, tuple) and len(record.args) >= 2:
            name = re.sub(r"^\w+\((.*)\)$|^jit_", r"\1", str(record.args[0]))
            if not (hasattr(jax.numpy, name) or hasattr(jax.lax, name) or name.startswith("_")):
                avals: Any = record.args[1]
                add(name, tuple(aval.str_short() for aval in avals))
        return record.levelno >= shown

    logger.addFilter(compiled)
    logger.setLevel(logging.DEBUG)

    def leave() -> None:
        logger.removeFilter(compiled)
        logger.setLevel(before)

    return leave
