"""Checks of layer arguments. Each returns the value to keep, or raises with what came, what was expected and the nearest that works."""

import difflib
import operator
from collections.abc import Iterable

from unetkit.errors import UserError


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing where no known word is near."""
    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def choice(owner: str, name: str, value: str, known: Iterable[str]) -> str:
    known = list(known)
    if value not in known:
        raise UserError(f"{owner}: {name}={value!r} is not one of {', '.join(known)}.{did_you_mean(value, known)}")
    return value


def count(owner: str, name: str, value: int, least: int = 1) -> int:
    """A whole number, `least` or more."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise UserError(f"{owner}: {name}={value!r} must be a whole number, {least} or more.")
    return number


def odd(owner: str, name: str, value: int) -> int:
    """An odd whole number: only an odd kernel has a centre, so that a feature stays at its pixel."""
    number = count(owner, name, value)
    if number % 2 == 0:
        raise UserError(f"{owner}: {name}={number} must be odd; the nearest are {number - 1} and {number + 1}.")
    return number


def share(owner: str, name: str, value: float) -> float:
    """A number from 0 up to, not including, 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise UserError(f"{owner}: {name}={value!r} must be a number from 0 up to, not including, 1.")
    return float(value)


def divisor(owner: str, name: str, value: int, total: int, of: str) -> int:
    """A whole number that divides `total`."""
    number = count(owner, name, value)
    if total % number:
        fits = [n for n in range(1, total + 1) if total % n == 0]
        near = sorted({max((n for n in fits if n < number), default=1), min((n for n in fits if n > number), default=total)})
        raise UserError(f"{owner}: {name}={number} does not divide {total} {of}; the nearest that do: {' and '.join(map(str, near))}.")
    return number
