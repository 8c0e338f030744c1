"""The page in a real browser: Chromium without a display, on a file, without any network."""

import html
import re
import shutil
import subprocess
from functools import partial

import numpy as np
import pytest
import tiny

from cisr import Fixed, Store, Study, compare
from cisr.view.page import write_page

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: install it to test the page in a browser")

FLAGS = [
    "--headless",
    "--no-sandbox",  # Chromium refuses its sandbox to root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
]


def browse(profile, page, *flags) -> str:
    """What the browser prints; fails if the page's console has anything to say."""
    words = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    return partial(browse, tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "store.sqlite"
    with Store(path) as store:
        Study(tiny.task, store=store, execution=tiny.HERE).run()
        curricula = {name: Fixed(name) for name in ("SR1", "SR2", "HR", "none")}
        compare(tiny.task, curricula, n_students=2, store=store, execution=tiny.HERE)
    return write_page(path)


def after(page, tmp_path, script):
    """The page, with something done to it once its own script has run."""
    acted = tmp_path / "acted.html"
    acted.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
    return acted


def first_cells(dom) -> list[str]:
    body = re.search(r'<table class="sortable[^"]*" data-name="compare".*?<tbody>(.*?)</tbody>', dom, re.DOTALL)
    return re.findall(r"<tr[^>]*><td[^>]*>(.*?)</td>", body[1])


def test_the_script_runs_and_the_console_stays_silent(chromium, page):
    assert 'data-ready="yes"' in chromium(page, "--dump-dom")


@pytest.mark.parametrize("clicks", [1, 2])
def test_a_click_on_a_heading_sorts_and_another_turns_it_round(chromium, page, tmp_path, clicks):
    script = "const h = document.querySelectorAll('.sorters th')[3].firstChild;" + "h.click();" * clicks
    dom = chromium(after(page, tmp_path, script), "--dump-dom")
    fourth = r"<tr data-latex" + ".*?data-value=" * 4 + r'"([^"]*)"'
    rescues = [float(v) for v in re.findall(fourth, dom)[:4]]
    assert rescues == sorted(rescues, reverse=clicks == 1) and len(set(rescues)) > 1
    assert f'aria-sort="{"descending" if clicks == 1 else "ascending"}"' in dom
    assert first_cells(dom).index("none") == (3 if clicks == 1 else 0)  # without interventions there are no rescues


def test_where_the_clipboard_is_closed_the_table_is_shown_to_copy_in_the_order_on_screen(chromium, page, tmp_path):
    script = (
        "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "document.querySelectorAll('.sorters th button')[0].click();"
        "document.querySelector('[data-copy=latex]').click();"
    )
    dom = chromium(after(page, tmp_path, script), "--dump-dom")
    text = html.unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", dom, re.DOTALL)[1])
    lines = text.strip().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrrrrr}" and lines[-1] == r"\end{tabular}"
    start = lines.index(r"\midrule") + 1
    assert [line.split(" & ")[0] for line in lines[start : start + 4]] == ["SR2", "SR1", "none", "HR"]


def test_where_the_clipboard_is_open_the_table_goes_there(chromium, page, tmp_path):
    script = (
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (t) => {"
        "document.body.dataset.clipboard = t}}});"
        "document.querySelector('[data-copy=csv]').click();"
    )
    dom = chromium(after(page, tmp_path, script), "--dump-dom", "--virtual-time-budget=2000")
    copied = html.unescape(re.search(r'data-clipboard="([^"]*)"', dom)[1]).splitlines()
    assert copied[0].startswith("curriculum,training_failures_mean,") and len(copied) == 5
    assert "<textarea" not in dom and "Copied." in dom


def test_a_reproduction_is_sorted_by_what_the_paper_says_with_rows_it_lacks_last(chromium, reproduced, tmp_path):
    script = (
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (t) => {"
        "document.body.dataset.clipboard = t}}});"
        "document.querySelectorAll('.sorters th')[2].firstChild.click();"
        "document.querySelector('[data-copy=csv]').click();"
    )
    page = write_page(reproduced, tmp_path / "page.html")
    dom = chromium(after(page, tmp_path, script), "--dump-dom", "--virtual-time-budget=2000")
    head, *lines = html.unescape(re.search(r'data-clipboard="([^"]*)"', dom)[1]).splitlines()
    assert head.startswith("curriculum,success_ours_mean,success_ours_sem,success_paper_mean,success_paper_sem,")
    best_first = ["Optimized", "SR1", "SR2", "No-interv.", "Bandit", "HR"]
    unpublished = ["FL-A", "FL-B", "Back-6", "Incremental-2", "Random search"]
    assert [line.split(",")[0] for line in lines] == best_first + unpublished


@pytest.mark.parametrize("width", [1200, 500])
@pytest.mark.parametrize("store", ["page", "reproduced"])
def test_the_page_has_something_to_show_and_fits_its_window(chromium, request, store, tmp_path, width):
    from matplotlib.image import imread

    path = request.getfixturevalue(store)
    page = path if store == "page" else write_page(path, tmp_path / "page.html")
    chromium(page, f"--screenshot={tmp_path / 'page.png'}", f"--window-size={width},2000", "--hide-scrollbars")
    pixels = imread(tmp_path / "page.png")[..., :3]
    assert pixels.shape[:2] == (2000, width)
    assert np.mean(pixels < 0.9) > 0.01
    script = "document.body.dataset.over = document.documentElement.scrollWidth - innerWidth"
    dom = chromium(after(page, tmp_path, script), "--dump-dom", f"--window-size={width},2000")
    assert int(re.search(r'data-over="(-?\d+)"', dom)[1]) <= 0
