"""Small real image files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

Maker = Callable[..., Path]


@pytest.fixture
def solid(tmp_path: Path) -> Maker:
    """Writes one file of a single colour below tmp_path and returns its path."""

    def make(name: str, colour: Any = (200, 100, 50), mode: str = "RGB", size: tuple[int, int] = (8, 8), **save: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, colour).save(path, **save)
        return path

    return make
