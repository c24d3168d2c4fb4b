"""Pins, flags and layers of the images, read from the files; `docker/build` and `docker/try` really build and run them."""

import os
import re
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from unetkit.tpu.worker import TESTED

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
FILES = sorted(DOCKER.glob("Dockerfile*"))


def instructions(path: Path) -> list[tuple[str, str]]:
    """(word, rest) of each instruction, continued lines joined and comments left out."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines()]


def values(path: Path, word: str) -> list[str]:
    return [rest for name, rest in instructions(path) if name == word]


def test_there_is_one_for_each_device():
    assert [path.name for path in FILES] == ["Dockerfile", "Dockerfile.tpu", "Dockerfile.tpu-jax"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_image_takes_its_base_keeps_no_cache_and_has_one_entry(path):
    assert values(path, "ARG")[0].startswith("BASE=") and values(path, "FROM") == ["${BASE}"]
    assert values(path, "ENTRYPOINT") == ['["unetkit"]']
    (health,) = values(path, "HEALTHCHECK")
    assert health.endswith('CMD ["unetkit", "doctor", "--quick"]')
    installs = [run for run in values(path, "RUN") if "pip install" in run]
    assert installs
    for run in installs:
        assert run.count("pip install") == run.count("--no-cache-dir"), run
        assert "--mount=type=secret,id=pip,target=/etc/pip.conf" in run
    assert not re.search(r"https?://", path.read_text())


def test_the_cpu_image_does_not_run_as_root():
    assert values(DOCKER / "Dockerfile", "USER") == ["unetkit"]


@pytest.mark.parametrize(("name", "backend"), [("Dockerfile.tpu", "tensorflow"), ("Dockerfile.tpu-jax", "jax")])
def test_tpu_images_miss_a_tpu_and_have_the_compiler_in_an_environment_of_its_own(name, backend):
    text = " ".join(values(DOCKER / name, "ENV"))
    assert f"KERAS_BACKEND={backend}" in text and "UNETKIT_DEVICE=tpu" in text
    assert "UNETKIT_ANALYSIS_PYTHON=/opt/analysis/bin/python" in text
    (analysis,) = [run for run in values(DOCKER / name, "RUN") if "venv /opt/analysis" in run]
    for package, version in TESTED.items():
        assert f"{package}=={version}" in analysis


def test_tensorflow_for_tpus_is_pinned_with_the_libtpu_that_loads():
    text = " ".join(values(DOCKER / "Dockerfile.tpu", "RUN"))
    assert "tensorflow-tpu==2.19.1" in text and "libtpu==0.0.10" in text
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert "tensorflow-tpu==2.19.1" in setup["options.extras_require"]["tpu"]
    assert "jax[tpu]==0.10.2" in setup["options.extras_require"]["tpu-jax"]
    assert "tensorflow-cpu" in setup["options.extras_require"]["tpu-jax"]


def dry_run(*words, **variables):
    environment = {**os.environ, "DRY_RUN": "1", **variables}
    return subprocess.run([DOCKER / "run-tpu-vm.sh", *words], env=environment, capture_output=True, text=True, check=False)


def test_the_run_script_gives_the_container_what_a_tpu_needs_and_no_key_on_its_command_line():
    done = dry_run("train", "a recipe.yaml", IMAGE="mine", WANDB_API_KEY="secret")
    assert done.returncode == 0
    for flag in ("--privileged", "--net=host", "--shm-size=16g", "--stop-timeout 120", "--env WANDB_API_KEY"):
        assert flag in done.stdout, flag
    assert "secret" not in done.stdout and done.stdout.split("mine ")[1].strip() == r"train a\ recipe.yaml"


def test_the_run_script_without_a_command_says_how_it_is_used():
    done = dry_run()
    assert done.returncode == 2 and "usage" in done.stderr


@pytest.mark.parametrize("script", ["build", "try", "run-tpu-vm.sh"])
def test_scripts_are_sound_shell_and_refuse_another_image(script):
    assert subprocess.run(["bash", "-n", DOCKER / script], check=False).returncode == 0
    assert os.access(DOCKER / script, os.X_OK)
