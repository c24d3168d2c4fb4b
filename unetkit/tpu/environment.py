"""Which Python has the TPU compiler: this one, the one that `UNETKIT_ANALYSIS_PYTHON` names, or the one we made.

The compiler is PyPI's `libtpu` (Google's, under its own terms) driven by `jax`. Training environments often hold another
libtpu than the analysis wants, and one process can hold only one: hence a second environment.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from unetkit.errors import UserError, WorkError
from unetkit.files import cache_root
from unetkit.tpu.worker import TESTED

VARIABLE = "UNETKIT_ANALYSIS_PYTHON"

_ASK = (
    "import importlib.metadata as m, json\n"
    "def v(n):\n"
    "    try: return m.version(n)\n"
    "    except m.PackageNotFoundError: return None\n"
    "print(json.dumps({n: v(n) for n in ('jax', 'libtpu', 'keras')}))"
)


class CompilerMissing(UserError):
    """No Python here has the compiler. The arithmetic model can still answer."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that has the compiler. `origin` says how it was found."""

    python: str
    versions: dict[str, str]
    origin: str

    @property
    def compiler(self) -> str:
        """What decides the compiler's output, for keys and reports."""
        return f"jax {self.versions['jax']}, libtpu {self.versions['libtpu']}"

    @property
    def tested(self) -> bool:
        return all(self.versions[name] == version for name, version in TESTED.items())


def made_environment() -> Path:
    """The folder of the environment that `unetkit analysis setup` makes."""
    return cache_root() / "analysis-environment"


def _made_python() -> Path:
    return made_environment() / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def find_interpreter() -> Interpreter:
    """The Python to ask, the named one first, then this one, then the one made by `unetkit analysis setup`.

    This one counts only with the tested versions: a training environment's libtpu is another.

    Raises:
        CompilerMissing: none has jax and libtpu; says what to do.
        UserError: `UNETKIT_ANALYSIS_PYTHON` names one that does not work.
    """
    if named := os.environ.get(VARIABLE):
        versions = versions_in(named)
        if not (versions and versions["jax"] and versions["libtpu"]):
            has = "does not run" if versions is None else f"has jax {versions['jax']} and libtpu {versions['libtpu']}"
            raise UserError(f"{VARIABLE}={named}: this Python {has}; it needs {_wanted()}. Unset it, or install them there.")
        return Interpreter(named, versions, VARIABLE)
    here = {name: _version(name) for name in TESTED}
    if here == TESTED:
        return Interpreter(sys.executable, {**here, "keras": _version("keras")}, "this environment")
    if _made_python().exists() and (versions := versions_in(str(_made_python()))) and versions["jax"] and versions["libtpu"]:
        return Interpreter(str(_made_python()), versions, "unetkit analysis setup")
    raise CompilerMissing(_missing(here))


def versions_in(python: str) -> dict[str, str | None] | None:
    """Versions of jax, libtpu and keras that a Python has; None when it does not run."""
    try:
        done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def setup(report) -> Path:
    """Makes the second environment: a venv with the tested versions, and this unetkit linked into it. Returns its folder.

    Args:
        report: called with a line of text for each stage.

    Raises:
        UserError: this platform has no libtpu.
        WorkError: pip failed; carries its words.
    """
    if not _supported():
        raise UserError(f"libtpu exists for Linux on x86-64 only; this is {platform.system()} on {platform.machine()}. {_MODEL}")
    folder = made_environment()
    report(f"making {folder}")
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    wanted = [*(f"{n}=={v}" for n, v in TESTED.items()), *_own_requirements()]
    report(f"installing {', '.join(wanted)} (libtpu is Google's, under its own terms)")
    _run([str(_made_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted])
    site = Path(_run([str(_made_python()), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    (site / "unetkit").symlink_to(Path(__file__).resolve().parents[1], target_is_directory=True)
    return folder


def _own_requirements() -> list[str]:
    """What unetkit itself needs, extras apart, so that the environment can lower a recipe's step too."""
    return [r for r in importlib.metadata.requires("unetkit") or [] if "extra ==" not in r]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkError(f"{' '.join(command[:4])} ... failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _supported() -> bool:
    return platform.system() == "Linux" and platform.machine() == "x86_64"


def _wanted() -> str:
    return " and ".join(f"{n} {v}" for n, v in TESTED.items())


_MODEL = "Without it an arithmetic model answers, and says so."


def _missing(here: dict[str, str | None]) -> str:
    if not _supported():
        return f"The TPU compiler (libtpu) exists for Linux on x86-64 only. {_MODEL}"
    found = ", ".join(f"{n} {v or 'missing'}" for n, v in here.items())
    return (
        f"The TPU compiler is not here: it needs {_wanted()}; this environment has {found}. "
        f"Run `unetkit analysis setup` for an environment beside this one, or pip install 'unetkit[analysis]'. {_MODEL}"
    )
