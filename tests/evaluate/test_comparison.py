"""Sets of images: one path for arrays and files, the shipped features, a model of one's own, the command."""

import json

import numpy as np
import pytest
from PIL import Image

from unetkit.cli import main
from unetkit.data.images import write_image
from unetkit.errors import UserError, WorkError
from unetkit.evaluate import Pyramid, compare
from unetkit.evaluate.features import Features, to_pixels
from unetkit.inference.comparing import compare_folders, table


class Colors:
    """Eight numbers of an image's colours."""

    name, version, size = "colors", "1", (8, 8)

    def __call__(self, pixels):
        flat = np.asarray(pixels, np.float64).reshape(len(pixels), -1, 3) / 255
        return np.concatenate([flat.mean(1), flat.std(1), flat.min(1)[:, :1], flat.max(1)[:, :1]], axis=1)


def images(count, *, brighter=0.0, seed=0, side=20):
    rng = np.random.default_rng(seed)
    return [np.clip(rng.uniform(-1, 1, 3) + brighter + rng.normal(0, 0.3, (side, side, 3)), -1.2, 1.2) for _ in range(count)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    for name, made in (("real", images(12)), ("made", images(9, brighter=0.5, seed=1))):
        (folder / name).mkdir()
        for number, image in enumerate(made):
            write_image(folder / name / f"{number:02d}.png", image)
    return folder


@pytest.mark.parametrize("extractor", [Colors(), Pyramid()], ids=lambda e: e.name)
def test_identical_sets_have_no_distance_and_brighter_ones_do(extractor):
    same = compare(images(40), images(40), extractor)
    assert same["kid"] == 0
    assert same["fid"] == pytest.approx(0, abs=1e-3)
    other = compare(images(40), images(30, brighter=1.0, seed=1), extractor)
    assert other["kid"] > 3 * other["kid_standard_error"]
    assert other["images"] == {"real": 40, "made": 30}


def test_arrays_and_the_files_written_from_them_give_the_same_numbers(folders):
    arrays, files = compare(images(12), images(9, brighter=0.5, seed=1)), compare_folders(folders / "real", folders / "made")
    assert arrays == files


def test_the_path_clips_rounds_and_resizes():
    image = np.array([[[-1.4, 0.0, 1.4]]])
    np.testing.assert_array_equal(to_pixels(image, (1, 1)), [[[0, 128, 255]]])
    grey = to_pixels(np.full((9, 6, 1), 0.5), (3, 2))
    assert grey.shape == (3, 2, 3)
    assert np.all(grey == 191)
    bytes_ = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    np.testing.assert_array_equal(to_pixels(bytes_, (2, 2)), bytes_)


def test_resizing_looks_at_every_pixel():
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[::2] = 255
    assert np.abs(to_pixels(stripes, (8, 8)).astype(int) - 127).max() < 40


def test_batches_do_not_change_features():
    one, many = Features(Pyramid(), batch=1), Features(Pyramid(), batch=7)
    for image in images(10):
        one.add(image), many.add(image)
    np.testing.assert_allclose(one.all(), many.all(), rtol=1e-12)
    assert one.all().shape == (10, 108)


def test_the_shipped_features_see_blur():
    sharp = images(30, side=64)
    blurred = [np.asarray(Image.fromarray(to_pixels(x, (16, 16))).resize((64, 64), Image.Resampling.BICUBIC)) for x in sharp]
    figures = compare(sharp, blurred)
    assert figures["kid"] > 5 * figures["kid_standard_error"]


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.full((4, 4, 3), 200.0), UserError, "give bytes from 0 to 255 as uint8"),
        (np.full((4, 4, 3), np.nan), WorkError, "no numbers"),
        (np.zeros((4, 4, 2)), UserError, r"received \(4, 4, 2\)"),
    ],
)
def test_what_is_no_image_is_refused(bad, error, message):
    with pytest.raises(error, match=message):
        compare([bad] * 4, images(4))


def test_a_model_of_ones_own_names_itself_and_its_file(folders, tmp_path):
    import keras

    from unetkit.evaluate import KerasFeatures

    model = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(5, 3, name="conv")], name="mine")
    model.save(tmp_path / "mine.keras")
    figures = compare_folders(folders / "real", folders / "made", features=tmp_path / "mine.keras", values="bytes")
    assert figures["features"]["name"] == "mine.keras"
    assert figures["features"]["version"].startswith("sha256 ")
    assert (figures["features"]["size"], figures["features"]["width"]) == ([16, 16], 5)
    extractor = KerasFeatures(model, "bytes")
    again = compare(images(12), images(9, brighter=0.5, seed=1), extractor)
    assert again["kid"] == pytest.approx(figures["kid"], rel=1e-4)
    mean = extractor(np.zeros((2, 16, 16, 3), np.uint8))
    np.testing.assert_allclose(mean, np.broadcast_to(keras.ops.convert_to_numpy(model.get_layer("conv").bias), (2, 5)), atol=1e-6)
    with pytest.raises(UserError, match="must take"):
        KerasFeatures(keras.Sequential([keras.Input((None, None, 3)), keras.layers.ReLU()]))
    with pytest.raises(UserError, match="there is no file"):
        KerasFeatures(tmp_path / "other.keras")
    with pytest.raises(UserError, match="'byte' is not one of"):
        KerasFeatures(model, "byte")


def test_a_file_that_is_no_model_is_bad_input(tmp_path):
    from unetkit.evaluate import KerasFeatures

    for name in ("empty", "damaged.keras"):
        (tmp_path / name).write_bytes(b"PK")
        with pytest.raises(UserError, match=f"features: .*{name} cannot be read as a Keras model"):
            KerasFeatures(tmp_path / name)


def test_the_command_prints_a_table_or_json(folders, capsys):
    assert main(["compare", str(folders / "real"), str(folders / "made"), "--json", "-"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures == compare_folders(folders / "real", folders / "made")
    assert main(["compare", str(folders / "real"), str(folders / "made")]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == table(figures)
    assert "note: KID of 9 images is uncertain" in printed
    assert "unetkit-pyramid, version 1, 108 numbers of 64 x 64 pixels" in printed


def test_a_folder_that_is_not_there_is_bad_input(folders, tmp_path, capsys):
    assert main(["compare", str(folders / "real"), str(folders / "mades")]) == 2
    assert "mades" in capsys.readouterr().err
    assert main(["compare", str(folders / "real"), str(tmp_path)]) == 2
    assert f"no images in {tmp_path}" in capsys.readouterr().err
