"""Every mode and format with hand values; what a file is, is told by its content."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from unetkit.data import open_dataset, png16
from unetkit.data.decode import BadImage, read_header, read_picture
from unetkit.data.images import read_image
from unetkit.recipe import schema

RGB = (200, 100, 50)
GREY = 0.299 * 200 + 0.587 * 100 + 0.114 * 50  # 124.2
WHITE, RED = (255, 255, 255), (255, 0, 0)


def on(background, alpha=128):
    return tuple(c * alpha / 255 + b * (1 - alpha / 255) for c, b in zip(RGB, background, strict=True))


HALF_GREY = 0.299 * on(WHITE)[0] + 0.587 * on(WHITE)[1] + 0.114 * on(WHITE)[2]


def values(path, channels, background=WHITE):
    """The one colour of a picture in 0..255, after checking that it has but one."""
    array = read_image(path, channels, background)
    assert array.dtype == np.float32
    assert array.shape[-1] == channels
    assert np.ptp(array, axis=(0, 1)).max() < 0.02
    return (array.mean(axis=(0, 1)) + 1) * 127.5


def palette(path, transparent):
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, *RGB])
    image.save(path, **({"transparency": bytes([255, 128])} if transparent else {}))


def deep(path, *channels):
    path.write_bytes(png16.encode(np.full((4, 4, len(channels)), channels, np.uint16)))


MODES = {
    # name: how it is written, then RGB, grey and RGBA by hand
    "1": (lambda p: Image.new("1", (4, 4), 1).save(p), WHITE, 255, (*WHITE, 255)),
    "L": (lambda p: Image.new("L", (4, 4), 77).save(p), (77, 77, 77), 77, (77, 77, 77, 255)),
    "LA": (lambda p: Image.new("LA", (4, 4), (77, 0)).save(p), WHITE, 255, (77, 77, 77, 0)),
    "P": (lambda p: palette(p, False), RGB, GREY, (*RGB, 255)),
    "P with transparency": (lambda p: palette(p, True), on(WHITE), HALF_GREY, (*RGB, 128)),
    "RGB": (lambda p: Image.new("RGB", (4, 4), RGB).save(p), RGB, GREY, (*RGB, 255)),
    "RGB with a transparent colour": (lambda p: Image.new("RGB", (4, 4), RGB).save(p, transparency=RGB), WHITE, 255, (*RGB, 0)),
    "RGBA": (lambda p: Image.new("RGBA", (4, 4), (*RGB, 128)).save(p), on(WHITE), HALF_GREY, (*RGB, 128)),
    "16-bit grey": (lambda p: deep(p, 32768), (127.502,) * 3, 127.502, (127.502,) * 3 + (255,)),
    "16-bit grey and alpha": (lambda p: deep(p, 32768, 0), WHITE, 255, (127.502,) * 3 + (0,)),
    "16-bit RGB": (lambda p: deep(p, 65535, 32768, 257), (255, 127.502, 1), 151.2, (255, 127.502, 1, 255)),
    "16-bit RGBA": (lambda p: deep(p, 65535, 0, 0, 32768), (255, 127.498, 127.498), 165.6, (255, 0, 0, 127.502)),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_png_of_every_mode(tmp_path, mode):
    write, rgb, grey, rgba = MODES[mode]
    write(tmp_path / "a.png")
    assert values(tmp_path / "a.png", 3) == pytest.approx(rgb, abs=1)
    assert values(tmp_path / "a.png", 1) == pytest.approx([grey], abs=1)
    assert values(tmp_path / "a.png", 4) == pytest.approx(rgba, abs=1)


def test_all_modes_in_one_folder_in_one_batch(tmp_path):
    folder = tmp_path / "all"
    folder.mkdir()
    for number, (write, *_) in enumerate(MODES.values()):
        write(folder / f"{number:02}.png")
    Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(folder / "99.jpg", quality=95)
    expected = [rgb for _, rgb, _, _ in MODES.values()] + [(255, 0, 0)]
    source = schema.Folder(path=str(folder), task=schema.Denoise())
    data = schema.Data(source=source, size=4, split=schema.Split(validation=0))
    for batch, real in open_dataset(data).train.every(len(expected)):
        assert real == len(expected)
        assert (batch["target"].mean(axis=(1, 2)) + 1) * 127.5 == pytest.approx(np.array(expected), abs=3)


def test_the_background_shows_through(tmp_path):
    Image.new("RGBA", (4, 4), (*RGB, 128)).save(tmp_path / "a.png")
    assert values(tmp_path / "a.png", 3, RED) == pytest.approx(on(RED), abs=1)
    deep(tmp_path / "b.png", 0, 0, 0, 0)
    assert values(tmp_path / "b.png", 3, RED) == pytest.approx(RED, abs=0.01)


def test_16_bits_keep_their_precision(tmp_path):
    deep(tmp_path / "grey.png", 32768)
    deep(tmp_path / "rgb.png", 65535, 32768, 1)
    assert values(tmp_path / "grey.png", 1)[0] / 255 == pytest.approx(0.5000076, abs=1e-6)
    assert values(tmp_path / "rgb.png", 3) / 255 == pytest.approx([1, 32768 / 65535, 1 / 65535], abs=1e-6)


@pytest.mark.parametrize("byte_order", ["<u2", ">u2"])
def test_16_bit_grey_tiff(tmp_path, byte_order):
    Image.fromarray(np.full((4, 4), 1000, byte_order)).save(tmp_path / "a.tif")
    assert values(tmp_path / "a.tif", 1)[0] == pytest.approx(1000 / 257, abs=0.01)


def tiff(path, pixels, photometric, bits, planar=1):
    """An uncompressed little-endian TIFF, for kinds that Pillow reads but does not write."""
    height, width = pixels.shape[:2] if planar == 1 else pixels.shape[1:]
    count = pixels.size // (height * width)
    data = pixels.astype("<u2").tobytes()
    entries = [(256, 3, 1, width), (257, 3, 1, height), (258, 3, count, bits), (259, 3, 1, 1), (262, 3, 1, photometric)]
    strips = count if planar == 2 else 1
    head = 8 + 2 + 12 * 10 + 4
    blob = struct.pack(f"<{count}H", *[bits] * count)
    offsets = [head + 64 + strip * len(data) // strips for strip in range(strips)]
    blob += struct.pack(f"<{strips}I", *offsets) + struct.pack(f"<{strips}I", *[len(data) // strips] * strips)
    at = head + 2 * count

    def entry(tag, kind, number, value, place):
        size = {3: 2, 4: 4}[kind] * number
        return struct.pack("<HHI", tag, kind, number) + (struct.pack("<I", value) if size <= 4 else struct.pack("<I", place))

    table = b"".join(entry(*e, head) for e in entries)
    table += entry(273, 4, strips, offsets[0], at) + entry(277, 3, 1, count, 0) + entry(278, 3, 1, height, 0)
    table += entry(279, 4, strips, len(data) // strips, at + 4 * strips) + entry(284, 3, 1, planar, 0)
    path.write_bytes(b"II*\x00" + struct.pack("<IH", 8, 10) + table + bytes(4) + blob.ljust(64, b"\0") + data)


def test_16_bit_grey_tiff_where_zero_is_white(tmp_path):
    tiff(tmp_path / "a.tif", np.full((4, 4), 1000), photometric=0, bits=16)
    assert values(tmp_path / "a.tif", 1)[0] == pytest.approx(255 - 1000 / 257, abs=0.01)


def test_16_bit_colour_tiff_is_read_with_8_bits(tmp_path):
    tiff(tmp_path / "a.tif", np.tile(np.array([65535, 32768, 300]), (4, 4, 1)), photometric=2, bits=16)
    assert values(tmp_path / "a.tif", 3) == pytest.approx([255, 127.5, 300 / 257], abs=1)
    header = read_header(tmp_path / "a.tif")
    assert (header.bits, header.stored_bits) == (8, 16)


def test_16_bit_colour_tiff_in_planes_is_refused(tmp_path):
    tiff(tmp_path / "a.tif", np.full((3, 4, 4), 1000), photometric=2, bits=16, planar=2)
    with pytest.raises(BadImage, match=r"a\.tif.*one plane per channel"):
        read_image(tmp_path / "a.tif")


@pytest.mark.parametrize(("mode", "words"), [("F", "floating-point"), ("I", "32-bit integers")])
def test_files_without_a_known_range_are_refused_by_name(tmp_path, mode, words):
    Image.new(mode, (4, 4), 1).save(tmp_path / "a.tif")
    with pytest.raises(BadImage, match=rf"a\.tif: holds .*{words}.*8 or 16 bits"):
        read_image(tmp_path / "a.tif")


def test_cmyk_jpeg_has_the_right_polarity(tmp_path):
    Image.new("CMYK", (8, 8), (255, 0, 0, 0)).save(tmp_path / "cyan.jpg", quality=95)
    assert b"Adobe" in (tmp_path / "cyan.jpg").read_bytes()
    assert values(tmp_path / "cyan.jpg", 3) == pytest.approx([0, 255, 255], abs=3)
    assert values(tmp_path / "cyan.jpg", 1) == pytest.approx([178.8], abs=3)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.bmp", "a.tif", "a.gif"])
def test_every_format(tmp_path, name):
    Image.new("RGB", (8, 8), RGB).save(tmp_path / name, **({"lossless": True} if name.endswith("webp") else {}))
    assert values(tmp_path / name, 3) == pytest.approx(RGB, abs=3)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_counts(tmp_path, kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, (0, 0, 255))]
    frames[0].save(tmp_path / "a.gif", format=kind, save_all=True, append_images=frames[1:])
    assert values(tmp_path / "a.gif", 3) == pytest.approx(RED, abs=3)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_the_content_says_what_a_file_is(tmp_path, kind):
    Image.new("RGB", (8, 8), RED).save(tmp_path / "a.jpg", format=kind)
    assert read_header(tmp_path / "a.jpg").format == kind
    assert values(tmp_path / "a.jpg", 3) == pytest.approx(RED, abs=3)


def test_a_jpeg_of_several_pictures_as_phones_write_it(tmp_path):
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, (0, 0, 255))]
    frames[0].save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=frames[1:])
    assert values(tmp_path / "a.jpg", 3) == pytest.approx(RED, abs=3)


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path, orientation, ending):
    upright = np.zeros((16, 24), np.uint8)
    upright[:8, :16] = 255  # 2 x 3 blocks: white, white, black above three black ones
    # What a camera stores so that, turned as the orientation says, it is upright (EXIF 2.3, 4.6.4)
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / f"a.{ending}", exif=exif)
    header = read_header(tmp_path / f"a.{ending}")
    assert (header.width, header.height) == (24, 16)
    assert read_image(tmp_path / f"a.{ending}", 1)[..., 0] == pytest.approx(upright / 127.5 - 1, abs=0.1)


def test_exif_orientation_of_16_bit_png(tmp_path):
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(np.array([[0, 65535]], np.uint16)).save(tmp_path / "a.png", exif=exif)
    assert read_image(tmp_path / "a.png", 1)[..., 0].tolist() == [[-1], [1]]


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_damaged_exif_block_is_no_reason_to_refuse(tmp_path):
    file = io.BytesIO()
    Image.new("RGB", (8, 8), RED).save(file, format="JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x07\0\0\0\x01\xff\xff\xff\xff")
    (tmp_path / "a.jpg").write_bytes(file.getvalue())
    assert values(tmp_path / "a.jpg", 3) == pytest.approx(RED, abs=3)


def broken(tmp_path):
    sound = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(sound, format="JPEG")
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "half.jpg").write_bytes(sound.getvalue()[: len(sound.getvalue()) // 2])
    (tmp_path / "text.png").write_text("this is not a picture")
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")


@pytest.mark.parametrize(
    ("name", "words"),
    [("empty.jpg", "empty file"), ("half.jpg", "truncated"), ("text.png", "not an image"), ("link.png", "link to nothing")],
)
def test_a_broken_file_is_named_with_its_reason(tmp_path, name, words):
    broken(tmp_path)
    with pytest.raises(BadImage, match=words) as caught:
        read_image(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize("ending", ["png", "webp", "bmp", "tif", "gif"])
def test_a_truncated_file_of_any_format_is_an_error(tmp_path, ending):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    path = tmp_path / f"a.{ending}"
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(BadImage, match=f"a.{ending}"):
        read_image(path)


def test_too_many_pixels_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    Image.new("L", (100, 100)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(BadImage, match="more pixels than is safe"):
        read_image(tmp_path / "a.png")


def test_a_large_jpeg_is_decoded_smaller_where_few_pixels_are_kept(tmp_path):
    rows, columns = np.mgrid[0:256, 0:512]
    pixels = np.stack([rows / 2, columns / 4, (rows + columns) / 6], axis=-1)
    Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "a.jpg", quality=95)
    sizes = {kept: read_picture(tmp_path / "a.jpg", lambda w, h, kept=kept: w / kept).raw.size for kept in (512, 256, 171, 170, 64, 1)}
    assert sizes == {512: (512, 256), 256: (512, 256), 171: (512, 256), 170: (256, 128), 64: (128, 64), 1: (64, 32)}
    assert read_picture(tmp_path / "a.jpg", lambda w, h: 8.0).header.width == 512


def test_a_jpeg_whose_sides_do_not_divide_is_decoded_in_full(tmp_path):
    Image.new("RGB", (250, 251)).save(tmp_path / "a.jpg")
    assert read_picture(tmp_path / "a.jpg", lambda w, h: 100.0).raw.size == (250, 251)


def written(kind, **save):
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (24, 20, 3), np.uint8)
    Image.fromarray(noise).save(file, format=kind, **save)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PNG16", "LZW"])
def test_whatever_the_damage_a_file_is_read_or_named(tmp_path, kind):
    random = np.random.default_rng(1)
    if kind == "PNG16":
        sound = png16.encode(random.integers(0, 65536, (24, 20, 3)).astype(np.uint16))
    else:
        sound = written("TIFF", compression="tiff_lzw") if kind == "LZW" else written(kind)
    path = tmp_path / "a.bin"
    refused = 0
    for number in range(60):
        damaged = bytearray(sound[: int(random.integers(1, len(sound)))] if number % 3 == 0 else sound)
        for _ in range(number % 4):
            damaged[int(random.integers(len(damaged)))] = int(random.integers(256))
        path.write_bytes(damaged)
        try:
            assert np.abs(read_image(path)).max() <= 1
        except BadImage as error:
            refused += 1
            assert str(path) in str(error)
    assert refused >= 10
