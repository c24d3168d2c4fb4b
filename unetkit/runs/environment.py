"""What a run was made with: versions and machine, for `environment.json`. Imports none of the packages it names."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import unetkit

# Several distributions provide one package; the first that is installed is meant.
_PACKAGES = {
    "keras": ("keras",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-tpu"),
    "jax": ("jax",),
    "jaxlib": ("jaxlib",),
    "numpy": ("numpy",),
    "pillow": ("pillow",),
    "grain": ("grain",),
}


def environment() -> dict[str, Any]:
    """Versions of Python, unetkit and the packages that compute (null: not installed), and the machine."""
    return {
        "unetkit": unetkit.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        **{package: _version(distributions) for package, distributions in _PACKAGES.items()},
    }


def _version(distributions: tuple[str, ...]) -> str | None:
    for name in distributions:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return version if name == distributions[0] else f"{version} ({name})"
    return None
