"""Child process that runs whole trainings on one engine: a line of JSON asks, a line of JSON answers.

A process of its own because Keras has one backend per process; one for many questions because importing takes longest.
"""

import json
import os
import signal
import sys

from unetkit import backend as backends


def stopper(at: int):
    """A callback that sends this process a real SIGTERM when step `at` has been logged."""
    import keras

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch + 1 == at:
                os.kill(os.getpid(), signal.SIGTERM)

    return Stop()


def answer(engine: str, asked: dict):
    backends.select(engine)
    if asked["do"] == "fit":
        import unetkit

        callbacks = [stopper(asked["stop_at"])] if "stop_at" in asked else []
        overrides = [f"backend={engine}", *asked.get("overrides", ())]
        ended = unetkit.fit(asked["recipe"], asked["run"], callbacks, overrides=overrides, progress=False)
        return {"status": ended.status, "step": ended.step, "metrics": ended.metrics}
    if asked["do"] == "evaluate":
        from unetkit.inference.evaluation import evaluate_run

        return evaluate_run(asked["run"], allow_code=True)
    from unetkit.inference import generate

    generate(asked["run"], asked["inputs"], asked["out"], allow_code=True)
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        print("answer " + json.dumps(answer(sys.argv[1], json.loads(line))), flush=True)
