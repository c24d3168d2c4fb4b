"""Image operations of tensorflow-addons 0.23, by `keras.ops`: (h, w), (h, w, c) or (b, h, w, c) in, the same shape and dtype out."""

from unetkit.addons.image.filters import gaussian_filter2d, mean_filter2d, median_filter2d, sharpness
from unetkit.addons.image.warps import cutout, dense_image_warp, rotate, translate

__all__ = [
    "cutout",
    "dense_image_warp",
    "gaussian_filter2d",
    "mean_filter2d",
    "median_filter2d",
    "rotate",
    "sharpness",
    "translate",
]
