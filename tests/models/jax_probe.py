"""What both engines must find alike. As a program, with JAX as the Keras backend, it also checks the records and the blocks.

Argument: a folder with `x.npy`, into which weights, outputs and losses are written for the caller to compare.
"""

import itertools
import json
import sys
from pathlib import Path

import keras
import numpy as np

from unetkit.blocks.base import NORMS, RESIDUALS
from unetkit.blocks.lookup import DOWNSAMPLERS, UPSAMPLERS
from unetkit.models import UNet, initialize
from unetkit.testing import check_block, compiled

ARGUMENTS = {"levels": (4, {"channels": 8, "attention": True}), "residual": "add", "down": "strided_conv", "up": "transposed_conv"}


def outputs(folder: Path) -> None:
    x = np.load(folder / "x.npy")
    backend = keras.backend.backend()
    model = UNet(x.shape[1:], **ARGUMENTS)
    initialize(model, 7)
    np.savez(folder / f"{backend}.weights.npz", **{weight.path: weight.numpy() for weight in model.weights})
    np.save(folder / f"{backend}.y.npy", compiled(model)(x))
    model.compile(keras.optimizers.SGD(0.1), "mae", jit_compile=backend == "jax")
    loss = model.fit(x, np.tanh(x), batch_size=len(x), epochs=2, verbose=0, shuffle=False).history["loss"]
    (folder / f"{backend}.loss.json").write_text(json.dumps(loss))


def every_norm_and_residual() -> None:
    ways = itertools.cycle(itertools.product(DOWNSAMPLERS, UPSAMPLERS))
    for norm, residual in itertools.product(NORMS, RESIDUALS):
        down, up = next(ways)
        model = UNet((4, 4, 3), levels=(4, 4), norm=norm, residual=residual, down=down, up=up)
        assert model.output_shape == (None, 4, 4, 3)


if __name__ == "__main__":
    import block_cases
    import original_records

    assert keras.backend.backend() == "jax"
    # Of the seven, these two have every option both ways; compiling each costs seconds.
    for number in (0, 5):
        original_records.check_record(original_records.RECORDS[number])
    for layer, args in block_cases.first_of_each_class().values():
        check_block(layer, **args)
    layer, args = block_cases.SIGNALS["conv"]
    check_block(layer, input_shape=(16, 4), **args)
    every_norm_and_residual()
    outputs(Path(sys.argv[1]))
