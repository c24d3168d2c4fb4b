"""Which Python has the compiler, and what is said when none has."""

import importlib.metadata
import platform
import stat
import sys

import pytest

from unetkit.errors import UserError
from unetkit.tpu import environment
from unetkit.tpu.worker import TESTED


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No compiler anywhere, unless a test puts one."""
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    monkeypatch.setattr(environment, "_version", lambda name: None)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


def fake_python(path, versions: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{versions}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_none_says_what_to_do():
    with pytest.raises(environment.CompilerMissing, match=r"jax missing, libtpu missing.*unetkit analysis setup"):
        environment.find_interpreter()


def test_another_platform_is_told_that_there_is_none(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(environment.CompilerMissing, match=r"Linux on x86-64 only.*arithmetic model"):
        environment.find_interpreter()
    with pytest.raises(UserError, match="arm64"):
        environment.setup(print)


def test_this_environment_counts_with_the_tested_versions_only(monkeypatch):
    monkeypatch.setattr(environment, "_version", lambda name: TESTED.get(name, "3.15.1"))
    here = environment.find_interpreter()
    assert (here.python, here.origin, here.tested) == (sys.executable, "this environment", True)
    monkeypatch.setattr(environment, "_version", lambda name: "0.0.10")
    with pytest.raises(environment.CompilerMissing, match=r"libtpu 0\.0\.10"):
        environment.find_interpreter()


def test_the_named_python_comes_first(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "_version", lambda name: TESTED.get(name))
    python = fake_python(tmp_path / "py", '{"jax": "0.10.2", "libtpu": "0.0.53", "keras": null}')
    monkeypatch.setenv(environment.VARIABLE, str(python))
    found = environment.find_interpreter()
    assert (found.python, found.origin, found.tested) == (str(python), environment.VARIABLE, False)
    assert found.compiler == "jax 0.10.2, libtpu 0.0.53"


@pytest.mark.parametrize(
    ("versions", "words"), [('{"jax": "0.10.2", "libtpu": null, "keras": null}', "libtpu None"), ("no Python", "does not run")]
)
def test_a_named_python_that_cannot_serve_is_an_error(monkeypatch, tmp_path, versions, words):
    monkeypatch.setenv(environment.VARIABLE, str(fake_python(tmp_path / "py", versions)))
    with pytest.raises(UserError, match=words):
        environment.find_interpreter()


def test_the_environment_that_setup_made_is_found(tmp_path):
    fake_python(environment.made_environment() / "bin" / "python", '{"jax": "0.10.2", "libtpu": "0.0.52", "keras": "3.15.1"}')
    assert environment.find_interpreter().origin == "unetkit analysis setup"


def test_setup_installs_the_tested_versions_and_this_unetkit(monkeypatch):
    ran = []

    def run(command):
        ran.append(command)
        site = environment.made_environment() / "lib"
        site.mkdir(parents=True, exist_ok=True)
        return str(site)

    monkeypatch.setattr(environment, "_run", run)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["keras>=3.15.1,<3.16", 'jax==0.10.2; extra == "jax"'])
    folder = environment.setup(lambda line: None)
    install = ran[1]
    assert "jax==0.10.2" in install and "libtpu==0.0.52" in install and "keras>=3.15.1,<3.16" in install
    assert not any("extra" in word for word in install)
    assert (folder / "lib" / "unetkit" / "tpu" / "worker.py").exists()
