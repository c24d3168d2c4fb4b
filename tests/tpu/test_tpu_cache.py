"""Answers on disk: whole or absent, one maker at a time, bounded, clearable."""

import os
import subprocess
import sys
import threading

import pytest

from unetkit.files import cache_root
from unetkit.tpu.cache import Cache


def put(cache: Cache, key: str, size: int = 10) -> None:
    with cache.making(key):
        cache.put(key, lambda folder: (folder / "text").write_bytes(b"x" * size))


def test_an_entry_is_found_again(tmp_path):
    cache = Cache(tmp_path)
    assert cache.find("a") is None
    put(cache, "a")
    assert (cache.find("a") / "text").read_bytes() == b"x" * 10
    assert (cache.usage().entries, cache.usage().size_bytes) == (1, 10)


def test_a_failure_while_making_leaves_nothing(tmp_path):
    cache = Cache(tmp_path)

    def fail(folder):
        (folder / "text").write_text("half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        cache.put("a", fail)
    assert cache.find("a") is None
    assert not list(tmp_path.glob(".making-*"))


def test_the_longest_unused_goes_first_and_the_newest_stays(tmp_path):
    cache = Cache(tmp_path, limit_bytes=25)
    for age, key in enumerate(("a", "b")):
        put(cache, key)
        os.utime(tmp_path / key, (100 + age, 100 + age))
    cache.find("a")  # used now
    put(cache, "c")
    assert [k for k in "abc" if cache.find(k)] == ["a", "c"]
    put(cache, "large", 100)
    assert [k for k in ("a", "c", "large") if cache.find(k)] == ["large"]


def test_clear_drops_every_entry_and_what_killed_processes_left(tmp_path):
    cache = Cache(tmp_path)
    put(cache, "a")
    old, young = tmp_path / ".making-old", tmp_path / ".making-young"
    old.mkdir(), young.mkdir()
    os.utime(old, (0, 0))
    assert cache.clear().entries == 1
    assert cache.usage().entries == 0
    assert not old.exists() and young.exists()


def test_two_processes_make_an_entry_once(tmp_path):
    script = (
        "import sys, time, pathlib\n"
        "from unetkit.tpu.cache import Cache\n"
        "cache = Cache(pathlib.Path(sys.argv[1]))\n"
        "def fill(folder):\n"
        "    time.sleep(1.0)\n"
        "    (folder / 'text').write_text(sys.argv[2])\n"
        "with cache.making('a'):\n"
        "    made = cache.find('a') is None\n"
        "    if made: cache.put('a', fill)\n"
        "print(made, (cache.find('a') / 'text').read_text())\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name], stdout=subprocess.PIPE, text=True) for name in "xy"]
    said = sorted(process.communicate(timeout=300)[0].split() for process in started)
    assert [made for made, _ in said] == ["False", "True"]
    assert len({text for _, text in said}) == 1


def test_the_lock_of_a_dead_process_is_free(tmp_path):
    script = (
        "import sys, os, pathlib\nfrom unetkit.tpu.cache import Cache\nwith Cache(pathlib.Path(sys.argv[1])).making('a'): os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 9
    waiting = threading.Thread(target=put, args=(Cache(tmp_path), "a"), daemon=True)
    waiting.start()
    waiting.join(60)
    assert not waiting.is_alive() and Cache(tmp_path).find("a") is not None


def test_the_folder_is_the_named_one_or_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_root() == tmp_path / "mine"
    monkeypatch.delenv("UNETKIT_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "unetkit"
