"""Makes the records beside this file again: what the TPU compiler said about small U-Nets of ours. Needs jax and libtpu.

    python tests/tpu/records/make.py [NAME ...]

Each folder holds the compiler's text (gzip), `record.json`, and `lowered.json`: what was lowered, without its code.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import tempfile
from pathlib import Path

from unetkit.recipe import read
from unetkit.tpu import ask, lower
from unetkit.tpu.cache import Cache
from unetkit.tpu.chips import chip

HERE = Path(__file__).parent

RECIPE = """
name: {name}
data: {{source: emoji, size: {size}}}
model: {model}
training: {{batch: {batch}, epochs: 1, accumulate: {accumulate}, precision: {precision}}}
"""

ORIGINAL = "{preset: original, start_ch: 8, depth: 1, upconv: false}"
UNET = "{levels: [8, 16], norm: group, groups: 4, dropout: 0.1}"


def recipe(name: str, model: str, *, size: int = 32, batch: int = 64, accumulate: int = 1, precision: str = "float32"):
    return read(RECIPE.format(name=name, model=model, size=size, batch=batch, accumulate=accumulate, precision=precision))


MADE = {
    "original_v2": (lambda: recipe("original_v2", ORIGINAL), "v2-8", "jax"),
    "original_v2_tensorflow": (lambda: recipe("original_v2_tensorflow", ORIGINAL), "v2-8", "tensorflow"),
    "original_v2_oom": (lambda: recipe("original_v2_oom", ORIGINAL, size=512, batch=2048), "v2-8", "jax"),
    "unet_v5e_accumulate": (lambda: recipe("unet_v5e", UNET, batch=128, accumulate=4, precision="mixed_bfloat16"), "v5e-8", "jax"),
}


def make(name: str) -> None:
    read_recipe, chip_name, engine = MADE[name]
    where, asked = chip(chip_name), read_recipe()
    (lowered,) = lower.lower_recipe(asked, where, [asked.training.batch], engine)
    with tempfile.TemporaryDirectory() as folder:
        record, _ = ask.compile_program(lowered.program, where, cache=Cache(Path(folder)))
        target = HERE / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(record.folder, target)
    (target / "module.hlo.pb.gz").unlink()  # large, and the text says the same
    plain = dataclasses.asdict(lowered)
    plain["program"].pop("code")
    (target / "lowered.json").write_text(json.dumps({"chip": chip_name, **plain}, indent=1) + "\n")
    print(name, record.outcome, sum(p.stat().st_size for p in target.iterdir()), "bytes")


PRODUCTS = {"matmul.bc": 256, "too_large.bc": 1 << 18}


def make_product(name: str) -> None:
    """A rectified matrix product of squares of this side, lowered for one core."""
    import io

    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_traceback_in_locations_limit", 0)
    square = jax.ShapeDtypeStruct((PRODUCTS[name],) * 2, "float32")
    code = io.BytesIO()
    traced = jax.jit(lambda x, w: jax.nn.relu(x @ w)).trace(square, square)
    traced.lower(lowering_platforms=("tpu",)).compiler_ir("stablehlo").operation.write_bytecode(code)
    (HERE / name).write_bytes(code.getvalue())
    print(name, len(code.getvalue()), "bytes")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [*MADE, *PRODUCTS]:
        (make_product if wanted in PRODUCTS else make)(wanted)
