"""How much tiles show: the error at their borders over the error between them."""

from __future__ import annotations

import numpy as np

from unetkit.inference.tiled import Tiled


def seams(tiled: Tiled, image: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """The mean absolute error of a tiled result at the borders of its tiles, between them, and the ratio of the two.

    A border is what lies within one total stride, or an eighth of the tile if that is less, of the first or last pixel of a
    tile inside the image: that is where a seam would be seen. 1 means that no seam stands out, however large the errors
    are; `exact` tiles have no error at all.

    Args:
        tiled: applies the network.
        image: (h, w, ci) or (w, ci), with more than one tile along some axis.
        reference: what the result should be, as one pass over the whole gives it: (h, w, co) or (w, co).

    Returns:
        {border, interior, ratio}; ratio is 1.0 where neither has an error, and where tiles are so small that all is border.

    Raises:
        ValueError: one tile covers the image.
    """
    error = np.abs(tiled(image) - reference).mean(axis=-1)
    border = np.zeros(error.shape, bool)
    width = max(1, min(tiled.receptive.stride, min(tiled.tile) // 8))
    for place, (one, side) in enumerate(zip(tiled.plan(error.shape).axes, tiled.tile, strict=True)):
        edges = [*one.starts[1:], *(start + side for start in one.starts[:-1])]
        for edge in (edge - one.before for edge in edges):
            border[(slice(None),) * place + (slice(max(0, edge - width), edge + width),)] = True
    if not border.any():
        raise ValueError(f"an image of {image.shape[:-1]} has no tile borders for tiles of {tiled.tile}")
    at = float(error[border].mean())
    between = at if border.all() else float(error[~border].mean())
    return {"border": at, "interior": between, "ratio": at / between if between else 1.0}
