"""One image or many: what every operation here does first and last."""

import functools
from collections.abc import Callable

from keras import ops

from unetkit.errors import UserError


def of_any_rank(operation: Callable) -> Callable:
    """Lets an operation on (b, h, w, c) take (h, w) and (h, w, c) too, computing in float32 at least; its dtype comes back."""

    @functools.wraps(operation)
    def wrapped(image, *args, **kwargs):
        image = ops.convert_to_tensor(image)
        shape, dtype = tuple(image.shape), image.dtype
        if len(shape) not in (2, 3, 4):
            raise UserError(f"{operation.__name__}: an image is (h, w), (h, w, c) or (b, h, w, c), but this has the shape {shape}.")
        if len(shape) == 2:
            image = image[None, :, :, None]
        elif len(shape) == 3:
            image = image[None]
        wide = image if "float" in str(dtype) else ops.cast(image, "float32")
        result = operation(wide, *args, **kwargs)
        return ops.cast(ops.reshape(result, (-1, *shape[1:]) if len(shape) == 4 else shape), dtype)

    return wrapped


def pair(owner: str, name: str, value) -> tuple[int, int]:
    """One whole number for both axes, or one each for rows and columns."""
    both = (value, value) if isinstance(value, int) else tuple(value)
    if len(both) != 2 or any(not isinstance(side, int) or side < 1 for side in both):
        raise UserError(f"{owner}: {name}={value!r} must be a whole number of at least 1, or two of them: rows and columns.")
    return both
