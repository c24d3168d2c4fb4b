"""Does a long run keep its memory? Resident host memory of a training process over its steps, with samples and logs.

    python benchmarks/long_run.py [--steps 2000] [--backend tensorflow|jax] [--json FILE]

A tiny net, but everything that a run does beside the steps: lines of the log, validation, sample pictures, curves, checkpoints,
W&B (offline) and TensorBoard. The first quarter is warm-up. What is compared is the mean of the samples in the second quarter with
that of the last one: a leak of anything per step, per line or per picture shows there. Linux only (/proc).
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

BATCH, SAMPLES = 8, 80
LIMIT = 0.05


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def recipe(steps: int, backend: str) -> dict:
    images = steps * BATCH
    return {
        "name": "long",
        "backend": backend,
        "data": {"source": "emoji", "size": 16, "split": {"limit": 256, "validation": 0.01}, "augment": {"flip": "horizontal"}},
        "model": {"levels": [4, 8], "groups": 2},
        "training": {"images": images, "batch": BATCH, "ema": 0.99},
        "logging": {
            "every_images": images // SAMPLES,
            "validate_every_images": images // 40,
            "samples": {"every_images": images // 40, "count": 4},
            "wandb": {"project": "long", "mode": "offline"},
            "tensorboard": True,
        },
        "checkpoint": {"every_images": images // 20},
    }


def measure(steps: int, backend: str) -> dict:
    import unetkit

    os.environ["KERAS_BACKEND"] = backend
    import keras

    class Watch(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.seen: list[tuple[int, int]] = []

        def on_train_batch_end(self, batch, logs=None):
            self.seen.append((batch + 1, resident_bytes()))

    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        unetkit.fit(recipe(steps, backend), Path(folder) / "run", callbacks=[watch])
    quarter = {n: [size for step, size in watch.seen if n * steps / 4 < step <= (n + 1) * steps / 4] for n in (1, 3)}
    early, late = (sum(sizes) / len(sizes) for sizes in quarter.values())
    return {
        "backend": backend,
        "steps": steps,
        "samples": [[step, round(size / 1e6, 1)] for step, size in watch.seen],
        "after_warm_up_mb": round(early / 1e6, 1),
        "at_the_end_mb": round(late / 1e6, 1),
        "growth": round(late / early - 1, 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--backend", choices=("tensorflow", "jax"), default="tensorflow")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    found = measure(args.steps, args.backend)
    print(
        f"{found['backend']}, {found['steps']} steps: {found['after_warm_up_mb']} MB in the second quarter, "
        f"{found['at_the_end_mb']} MB in the last: {found['growth']:+.1%} (limit {LIMIT:.0%})"
    )
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")
    return 0 if found["growth"] < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
