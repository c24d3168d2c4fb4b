"""Recorded programs as the analysis gets them."""

import json
from pathlib import Path

import pytest

from unetkit.tpu import record
from unetkit.tpu.ask import Program
from unetkit.tpu.chips import chip
from unetkit.tpu.lower import Argument, Lowered

RECORDS = Path(__file__).parent / "records"


@pytest.fixture(scope="session")
def recorded():
    """`recorded(name) -> (Lowered, Record, Chip)` of a folder of `records/`."""

    def load(name: str):
        plain = json.loads((RECORDS / name / "lowered.json").read_text())
        where = chip(plain.pop("chip"))
        arguments = {key: Argument(**what) for key, what in plain.pop("arguments").items()}
        program = Program(code=b"", **plain.pop("program"))
        plain |= {"image": tuple(plain["image"]), "layers": tuple(plain["layers"])}
        return Lowered(program=program, arguments=arguments, **plain), record.load(RECORDS / name), where

    return load
