"""KID and FID of two sets of images, with what the numbers were made by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from unetkit.evaluate.distribution import few_samples, fid, kid
from unetkit.evaluate.features import Extractor, Features, Pyramid


def compare(real: Iterable[np.ndarray], made: Iterable[np.ndarray], extractor: Extractor | None = None, batch: int = 32) -> dict[str, Any]:
    """KID and FID between real images and made ones.

    Args:
        real, made: images, each (h, w, 1 or 3) float in [-1, 1] or uint8, of any sizes.
        extractor: what makes features (None: `Pyramid`).
        batch: images per call of the extractor.

    Returns:
        {features: {name, version, size, width}, images: {real, made}, kid, kid_standard_error, fid, warnings}.

    Raises:
        UserError: too few images, or one that is none.
        WorkError: a value or feature is not finite.
    """
    extractor = extractor or Pyramid()
    both = []
    for images in (real, made):
        features = Features(extractor, batch)
        for image in images:
            features.add(image)
        both.append(features.all())
    first, second = both
    distance, error = kid(first, second)
    n, m, width = len(first), len(second), first.shape[1]
    return {
        "features": {"name": extractor.name, "version": extractor.version, "size": list(extractor.size), "width": width},
        "images": {"real": n, "made": m},
        "kid": distance,
        "kid_standard_error": error,
        "fid": fid(first, second),
        "warnings": few_samples(n, m, width),
    }
