"""The wire format, against the examples of its own documentation and the limits of its types."""

import pytest

from unetkit.tpu import wire


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (150, "9601"),
        (300, "ac02"),
        (-2, "feffffffffffffffff01"),
        (2**63, "80808080808080808001"),
    ],
)
def test_numbers_are_written_in_groups_of_seven_bits(value, encoded):
    assert wire.varint(value).hex() == encoded


def test_fields_carry_their_number_and_type():
    assert wire.integer(1, 150).hex() == "089601"
    assert wire.text(2, "testing").hex() == "120774657374696e67"
    assert wire.message(3, wire.integer(1, 150)).hex() == "1a03089601"
    assert wire.double(4, 1.0).hex() == "21000000000000f03f"
    assert wire.text(16, "é").hex() == "820102c3a9"
