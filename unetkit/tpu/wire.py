"""Protocol buffers on the wire, as far as writing needs them: https://protobuf.dev/programming-guides/encoding/.

A message is the concatenation of its encoded fields, so messages are built by adding bytes; no schema is compiled and no
protobuf package imported (TensorFlow, JAX and XProf each want their own version of it).
"""

from __future__ import annotations

import struct

_VARINT, _FIXED64, _LENGTH = 0, 1, 2


def varint(value: int) -> bytes:
    """A whole number in groups of seven bits, the lowest first; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def integer(field: int, value: int) -> bytes:
    """A field of type int32, int64, uint64, bool or enum."""
    return varint(field << 3 | _VARINT) + varint(value)


def double(field: int, value: float) -> bytes:
    """A field of type double."""
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def message(field: int, value: bytes) -> bytes:
    """A field that holds a message (already encoded) or bytes."""
    return varint(field << 3 | _LENGTH) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """A field of type string."""
    return message(field, value.encode())
