"""Reads what an offline W&B run has written: records of protobuf in a log of LevelDB's format (doc/log_format.md of LevelDB)."""

import struct
from collections.abc import Iterator
from pathlib import Path

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEAD, FILE_HEAD = 32768, 7, 7
FULL, FIRST, LAST = 1, 2, 4


def records(path: Path) -> Iterator[Record]:
    """The records of a `.wandb` file in order."""
    content, at, parts = path.read_bytes(), FILE_HEAD, b""
    assert content[:4] == b":W&B"
    while at + HEAD <= len(content):
        left = BLOCK - at % BLOCK
        if left < HEAD:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + HEAD])
        part = content[at + HEAD : at + HEAD + length]
        at += HEAD + length
        parts = part if kind in (FULL, FIRST) else parts + part
        if kind in (FULL, LAST):
            record = Record()
            record.ParseFromString(parts)
            yield record
