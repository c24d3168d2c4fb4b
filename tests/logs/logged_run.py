"""Child process of the logging tests: a run that is stopped, resumed two checkpoints earlier and finished, and one that fails.

A process of its own because the engine is fixed once per process. Arguments: the engine, and a folder for the runs.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import unetkit
from unetkit import backend
from unetkit.errors import UserError


def main(engine: str, folder: Path) -> None:
    recipe = {
        "name": "tiny",
        "backend": engine,
        "data": {"source": "emoji", "size": 16, "input_channels": 1, "split": {"validation": 0.01, "limit": 24}},
        "model": {"levels": [4, 8], "groups": 2},
        "training": {"images": 96, "batch": 8, "steps_per_call": 3},
        "checkpoint": {"every_images": 16},
        "logging": {
            "every_images": 24,
            "validate_every_images": 48,
            "samples": {"every_images": 48, "count": 2},
            "wandb": {"project": "test", "tags": ["a"]},
            "tensorboard": True,
        },
    }
    backend.select(engine)
    import keras

    class At(keras.callbacks.Callback):
        def __init__(self, step, what):
            super().__init__()
            self.step, self.what = step, what

        def on_train_batch_end(self, batch, logs=None):
            if batch + 1 == self.step:
                self.what()

    def fail():
        raise RuntimeError("a fault in the training")

    stop = At(9, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert unetkit.fit(recipe, folder / "run", callbacks=[stop]).status == "stopped"
    shutil.rmtree(folder / "run" / "checkpoints" / "step_00000009")  # goes on from step 8, though step 9 has been logged
    from unetkit.callbacks.analysis import AnalysisFile

    AnalysisFile(folder / "run").write("inspect", {"chip": "v2-8", "fits": True, "hbm": {"peak_bytes": 5}})
    assert unetkit.fit(recipe, folder / "run").status == "done"
    try:
        unetkit.fit(recipe, folder / "failed", callbacks=[At(6, fail)])
    except RuntimeError:
        print("failed as it should")


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except UserError as error:
        sys.exit(str(error))
