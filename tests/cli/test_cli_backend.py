"""The backend that a recipe names, against the environment and a Keras that is already there."""

import os
import subprocess
import sys
import types

import pytest

from unetkit import backend
from unetkit.errors import UserError


def without_keras(monkeypatch):
    for name in [name for name in sys.modules if name == "keras" or name.startswith("keras.")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(("asked", "other"), [("jax", "tensorflow"), ("tensorflow", "jax")])
def test_a_keras_that_is_loaded_with_another_backend_is_an_error_naming_both(monkeypatch, asked, other):
    keras = types.ModuleType("keras")
    keras.backend = types.SimpleNamespace(backend=lambda: other)
    monkeypatch.setitem(sys.modules, "keras", keras)
    with pytest.raises(UserError, match=f"recipe says {asked}.*already loaded with {other}"):
        backend.select(asked)
    backend.select(other)


def test_another_backend_in_the_environment_is_an_error_naming_both(monkeypatch):
    without_keras(monkeypatch)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(UserError, match=r"recipe says tensorflow.*KERAS_BACKEND=jax"):
        backend.select("tensorflow")


def test_a_backend_that_is_not_installed_is_told_with_the_extra_that_has_it(monkeypatch):
    without_keras(monkeypatch)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setitem(backend.MODULES, "jax", "no_such_module")
    with pytest.raises(UserError, match=r"jax is not installed.*unetkit\[jax\]"):
        backend.select("jax")


def test_an_import_keeps_its_notes_to_itself_and_tells_everything_else(monkeypatch, tmp_path, capfd):
    lines = [
        "WARNING: All log messages before absl::InitializeLog() is called ...",
        "port.cc:153] oneDNN custom operations are on.",
        "disk on fire",
    ]
    (tmp_path / "noisy_module.py").write_text(
        f"import os\nos.write(2, {chr(10).join(lines).encode()!r} + b'\\n')\nraise ImportError('broken')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="broken"):
        backend._import_without_notes("noisy_module")
    assert capfd.readouterr().err == "disk on fire\n"


@pytest.mark.parametrize("name", ["tensorflow", "jax"])
def test_the_choice_reaches_keras_without_a_word(name):
    code = f"from unetkit import backend; backend.select({name!r}); import keras; print(keras.backend.backend())"
    alone = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=alone)
    assert (done.stdout, done.stderr) == (f"{name}\n", "")


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        ((), {"TPU_SKIP_MDS_QUERY"}),
        (("vfio/vfio",), {"TPU_SKIP_MDS_QUERY"}),
        (("accel0",), set()),
        (("vfio/vfio", "vfio/0"), {"PJRT_DEVICE", "NEXT_PLUGGABLE_DEVICE_USE_C_API", "TF_XLA_FLAGS", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"}),
    ],
)
def test_tensorflow_for_tpus_finds_its_runtime_asked_for_only_where_the_chips_are(tmp_path, monkeypatch, devices, names):
    """No TPU can be had here, so its device files are empty ones in another root."""
    assert backend._tpu_environment({}, tmp_path) == {}  # another TensorFlow is installed
    monkeypatch.setattr(backend, "_is_installed", lambda distribution: True)
    for device in devices:
        (tmp_path / "dev" / device).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dev" / device).touch()
    assert backend._tpu_environment({}, tmp_path).keys() == names
    assert "PJRT_DEVICE" not in backend._tpu_environment({"PJRT_DEVICE": "mine"}, tmp_path)
