"""W&B (its real offline mode) and TensorBoard, on both engines: what a stopped, resumed and a failed run leave, read back."""

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PIL import Image
from wandb_file import records

import unetkit
from unetkit import runs
from unetkit.errors import UserError

CHILD = Path(__file__).with_name("logged_run.py")


@pytest.fixture(scope="module", params=["tensorflow", "jax"])
def logged(request, tmp_path_factory):
    """The folder with the runs of a child process on a terminal, where a prompt could ask, and what it said there."""
    folder = tmp_path_factory.mktemp(request.param)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_") and k != "KERAS_BACKEND"}
    environment |= {"HOME": str(folder), "NETRC": str(folder / "none"), "TERM": "xterm"}
    terminal, slave = pty.openpty()
    said = []

    def drain():
        try:
            while part := os.read(terminal, 65536):
                said.append(part)
        except OSError:  # how Linux ends a terminal whose other side is closed
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    command = [sys.executable, str(CHILD), request.param, str(folder)]
    status = subprocess.run(command, env=environment, stdin=slave, stdout=slave, stderr=slave, check=False).returncode
    os.close(slave)
    reader.join()
    os.close(terminal)
    text = b"".join(said).decode(errors="replace")
    assert status == 0 and "failed as it should" in text, text[-3000:]
    return folder, text


def written(run: Path) -> list[list]:
    """The records of each start of a run, oldest first."""
    return [list(records(file)) for file in sorted(run.glob("wandb/offline-run-*/*.wandb"))]


def history(start: list) -> list[dict]:
    rows = []
    for record in start:
        if record.WhichOneof("record_type") == "history":
            rows.append({(item.key or ".".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item})
    return rows


def exits(start: list) -> list[int]:
    return [record.exit.exit_code for record in start if record.WhichOneof("record_type") == "exit"]


def test_without_credentials_it_says_so_and_goes_offline(logged):
    _, said = logged
    assert "no credentials" in said and "wandb sync --id" in said


def test_a_resumed_run_goes_on_under_its_id_and_its_steps_never_go_backwards(logged):
    folder, _ = logged
    starts = written(folder / "run")
    kept = json.loads((folder / "run" / "wandb.json").read_text())
    ids = [record.run.run_id for start in starts for record in start if record.WhichOneof("record_type") == "run"]
    assert len(starts) == 2 and set(ids) == {kept["id"]} and kept["step"] == 12
    rows = [row for start in starts for row in history(start)]
    assert [row["step"] for row in rows] == [3, 6, 9, 12]
    assert [row["_step"] for row in rows] == [3, 6, 9, 12]
    assert [exits(start) for start in starts] == [[143], [0]]
    metrics = [record.metric for record in starts[0] if record.WhichOneof("record_type") == "metric"]
    assert ("*", "step") in [(metric.glob_name, metric.step_metric) for metric in metrics]


def test_the_numbers_are_those_of_the_run_folder(logged):
    folder, _ = logged
    of_step = {}
    for line in runs.read(folder / "run").stats():
        of_step.setdefault(line["step"], {}).update({k: v for k, v in line.items() if v is not None})
    for row in (row for start in written(folder / "run") for row in history(start)):
        for name in ("loss", "val_psnr", "learning_rate", "images"):
            assert row.get(name) == of_step[row["step"]].get(name), (row["step"], name)


def test_the_config_is_plain_numbers_and_words(logged):
    folder, _ = logged
    config = {}
    for record in written(folder / "run")[0]:
        if record.WhichOneof("record_type") == "run":
            config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
    assert config["optimizer"]["learning_rate"] == 0.001 and isinstance(config["optimizer"]["learning_rate"], float)
    assert config["data"]["source"] == {"kind": "emoji", "reverse": False}
    assert config["training"]["batch"] == 8 and config["run"]["device"] == "cpu"


def test_pictures_analysis_and_the_last_checkpoint_are_kept(logged):
    folder, _ = logged
    starts = sorted((folder / "run" / "wandb").glob("offline-run-*"))
    pictures = [picture for start in starts for picture in (start / "files").rglob("media/images/*.png")]
    assert len(pictures) == 2
    with Image.open(pictures[0]) as image:
        assert min(image.size) > 40
    (table,) = (starts[1] / "files").rglob("*.table.json")
    content = json.loads(table.read_text())
    assert dict(zip(content["columns"], content["data"][0], strict=True)) == {
        "asked": "inspect",
        "chip": "v2-8",
        "fits": True,
        "hbm.peak_bytes": 5,
    }
    artifacts = [record.artifact for record in written(folder / "run")[1] if record.WhichOneof("record_type") == "artifact"]
    (model,) = [artifact for artifact in artifacts if artifact.type == "model"]
    stored = {entry.path: entry for entry in model.manifest.contents}
    assert set(stored) == {file.name for file in (folder / "run" / "checkpoints" / "step_00000012").iterdir()}
    assert model.name.endswith("-checkpoint")


def test_a_run_that_raises_is_finished_as_failed(logged):
    folder, _ = logged
    (start,) = written(folder / "failed")
    assert exits(start) == [1] and [row["step"] for row in history(start)] == [3, 6]


def test_tensorboard_reads_scalars_and_pictures_and_no_step_twice(logged):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, _ = logged
    events = EventAccumulator(str(folder / "run" / "tensorboard")).Reload()
    lines = runs.read(folder / "run").stats()
    for name in ("loss", "val_psnr", "input_wait_share"):
        logged_values = [(event.step, event.value) for event in events.Scalars(name)]
        assert logged_values == [(line["step"], pytest.approx(line[name])) for line in lines if name in line], name
    assert [(image.step, min(image.width, image.height) > 40) for image in events.Images("samples")] == [(6, True), (12, True)]


RECIPE = {"name": "tiny", "data": {"source": "emoji", "size": 16}, "model": {"levels": [4, 8], "groups": 2}, "training": {"images": 32}}


@pytest.mark.parametrize(("key", "package"), [("wandb", "wandb"), ("tensorboard", "tensorboardX")])
def test_a_missing_package_matters_only_to_a_recipe_that_asks(tmp_path, monkeypatch, key, package):
    monkeypatch.setitem(sys.modules, package, None)  # Python's own way to say that it cannot be imported
    with pytest.raises(UserError, match=rf"logging\.{key}: {package} is not installed.*unetkit\[{key}\]"):
        unetkit.fit({**RECIPE, "logging": {key: "x" if key == "wandb" else True}}, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
    assert unetkit.fit(RECIPE, tmp_path / "run", progress=False).status == "done"


def test_a_logger_that_fails_is_left_out_and_the_training_goes_on(tmp_path, monkeypatch, capsys):
    from unetkit.logs import tensorboard

    def fail(self, line):
        raise OSError("the server is gone")

    monkeypatch.setattr(tensorboard.TensorBoardLog, "record", fail)
    assert unetkit.fit({**RECIPE, "logging": {"tensorboard": True}}, tmp_path / "run").status == "done"
    assert "TensorBoard: no longer written, OSError: the server is gone" in capsys.readouterr().err
