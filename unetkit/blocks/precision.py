"""The precision policy of layers made inside a block of code."""

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def dtype_policy(precision: str) -> Iterator[None]:
    """Layers made inside compute in `precision`; the process's own policy is put back, as a notebook would expect."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
