"""The three ways a command ends badly. The CLI prints them without a traceback and exits with `status`."""


class UnetkitError(Exception):
    """Base of the errors that a user is meant to read: the message carries the fix."""

    status = 1


class WorkError(UnetkitError):
    """The work itself failed (a loss that is not finite, a disk that is full)."""

    status = 1


class UserError(UnetkitError, ValueError):
    """Bad input: a recipe, a file, an argument."""

    status = 2


class LimitError(UnetkitError):
    """A limit was exceeded, or the program does not fit."""

    status = 3
