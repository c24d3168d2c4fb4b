"""The doctor on this machine, as it is and with faults: its words, its JSON and its exit status."""

import json

import pytest

from unetkit.cli import main
from unetkit.doctor import examination, examine, trial


def asked(tmp_path, *words):
    status = main(["doctor", "--runs", str(tmp_path / "runs"), "--json", str(tmp_path / "answer.json"), *words])
    content = json.loads((tmp_path / "answer.json").read_text())
    return status, content, {check["name"]: check for check in content["checks"]}


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_machine_that_can_train_is_fit(tmp_path, monkeypatch, capsys, backend):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    status, content, checks = asked(tmp_path, "--backend", backend, "--device", "cpu")
    assert status == 0 and content["ok"], checks
    assert f"{backend} on 1 x cpu: loss 0." in checks["one training step"]["found"]
    assert not (tmp_path / "runs").exists()  # looked at, not made
    assert capsys.readouterr().out.endswith("fit to train\n")


def test_a_tpu_that_is_wanted_and_missing_makes_it_unfit(tmp_path, monkeypatch, capsys):
    status, content, checks = asked(tmp_path, "--device", "tpu", "--quick")
    assert status == 1 and not content["ok"] and checks["TPU"]["state"] == "failed"
    assert "This machine has no TPU" in checks["TPU"]["remedy"] and "one training step" not in checks
    assert "not fit to train: TPU" in capsys.readouterr().out
    monkeypatch.setenv("UNETKIT_DEVICE", "tpu")
    assert asked(tmp_path, "--quick")[0] == 1
    monkeypatch.delenv("UNETKIT_DEVICE")
    assert asked(tmp_path, "--quick")[0] == 0


def test_a_step_that_fails_is_told_with_its_reason():
    done = trial.run("tensorflow", "tpu")
    assert not done.works and "no usable TPU" in done.found


def test_an_engine_that_aborts_is_told_by_its_signal(monkeypatch, tmp_path):
    (tmp_path / "keras.py").write_text("import os; os.abort()")  # as tensorflow-tpu does at its import beside a libtpu of another age
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    done = trial.run("jax", "cpu")
    assert not done.works and "SIGABRT" in done.found


@pytest.mark.parametrize(
    ("versions", "name", "state", "words"),
    [
        ({"tensorflow-tpu": "2.20.0", "libtpu": "0.0.52"}, "libtpu", "failed", "libtpu==0.0.21"),
        ({"tensorflow-tpu": "2.19.1", "libtpu": "0.0.10"}, "libtpu", "ok", ""),
        ({"tensorflow-tpu": "2.19.1"}, "libtpu", "failed", "libtpu==0.0.10"),
        ({"tensorflow": "2.21.0", "tensorflow-cpu": "2.21.0"}, "engine", "failed", "pip uninstall tensorflow tensorflow-cpu"),
    ],
)
def test_distributions_that_do_not_fit_together_are_named(tmp_path, monkeypatch, versions, name, state, words):
    """Such environments cannot be installed beside this one, so their versions are set by hand."""
    monkeypatch.setattr(examination, "_version", versions.get)
    checks = {check.name: check for check in examine("cpu", "tensorflow", tmp_path, quick=True)}
    assert checks[name].state == state and words in checks[name].remedy


def test_no_engine_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(examination, "_installed", lambda engine: False)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    checks = {check.name: check for check in examine("cpu", None, tmp_path)}
    assert checks["engine"].state == "failed" and "pip install" in checks["engine"].remedy and "one training step" not in checks


def test_a_folder_that_cannot_be_written_and_a_full_disk_are_failures(tmp_path, monkeypatch):
    def refuse(**options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(examination.tempfile, "NamedTemporaryFile", refuse)  # tests run as root, whom no mode keeps out
    monkeypatch.setattr(examination, "LEAST_DISK", 1e18)
    checks = {check.name: check for check in examine("cpu", "tensorflow", tmp_path / "runs", quick=True)}
    assert checks["run folders"].state == "failed" and "Permission denied" in checks["run folders"].found
    assert str(tmp_path) in checks["run folders"].remedy and checks["disk"].state == "failed"


def test_memory_and_a_containers_limit_are_read(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal:  100 kB\nMemAvailable:    50 kB\n")
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "limit").write_text("4096\n")
    assert examination.available_memory(tmp_path / "meminfo") == 51200
    assert examination.memory_limit(tmp_path / "max") is None and examination.memory_limit(tmp_path / "limit") == 4096
    assert examination.available_memory(tmp_path / "none") is None
