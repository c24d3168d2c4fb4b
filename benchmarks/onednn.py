"""Images per second of the emoji recipe's step with TensorFlow's oneDNN kernels on and off, each in processes of its own, in turn.

python benchmarks/onednn.py [RECIPE] [--rounds 3]
"""

import argparse
import os
import statistics
import subprocess
import sys

MEASURE = """
import sys, time
import numpy as np
from unetkit import backend, build, recipe as recipes
from unetkit.train.devices import open_devices
from unetkit.train.plan import make_plan
recipe = recipes.read(sys.argv[1])
backend.select("tensorflow")
batch, calls = recipe.training.batch, recipe.training.steps_per_call
rng = np.random.default_rng(0)
side = recipe.data.size
draw = lambda channels: rng.uniform(-1, 1, (batch, side, side, channels)).astype(np.float32)
batches = [{"input": draw(recipe.data.input_channels), "target": draw(recipe.data.target_channels)} for _ in range(calls)]
engine = build.engine(recipe, open_devices(recipe.hardware, "tensorflow"), make_plan(recipe, 1000))
engine.run(batches, 0)
began = time.perf_counter()
for call in range(1, 5):
    engine.run(batches, call * calls)
print(4 * calls * batch / (time.perf_counter() - began))
"""


def rate(recipe: str, on: bool) -> float:
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": str(int(on))}
    done = subprocess.run([sys.executable, "-c", MEASURE, recipe], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="recipes/emoji.yaml")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rates = {on: [] for on in (False, True)}
    for _ in range(args.rounds):
        for on, measured in rates.items():
            measured.append(rate(args.recipe, on))
    off, on = (statistics.median(rates[key]) for key in (False, True))
    print(f"oneDNN off {off:.1f} images/s, on {on:.1f} images/s, ratio {on / off:.2f} (medians of {args.rounds})")


if __name__ == "__main__":
    main()
