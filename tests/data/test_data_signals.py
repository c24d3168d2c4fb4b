"""Signals as data: windows of WAV files, pairs, the built-in tunes; what is checked, split, drawn and refused."""

import numpy as np
import pytest

from unetkit.data import open_dataset
from unetkit.data.check import check
from unetkit.data.sounds import write_sound
from unetkit.errors import UserError
from unetkit.recipe import schema

RATE = 8000
MONO = {"input_channels": 1, "target_channels": 1, "size": 64}
CLEAN = schema.Inpaint(share=0.25)


def ramp(count: int, begin: float = 0.0) -> np.ndarray:
    """A signal whose values tell where in it one is."""
    return begin + np.arange(count) / 4096


@pytest.fixture
def folder(tmp_path):
    """Three files: of 4 windows and a half, of one, and one that is shorter than a window."""
    for name, count in (("long.wav", 288), ("deep/one.WAV", 64), ("short.wav", 40)):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        write_sound(tmp_path / "set" / name.replace("WAV", "wav"), ramp(count, 0.1), RATE, 32)
    (tmp_path / "set" / "deep" / "one.wav").rename(tmp_path / "set" / "deep" / "one.WAV")
    (tmp_path / "set" / "notes.txt").write_text("no sound")
    return tmp_path / "set"


def sound(folder, *, rate=RATE, channel="mean", task=CLEAN, **data):
    return schema.Data(source=schema.Sound(path=str(folder), rate=rate, channel=channel, task=task), **(MONO | data))


def test_files_are_cut_into_windows_and_never_split_between_the_sides(folder):
    dataset = open_dataset(sound(folder, split=schema.Split(validation=0.3)))
    names = dataset.train.names + dataset.validation.names
    assert sorted(names) == ["deep/one.WAV#0", "long.wav#0", "long.wav#1", "long.wav#2", "long.wav#3", "short.wav#0"]
    sides = [{name.partition("#")[0] for name in side.names} for side in (dataset.train, dataset.validation)]
    assert sides[0] & sides[1] == set() and all(sides)
    report = dataset.report
    assert report.lines()[0].startswith("sound: 6 windows of 64 samples (0.008 s), ")
    assert "sizes: 0.005 s to 0.036 s" in report.lines()
    assert "files: 3 32-bit float at 8,000 Hz; modes: 3 mono" in report.lines()
    assert any("shorter than data.size, will stand in silence: 1 (" in line for line in report.lines())
    assert report.ignored == {"not named as WAV": ("notes.txt",)} and report.cache_bytes == 4 * (288 + 64 + 40)


def test_training_moves_windows_over_all_of_a_file_and_validation_does_not(folder):
    split = open_dataset(sound(folder, split=schema.Split(validation=0))).train
    starts = {name: set() for name in split.names}
    with split.batches(6) as batches:
        order = [split._order.index(k) for k in range(600)]
        targets = np.concatenate([next(batches)["target"] for _ in range(100)])
    for number, target in zip(order, targets, strict=True):
        name, first = split.names[number], target[0, 0]
        if name == "short.wav#0":
            assert np.count_nonzero(target) == 40
            starts[name].add(int(np.flatnonzero(target)[0]))
        else:
            starts[name].add(round((float(first) - 0.1) * 4096))
    assert starts["deep/one.WAV#0"] == {0}
    assert min(starts["long.wav#0"]) == 0 and max(starts["long.wav#3"]) == 288 - 64
    assert starts["long.wav#1"] <= set(range(64, 129)) and len(starts["long.wav#1"]) > 20
    assert starts["short.wav#0"] <= set(range(25)) and len(starts["short.wav#0"]) > 10
    for i, name in enumerate(split.names):
        if name.startswith("long"):
            np.testing.assert_allclose(split.pair(i)["target"][:, 0], ramp(64, 0.1 + int(name[-1]) * 64 / 4096), atol=1e-6)


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_a_sample_depends_on_seed_and_number_alone(folder, cache):
    augment = schema.Augment(flip="horizontal", brightness=0.1, contrast=0.3)
    made = [
        open_dataset(sound(folder, task=schema.Denoise(sigma=0.05), augment=augment, workers=workers, cache=cache), seed=seed).train
        for workers, seed in ((1, 3), (2, 3), (1, 4))
    ]
    with made[0].batches(4) as batches:
        first = [next(batches) for _ in range(3)]
    with made[1].batches(4, start=4) as batches:
        np.testing.assert_array_equal(next(batches)["input"], first[1]["input"])
    np.testing.assert_array_equal(made[1].sample(9)["target"], first[2]["target"][1])
    assert (made[2].sample(9)["target"] != first[2]["target"][1]).any()
    assert all(np.abs(batch[name]).max() <= 1 for batch in first for name in batch)
    if cache == "none":
        assert "data.cache: memory (about 1 kB" in made[0].remedy() or "data.cache: memory (about 2 kB" in made[0].remedy()


def test_tasks_make_the_input_of_the_target(folder):
    noisy = open_dataset(sound(folder, task=schema.Denoise(sigma=0.05))).train.sample(0)
    noise = noisy["input"] - noisy["target"]
    assert 0.07 < noise.std() < 0.13, "sigma is a share of the full range, which is 2 wide"
    holed = open_dataset(sound(folder)).train
    sample = holed.sample(next(k for k in range(9) if not holed.names[holed._order.index(k)].startswith("short")))
    gap = np.flatnonzero(sample["input"] != sample["target"])
    assert len(gap) == 16 and gap[-1] - gap[0] == 15 and not sample["input"][gap].any()
    fixed = open_dataset(sound(folder, task=schema.Denoise()), seed=1).validation
    np.testing.assert_array_equal(
        fixed.pair(0)["input"], open_dataset(sound(folder, task=schema.Denoise()), seed=2).validation.pair(0)["input"]
    )


def test_flip_goes_back_in_time_and_levels_change_about_silence(tmp_path):
    write_sound(tmp_path / "a.wav", ramp(64, 0.1), RATE, 32)
    split = open_dataset(sound(tmp_path, task=schema.Denoise(sigma=1e-6), augment=schema.Augment(flip="horizontal", contrast=0.5))).train
    targets = [split.sample(k)["target"][:, 0] for k in range(40)]
    assert {bool(t[0] < t[-1]) for t in targets} == {True, False}
    gains = [t.max() / ramp(64, 0.1)[-1] for t in targets]
    assert 0.49 < min(gains) < 0.7 and 1.3 < max(gains) < 1.51


def test_pairs_of_files_are_cut_at_the_same_places(tmp_path):
    for side, sign in (("in", 1), ("out", -1)):
        (tmp_path / side).mkdir()
        write_sound(tmp_path / side / "a.wav", sign * ramp(300, 0.1), RATE, 32)
    source = schema.SoundPairs(inputs=str(tmp_path / "in"), targets=str(tmp_path / "out"), rate=RATE)
    split = open_dataset(schema.Data(source=source, **MONO)).train
    for k in range(20):
        sample = split.sample(k)
        np.testing.assert_array_equal(sample["input"], -sample["target"])
    write_sound(tmp_path / "out" / "a.wav", ramp(301), RATE)
    write_sound(tmp_path / "out" / "b.wav", ramp(301), RATE)
    with pytest.raises(UserError) as caught:
        open_dataset(schema.Data(source=source, **MONO))
    assert "differ in length" in str(caught.value) and "(301 samples)" in str(caught.value) and "without a partner" in str(caught.value)


def test_bad_files_are_named_or_skipped(folder):
    (folder / "middle.wav").write_bytes(b"RIFF and so on, but no sound")
    write_sound(folder / "stereo.wav", np.zeros((100, 2)), RATE)
    nan = np.full(99, np.nan, "<f4").tobytes()
    good = (folder / "long.wav").read_bytes()
    (folder / "nan.wav").write_bytes(good[:40] + (99 * 4).to_bytes(4, "little") + nan)
    with pytest.raises(UserError, match=r"1 of 6 files cannot be read: .*middle\.wav: not a WAV file"):
        open_dataset(sound(folder))
    report = check(sound(folder))
    assert not report.ok and sorted(path.rpartition("/")[2] for path in report.bad) == ["middle.wav", "nan.wav"]
    assert report.modes == {"mono": 3, "stereo": 1}
    dataset = open_dataset(sound(folder, on_bad="skip", max_bad=0.5))
    assert len(dataset.train) + len(dataset.validation) == 7 and len(dataset.report.bad) == 2
    with pytest.raises(UserError, match=r"is mono; the network takes 2 channels"):
        open_dataset(sound(folder, input_channels=2, target_channels=2))
    with pytest.raises(UserError, match=r"no channel 1"):
        open_dataset(sound(folder, channel=1))


def test_folders_without_sound_say_what_is_there(tmp_path):
    (tmp_path / "a.mp3").write_bytes(b"ID3")
    with pytest.raises(UserError, match=r"no WAV file in .* \(1 not named as WAV: a\.mp3\)"):
        open_dataset(sound(tmp_path))
    with pytest.raises(UserError, match="there is no folder"):
        open_dataset(sound(tmp_path / "nowhere"))


def test_other_rates_are_resampled_and_told(folder, monkeypatch):
    write_sound(folder / "fast.wav", np.sin(np.arange(1000) * 0.05), 2 * RATE)
    report = check(sound(folder))
    assert report.ok and any("resampled to 8,000 Hz: 1 (" in note for note in report.notes)
    data = open_dataset(sound(folder, split=schema.Split(validation=0)))
    target = data.train.pair(data.train.names.index("fast.wav#2"))["target"][:, 0]
    np.testing.assert_allclose(target, np.sin(np.arange(128, 192) * 0.1), atol=1e-2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"fast\.wav has 16,000 samples per second, not 8,000; .*pip install 'unetkit\[sound\]'"):
        open_dataset(sound(folder))


def test_the_built_in_tunes_and_noise(tmp_path):
    tones = schema.Data(source=schema.Tones(count=20, task=schema.Denoise(sigma=0.02)), **(MONO | {"size": 512}))
    dataset = open_dataset(tones)
    assert (len(dataset.train), len(dataset.validation)) == (18, 2)
    targets = np.stack([dataset.train.pair(i)["target"] for i in range(18)])
    assert targets.shape == (18, 512, 1) and targets.std() > 0.05 and len({t.tobytes() for t in targets}) == 18
    assert dataset.report.lines()[0].startswith("tones: 20 windows of 512 samples")
    noise = schema.Data(source=schema.Synthetic(images=20, rank=1), size=512, input_channels=2, target_channels=1)
    sample = open_dataset(noise).train.sample(3)
    assert sample["input"].shape == (512, 2) and sample["target"].shape == (512, 1)
