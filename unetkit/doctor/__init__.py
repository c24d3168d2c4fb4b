"""`unetkit doctor`: is this machine, and what is installed on it, fit to train? Loads no engine: a child process tries that."""

from unetkit.doctor.examination import Check, examine, healthy

__all__ = ["Check", "examine", "healthy"]
