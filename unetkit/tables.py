"""Tables as text of a fixed width, which reads the same in a log as on a terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table


def as_text(table: Table, width: int = 100) -> str:
    """The table without colours, at most `width` characters wide."""
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue().rstrip()
