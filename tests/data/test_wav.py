"""WAV files: every kind of sample read with its right value, what is written read back, and what cannot be read named."""

import struct
import wave

import numpy as np
import pytest

from unetkit.data.sounds import read_sound, write_sound
from unetkit.data.wav import BadSound, read_frames, read_header
from unetkit.errors import UserError, WorkError

RATE = 8000


def riff(form: bytes, data: bytes, length: int | None = None, before: bytes = b"") -> bytes:
    chunks = (
        before + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data) if length is None else length) + data
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def form(kind: int, channels: int, bits: int, rate: int = RATE) -> bytes:
    block = channels * bits // 8
    return struct.pack("<HHIIHH", kind, channels, rate, rate * block, block, bits)


SAMPLES = {  # stored bytes of two samples -> their values
    "8-bit": (1, 8, bytes([0, 192]), (-1.0, 0.5)),
    "16-bit": (1, 16, struct.pack("<hh", -32768, 16384), (-1.0, 0.5)),
    "24-bit": (1, 24, (-(2**23)).to_bytes(3, "little", signed=True) + (2**22).to_bytes(3, "little"), (-1.0, 0.5)),
    "32-bit": (1, 32, struct.pack("<ii", -(2**31), 2**30), (-1.0, 0.5)),
    "float": (3, 32, struct.pack("<ff", -0.25, 0.5), (-0.25, 0.5)),
    "float beyond full scale": (3, 32, struct.pack("<ff", -1.5, 0.5), (-1.0, 0.5)),
    "double": (3, 64, struct.pack("<dd", -0.25, 0.5), (-0.25, 0.5)),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("extensible", [False, True])
def test_every_kind_of_sample_has_its_right_value(tmp_path, name, extensible):
    kind, bits, data, values = SAMPLES[name]
    told = form(kind, 1, bits)
    if extensible:
        told = struct.pack("<H", 0xFFFE) + told[2:] + struct.pack("<HHIH", 22, bits, 0, kind) + b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
    (tmp_path / "a.wav").write_bytes(riff(told, data, before=b"LIST\x03\0\0\0abc\0"))
    np.testing.assert_array_equal(read_sound(tmp_path / "a.wav", RATE)[:, 0], np.float32(values))


def test_what_python_itself_writes_is_read(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(2), file.setsampwidth(2), file.setframerate(RATE)
        file.writeframes(struct.pack("<6h", 0, 32767, 8192, -8192, -32768, 1))
    header = read_header(tmp_path / "a.wav")
    assert (header.mode, header.format, header.frames) == ("stereo", "16-bit PCM at 8,000 Hz", 3)
    frames = read_frames(tmp_path / "a.wav", header, 1, 1)
    np.testing.assert_array_equal(frames, [[0.25, -0.25]])
    both = read_sound(tmp_path / "a.wav", RATE, channels=2)
    np.testing.assert_array_equal(read_sound(tmp_path / "a.wav", RATE, channel=1), both[:, 1:])
    np.testing.assert_allclose(read_sound(tmp_path / "a.wav", RATE), both.mean(axis=1, keepdims=True))


@pytest.mark.parametrize("depth", [8, 16, 24, 32])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_what_is_written_is_read_back(tmp_path, depth, channels):
    array = np.random.default_rng(0).uniform(-1, 1, (101, channels)).astype(np.float32)
    array[:2] = [[2.0] * channels, [-2.0] * channels]
    write_sound(tmp_path / "a.wav", array, RATE, depth)
    found = read_sound(tmp_path / "a.wav", RATE, channels=channels)
    assert found.shape == array.shape
    np.testing.assert_allclose(found, array.clip(-1, 1), rtol=0, atol=1e-7 if depth == 32 else 1.0001 * 2.0 ** (1 - depth))
    write_sound(tmp_path / "b.wav", found, RATE, depth)
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()
    if depth != 32:
        with wave.open(str(tmp_path / "a.wav")) as file:
            assert (file.getnframes(), file.getnchannels(), file.getsampwidth(), file.getframerate()) == (101, channels, depth // 8, RATE)


@pytest.mark.parametrize(("other", "length"), [(44100, 4411), (16000, 1601), (6000, 601), (11025, 999)])
def test_a_window_is_what_it_would_be_in_the_whole_resampled_file(tmp_path, other, length):
    from scipy.signal import resample_poly

    from unetkit.data.sounds import length_at, read_window

    signal = np.random.default_rng(0).uniform(-0.5, 0.5, length)
    write_sound(tmp_path / "a.wav", signal, other, 32)
    header = read_header(tmp_path / "a.wav")
    whole = resample_poly(signal.astype(np.float32).astype(float), RATE, other)
    assert length_at(header, RATE) == len(whole)
    np.testing.assert_allclose(read_sound(tmp_path / "a.wav", RATE)[:, 0], whole, atol=1e-6)
    for start, count in ((0, 64), (17, 100), (len(whole) // 2, 128), (len(whole) - 50, 50)):
        window = read_window(tmp_path / "a.wav", header, start, count, RATE, 1, "mean")
        np.testing.assert_allclose(window[:, 0], whole[start : start + count], atol=1e-6)


GOOD = riff(form(1, 1, 16), b"\0\0" * 8)
BAD = {
    "empty": (b"", r"empty file \(0 bytes\)"),
    "text": (b"hello, this is no sound at all", "not a WAV file"),
    "flac": (b"fLaC" + bytes(40), "FLAC; save it as WAV"),
    "64-bit": (b"RF64" + GOOD[4:], "a 64-bit WAV"),
    "cut": (GOOD[:-5], r"truncated: 11 of 16 bytes"),
    "headless": (GOOD[:30], "does not say what its samples are"),
    "no data": (GOOD[:36], "ends before its samples"),
    "no sound": (riff(form(1, 1, 16), b""), r"holds no sound"),
    "mu-law": (riff(form(7, 1, 8), b"\0" * 8), "holds mu-law"),
    "strange": (riff(form(99, 1, 16), b"\0" * 8), "samples of kind 99"),
    "float16": (riff(form(3, 1, 16), b"\0" * 8), "16-bit floating-point"),
    "no channels": (riff(struct.pack("<HHIIHH", 1, 0, RATE, 0, 0, 16), b"\0" * 8), "damaged: 0 channels"),
    "nan": (riff(form(3, 1, 32), struct.pack("<ff", 0.0, float("nan"))), "values that are no numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_named_with_its_reason(tmp_path, name):
    content, reason = BAD[name]
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(BadSound, match=reason) as caught:
        read_sound(tmp_path / "a.wav", RATE)
    assert str(caught.value).startswith(str(tmp_path / "a.wav")) and isinstance(caught.value, UserError)


def test_what_is_missing_or_has_other_channels_is_named(tmp_path):
    with pytest.raises(BadSound, match=r"b\.wav: no such file"):
        read_sound(tmp_path / "b.wav", RATE)
    (tmp_path / "a.wav").write_bytes(GOOD)
    with pytest.raises(BadSound, match="is mono; the network takes 2 channels"):
        read_sound(tmp_path / "a.wav", RATE, channels=2)
    with pytest.raises(BadSound, match="is mono and has no channel 1"):
        read_sound(tmp_path / "a.wav", RATE, channel=1)


def test_a_program_that_did_not_know_the_length_wrote_a_file_that_is_read(tmp_path):
    for length in (0, 0xFFFFFFFF):
        (tmp_path / "a.wav").write_bytes(riff(form(1, 1, 16), b"\0\x40" * 8, length))
        assert read_sound(tmp_path / "a.wav", RATE).tolist() == [[0.5]] * 8


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UserError, match="12 bits per sample cannot be written"):
        write_sound(tmp_path / "a.wav", np.zeros(4), RATE, 12)
    with pytest.raises(UserError, match=r"as \.mp3"):
        write_sound(tmp_path / "a.mp3", np.zeros(4), RATE)
    with pytest.raises(UserError, match="is no signal"):
        write_sound(tmp_path / "a.wav", np.zeros((4, 0)), RATE)
    with pytest.raises(WorkError, match="no numbers"):
        write_sound(tmp_path / "a.wav", np.array([0.0, np.nan]), RATE)
    assert not list(tmp_path.iterdir())
