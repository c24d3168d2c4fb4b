"""`unetkit bench shapes`: what it measures, and what it says of the figures."""

import json

import pytest
from PIL import Image

from unetkit.bench.shapes import findings
from unetkit.cli import main


def answers(**ratios):
    """Figures in which the first call of each way takes `ratio` times its repeat, but for the first length, which starts up."""

    def rows(ratio):
        return [{"length": n, "first_s": 9.0 if n == 1 else ratio * 0.5, "repeat_s": 0.5} for n in (1, 2, 3)]

    ways = {name: rows(ratio) for name, ratio in ratios.items()}
    return [{"engine": "tensorflow", "device": "cpu", "ways": ways}]


def test_it_names_the_causes_that_the_figures_show():
    said = findings(answers(eager=1.1, **{"tf.function": 8.0, "jax.jit": 20.0, "Tiled (JAX)": 1.0}))
    assert [line.split(":")[0] for line in said] == ["not slow", "slow", "slow", "Tiled (JAX)"]
    assert said[1] == "slow: retracing: tf.function builds a new graph for each shape: the first call takes 8.0 times a repeat"


def test_it_says_so_where_there_is_nothing_to_see():
    said = findings(answers(eager=1.2, **{"tf.function": 1.9}))
    assert said[-1] == "This machine does not show the effect at these sizes."


def test_both_engines_are_measured_and_the_answer_is_written(tmp_path, capsys):
    asked = ["--lengths", "32,48,64", "--channels", "2,4", "--tile", "32", "--repeats", "1"]
    written = ["--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png")]
    assert main(["bench", "shapes", *asked, *written]) == 0
    shown = capsys.readouterr().out
    found = json.loads((tmp_path / "a.json").read_text())
    ways = {name: rows for one in found["engines"] for name, rows in one["ways"].items()}
    assert set(ways) == {"eager", "tf.function", "tf.function, relaxed", "Tiled (TensorFlow)", "jax.jit", "Tiled (JAX)"}
    assert all([row["length"] for row in rows] == [32, 48, 64] and min(row["repeat_s"] for row in rows) > 0 for rows in ways.values())
    assert all(line in shown for line in found["findings"]) and "tensorflow on cpu, jax on cpu" in shown
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (800, 500)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--lengths", "32,50,64"], "lengths: 50 cannot be halved 2 times"),
        (["--lengths", "32,64"], "are too few: three different ones"),
        (["--tile", "30"], "tile: 30 cannot be halved 2 times"),
        (["--lengths", "32,x"], "expected numbers as 96,128,160; got '32,x'"),
        (["--lengths", "32,0"], "expected numbers of 1 or more"),
        (["--repeats", "0"], "--repeats: expected a whole number of 1 or more; got '0'"),
        (["--tile", "-4"], "--tile: expected a whole number of 1 or more; got '-4'"),
        (["--plot", "nowhere/a.png"], "there is no folder nowhere"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(asked, message, capsys):
    assert main(["bench", "shapes", *asked]) == 2
    assert message in capsys.readouterr().err
