"""How good the pictures are: L1, PSNR, SSIM and the trivial answers; KID and FID between sets. Needs no Keras."""

from unetkit.evaluate.comparison import compare
from unetkit.evaluate.features import KerasFeatures, Pyramid
from unetkit.evaluate.score import NotFinite, baselines, evaluate, score, score_loss

__all__ = ["KerasFeatures", "NotFinite", "Pyramid", "baselines", "compare", "evaluate", "score", "score_loss"]
