"""The HTML page, loaded and clicked in a real headless browser."""

import dataclasses
import os
import re
import shutil

import pytest

from unetkit.tpu import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


def test_the_page_loads_nothing_from_anywhere(answer):
    text = html.page(answer)
    assert not re.search(r"""(?:src|href)=["'](?!data:,)""", text)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert set(re.findall(r"https?://[\w./]+", text)) == {"http://www.w3.org/2000/svg"}


def test_a_name_cannot_end_the_script_element(refused):
    text = html.page(refused)
    assert text.count("</script>") == 2
    assert "<title>&lt;/script&gt;&lt;b&gt;&amp; on v2-8" in text


@pytest.mark.parametrize("source", ["compiled", "compiler_oom", "compiler_crash", "interpolated", "model", "executable"])
def test_every_source_says_that_nothing_was_measured(answer, source):
    assert re.search(r"not measured|no TPU measured", html.origin(dataclasses.replace(answer, source=source)))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    missing = [package for package, found in (("chromium", CHROMIUM), ("chromium-driver", DRIVER)) if not found]
    if missing and os.environ.get("UNETKIT_REQUIRE_BROWSER") == "1":
        pytest.fail(f"UNETKIT_REQUIRE_BROWSER=1, but {' and '.join(missing)} not installed")
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}: apt-get install {' '.join(missing)}")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the Python package selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
        "disable-component-update", "disable-sync", "window-size=1200,2400", f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def load(browser, tmp_path):
    def loaded(answer):
        path = tmp_path / "page.html"
        path.write_text(html.page(answer), encoding="utf-8")
        browser.get(path.as_uri())
        return browser

    yield loaded
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def find(browser, css):
    return browser.find_elements("css selector", css)


def column(browser, section, index):
    return [cell.text for cell in find(browser, f"#{section} tbody tr td:nth-child({index})")]


@pytest.mark.browser
def test_every_part_of_an_answer_is_shown(load, answer):
    page = load(answer)
    assert page.title == "the-question on v2-8: unetkit inspect"
    assert "Fits v2-8" in find(page, "#verdict")[0].text
    tiles = find(page, "#tiles")[0].text
    for words in ("5.08 GiB", "1.72x", "321 ms", "398.8", "56 %"):
        assert words in tiles
    shown = [section.get_attribute("id") for section in find(page, "main > section") if section.is_displayed()]
    assert shown == ["verdict", "tiles", "advice", "memory", "buffers", "categories", "roofline", "operations", "levels", "about"]
    assert len(find(page, "#roofline circle.dot")) == sum(1 for o in answer.operations if o.flops)
    assert len(find(page, "#buffers tbody tr")) == len(answer.buffers)
    for section in ("verdict", "memory", "buffers", "categories", "roofline", "operations", "levels", "about"):
        assert "Estimated by the TPU compiler (libtpu 0.0.52, jax 0.10.2), not measured" in find(page, f"#{section}")[0].text, section


@pytest.mark.browser
def test_a_header_sorts_by_its_column_and_says_so(load, answer):
    page = load(answer)
    padded = sorted((b.padded_bytes for b in answer.buffers), reverse=True)
    head = find(page, "#buffers th:nth-child(6)")[0]
    assert head.get_attribute("aria-sort") == "descending"
    before = column(page, "buffers", 6)
    assert before[0] == "512 MiB" and padded[0] == 512 * 2**20
    find(page, "#buffers th:nth-child(6) button")[0].click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, "buffers", 6) == before[::-1]
    find(page, "#buffers th:nth-child(8) button")[0].click()
    assert head.get_attribute("aria-sort") == "none"
    expansion = [float(text.rstrip("x")) for text in column(page, "buffers", 8)]
    assert expansion == sorted(expansion, reverse=True) and expansion[0] > expansion[-1]


@pytest.mark.browser
def test_a_header_sorts_by_keyboard(load, answer):
    page = load(answer)
    button = find(page, "#buffers th:nth-child(1) button")[0]
    page.execute_script("arguments[0].focus()", button)
    button.send_keys("\ue007")
    layers = column(page, "buffers", 1)
    assert layers == sorted(layers, key=lambda text: (text == "–", text.lower()))
    assert find(page, "#buffers th:nth-child(1)")[0].get_attribute("aria-sort") == "ascending"


@pytest.mark.browser
def test_the_filter_keeps_matching_rows(load, answer):
    page = load(answer)
    find(page, "#buffers input")[0].send_keys("up_0/block0/conv1")
    kept = column(page, "buffers", 1)
    assert len(kept) == 3 and all("up_0/block0/conv1" in text for text in kept)


@pytest.mark.browser
def test_tooltips_follow_the_pointer_and_the_keyboard(load, answer):
    from selenium.webdriver import ActionChains

    page = load(answer)
    tip = find(page, "#tip")[0]
    assert not tip.is_displayed()
    curve = find(page, "#memory svg")[0]
    page.execute_script("arguments[0].focus()", curve)
    assert "the peak" in tip.text and "fusion.120" in tip.text
    curve.send_keys("\ue014")  # arrow right
    assert "fusion.121" in tip.text and "the peak" not in tip.text
    dot = find(page, "#roofline circle.dot")[0]
    page.execute_script("arguments[0].focus()", dot)
    assert "up_0/block0/conv1" in tip.text and "of the roof there" in tip.text
    bar = find(page, "#categories svg [tabindex]")[0]
    page.execute_script("arguments[0].focus()", bar)
    assert "flops utilisation" in tip.text
    bar.send_keys("\ue00c")  # escape
    assert not tip.is_displayed()
    ActionChains(page).scroll_to_element(curve).move_to_element(curve).perform()
    assert re.search(r"fusion\.\d+\n[\d.,]+ [GM]iB with padding\n[\d.,]+ [GM]iB without \(1\.72x\)", tip.text)


@pytest.mark.browser
def test_a_refused_program_shows_what_is_known(load, refused):
    page = load(refused)
    assert "Does not fit v2-8" in find(page, "#verdict")[0].text
    assert "13.8 GiB too much" in find(page, "#verdict")[0].text
    assert find(page, "h1")[0].text == "</script><b>& on v2-8"
    assert "Scaled from a compiled batch of 64." in find(page, "#buffers")[0].text
    assert [s.is_displayed() for s in find(page, "#memory, #categories, #roofline, #operations, #levels, #advice")] == [False] * 6
    assert "CompileTimeHbmOom" in find(page, "#about")[0].text


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_wider_than_the_window(load, answer, width):
    page = load(answer)
    page.set_window_size(width, 2400)
    assert page.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.set_window_size(1200, 2400)
