"""The child process of `trial`: `python -m unetkit.doctor.step ENGINE DEVICE` trains one step and answers with a line of JSON."""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from pathlib import Path

from unetkit.errors import UnetkitError, WorkError
from unetkit.fitting import fit
from unetkit.runs import read

IMAGES = 64  # one global batch; as many replicas can share it


def main(engine: str, device: str) -> None:
    """Trains, and prints `{engine, device, replicas, loss, seconds}`."""
    recipe = {
        "name": "doctor",
        "backend": engine,
        "data": {"source": {"kind": "synthetic", "images": 2 * IMAGES}, "size": 16, "split": {"validation": 0.0}},
        "model": {"levels": [4, 8], "groups": 2},
        "training": {"images": IMAGES, "batch": IMAGES, "steps_per_call": 1},
        "logging": {"every_images": IMAGES, "samples": {"count": 0}},
        "hardware": {"device": device},
    }
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        fit(recipe, Path(folder) / "run", progress=False)
        seconds = time.monotonic() - began
        run = read(Path(folder) / "run")
        loss = run.stats()[0]["loss"]
        facts = json.loads((run.path / "environment.json").read_bytes())
    if loss is None or not math.isfinite(loss):
        raise WorkError(f"the loss of the step is {loss}")
    print(json.dumps({"engine": engine, "device": facts["device"], "replicas": facts["replicas"], "loss": loss, "seconds": seconds}))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except UnetkitError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
