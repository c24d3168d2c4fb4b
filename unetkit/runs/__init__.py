"""The run folder as a contract: what a training run leaves, how it is written, resumed and read. Needs no Keras."""

from unetkit.runs.changes import Change, compare
from unetkit.runs.checkpoints import Checkpoint
from unetkit.runs.code import code_names, require_code_allowed
from unetkit.runs.folder import RunFolder
from unetkit.runs.follower import Follower
from unetkit.runs.run import Run, is_run, read
from unetkit.runs.signals import StopSignals
from unetkit.runs.stats import Stats, plain, read_stats

__all__ = [
    "Change",
    "Checkpoint",
    "Follower",
    "Run",
    "RunFolder",
    "Stats",
    "StopSignals",
    "code_names",
    "compare",
    "is_run",
    "plain",
    "read",
    "read_stats",
    "require_code_allowed",
]
