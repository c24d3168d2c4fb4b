"""`batch: auto` on a CPU or GPU: no compiler can be asked, so shapes and the device's memory decide, and it says so."""

from __future__ import annotations

import math
import shutil
import subprocess
from typing import Any

from unetkit.data import memory
from unetkit.errors import LimitError, UserError
from unetkit.tpu import model
from unetkit.tpu.chips import chip
from unetkit.tpu.tiles import SUBLANES

SHARE = 0.25
"""Share of the device's memory that the counted arrays may take: engines keep copies and work space that are not counted."""

WORD_TIMES = 2
"""The count is a TPU's, where much is kept in 16 bits; these devices keep it in 32."""

FIXED_SHARE = 0.02
"""The batch grows until what a step reads and writes whatever its batch (weights, optimizer) is this share of its arrays."""

COUNTED_FOR = chip("v5p-8")
"""Whose memory is large enough that the model makes nothing again to save space."""


def choose(recipe: Any, kind: str, replicas: int, images: int) -> tuple[int, list[str]]:
    """A global batch for the devices that are here, and why.

    Args:
        recipe: with `batch: auto`.
        kind: cpu or gpu.
        replicas: devices that share a batch.
        images: training images; no batch is larger.

    Raises:
        UserError: fewer images than one batch.
        LimitError: not even 8 images per device fit.
    """
    unit = replicas * recipe.training.accumulate * SUBLANES
    if images < unit:
        raise UserError(
            f"training.batch: auto takes multiples of {unit} ({replicas} {kind} x {SUBLANES} images), "
            f"and there are {images} training images. Give more images, or a number."
        )
    times = COUNTED_FOR.replicas * recipe.training.accumulate * SUBLANES
    estimated = model.estimator(recipe, COUNTED_FOR, times)
    one, two = estimated(times), estimated(2 * times)
    per_unit = WORD_TIMES * (_unpadded(two) - _unpadded(one))
    fixed = max(0, _unpadded(one) - per_unit // WORD_TIMES)
    wanted = math.ceil(fixed * (1.0 - FIXED_SHARE) / (FIXED_SHARE * per_unit)) or 1
    available = gpu_bytes() if kind == "gpu" else memory.available()
    share = None if available is None else SHARE * available / (replicas if kind == "cpu" else 1)
    most = images // unit
    fitting = most if share is None else min(most, int((share - fixed) // per_unit))
    if fitting < 1:
        raise LimitError(
            f"training.batch: auto: {SUBLANES} images per {kind} are counted as {memory.in_words(fixed + per_unit)}, above {SHARE:.0%} "
            f"of the {memory.in_words(available)} that are free. Use a number, a smaller data.size, or training.accumulate."
        )
    count = min(wanted, fitting)
    why = "data" if count == most else "memory" if count == fitting else "what a larger batch would save"
    free = "unknown" if available is None else memory.in_words(available)
    reasons = [
        f"no TPU is named or attached: chosen by unetkit's arithmetic model and the memory of the {kind} ({free} free), not measured",
        f"{count * unit} is a multiple of {unit} ({replicas} x {SUBLANES}); limited by {why}",
    ]
    return count * unit, reasons


def _unpadded(answer: Any) -> int:
    return max(answer.curve.unpadded_bytes)


def gpu_bytes() -> int | None:
    """Free memory of the fullest GPU, as `nvidia-smi` says; None where it is not there."""
    if not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return min((int(mib) * 2**20 for mib in said if mib.isdigit()), default=None)
