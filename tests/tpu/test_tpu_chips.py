"""Accelerators by name: sizes, shapes, and errors that name the known."""

import pytest

from unetkit.errors import UserError
from unetkit.tpu.chips import GENERATIONS, GIB, KNOWN, chip


@pytest.mark.parametrize(
    ("name", "topology", "chips", "cores", "replicas"),
    [
        ("v2-8", "v2:2x2", 4, 8, 8),
        ("v3-8", "v3:2x2", 4, 8, 8),
        ("v3-32", "v3:4x4", 16, 32, 32),
        ("v3-2048", "v3:32x32", 1024, 2048, 2048),
        ("v4-8", "v4:2x2x1", 4, 8, 4),
        ("v4-32", "v4:2x2x4", 16, 32, 16),
        ("v4-1536", "v4:8x8x12", 768, 1536, 768),
        ("v5e-8", "v5e:2x4", 8, 8, 8),
        ("v5litepod-16", "v5e:4x4", 16, 16, 16),
        ("v5p-8", "v5p:2x2x1", 4, 8, 4),
        ("v6e-1", "v6e:1x1", 1, 1, 1),
        ("tpu7x-8", "tpu7x:2x2x1", 4, 8, 8),
        ("v4:2x2x4", "v4:2x2x4", 16, 32, 16),
    ],
)
def test_a_name_gives_the_slice(name, topology, chips, cores, replicas):
    found = chip(name)
    assert (found.topology, found.chips, found.cores, found.replicas) == (topology, chips, cores, replicas)


def test_an_alias_is_told_under_the_first_name():
    assert chip("V5litepod-8") == chip("v5e-8")
    assert chip("v5litepod-8").name == "v5e-8"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("v9-8", "known: v2-8, v3-8"),
        ("v5lite-8x", "expected a version and a size"),
        ("v3", "expected a version and a size"),
        ("v3-33", "nearest: v3-4, v3-8, v3-16, v3-32"),
        ("v5litpod-8", "did you mean v5litepod"),
        ("v5e-0", "nearest: v5e-1"),
        ("v5e-100000", "nearest: v5e-32, v5e-64, v5e-128, v5e-256"),
        ("v5p:4x4", "torus of 3 axes"),
    ],
)
def test_an_unknown_name_lists_the_known(name, part):
    with pytest.raises(UserError, match=part):
        chip(name)


def test_megacore_adds_up_what_two_cores_have():
    v4, v5e = chip("v4-8"), chip("v5e-8")
    assert v4.cores_per_replica == 2 and v4.peak_flops == 275e12 and v4.hbm_bytes == int(30.75 * GIB)
    assert v5e.cores_per_replica == 1 and v5e.peak_flops == 197e12


@pytest.mark.parametrize(("name", "links"), [("v5e-1", 0), ("v2-8", 2), ("v5e-8", 3), ("v3-32", 4), ("v4-16", 3), ("v5p-128", 6)])
def test_links_in_use_depend_on_the_axes(name, links):
    assert chip(name).links == links


def test_every_version_has_a_known_machine():
    assert {chip(name).generation.name for name in KNOWN} == set(GENERATIONS)
