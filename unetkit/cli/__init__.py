"""The command line. Each command imports its room only when it runs, so that `--help` and `recipe check` start at once."""

from unetkit.cli.app import main

__all__ = ["main"]
