"""The live page and replays in a real browser, while real runs go on."""

import time
from contextlib import contextmanager

import pytest
import tiny
from browser import MISSING, browsing, console
from live_site import SCRIPT, STORE, TINY, serving, taught

from cisr import Fixed, NobodyFinished, Store, Study
from cisr.training import BatchProgress, Checkpoint
from cisr.view.page import write_page
from live_page import fill

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

SR1 = {"SR1": Fixed("SR1")}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    elsewhere = "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with browsing(tmp_path_factory.mktemp("profile"), elsewhere) as driver:
        yield driver


def until(condition, seconds=60.0):
    """What it gives, once it gives something."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "the page did not follow"
        time.sleep(0.05)
    return found


@contextmanager
def showing(driver, path):
    """The page of a store, and the port that it is served on. Its console stays silent."""
    with serving(path) as server:
        driver.get(f"http://127.0.0.1:{server.server_port}{STORE}")
        until(lambda: driver.execute_script("return document.body.dataset.updates"))
        yield server.server_port
        assert console(driver) == []
        driver.get("about:blank")


def words(driver, selector):
    return driver.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)


def now(driver):
    return words(driver, "main section .body")


def after_each_unit(do):
    """A callback of a run that does something with the number of each unit as it ends."""

    def look(event):
        if isinstance(event, BatchProgress) and isinstance(event.event, Checkpoint):
            do(event.event.unit)

    return look


def test_the_page_follows_a_run_keeps_its_place_and_survives_its_end_and_restart(chromium, tmp_path):
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        Study(tiny.task, teaching=tiny.teaching(n_rounds=0, class_size=1), store=store, execution=tiny.HERE).run()
    taught(path, SR1, 1)
    with showing(chromium, path):
        assert words(chromium, "#state").startswith("Nothing is running") and "12 of 12 units" in now(chromium)
        chromium.execute_script(
            "window.mine = document.querySelector('[data-key=policies]'); mine.open = true;"
            "mine.querySelectorAll('.sorters button')[3].click();"
            "mine.querySelector('summary').scrollIntoView()"
        )
        time.sleep(0.3)
        top = "return mine.querySelector('summary').getBoundingClientRect().top"
        tall = "return document.querySelector('main section').offsetHeight"
        place, before = chromium.execute_script(top), chromium.execute_script(tall)

        def follows(unit):
            until(lambda: f"unit {unit}" in now(chromium) and "Running" in words(chromium, "#state"))
            assert "compare/SR1/001" in now(chromium)
            assert abs(chromium.execute_script(top) - place) < 2

        taught(path, SR1, 2, callback=after_each_unit(follows))
        assert chromium.execute_script(tall) > before + 50  # there was something to keep one's place against
        until(lambda: "Nothing is running" in words(chromium, "#state") and "15 of 15 units" in now(chromium))
        taught(
            path,
            SR1 | {"HR": Fixed("HR")},
            2,
            callback=after_each_unit(lambda unit: until(lambda: "Running" in words(chromium, "#state"))),
        )
        until(lambda: "21 of 21 units" in now(chromium))
        assert abs(chromium.execute_script(top) - place) < 2
        assert chromium.execute_script("return mine.isConnected && mine.open")  # the page was not loaded again
        assert chromium.execute_script("return mine.querySelector('[aria-sort=descending]').cellIndex") == 3


def test_more_tabs_load_than_a_browser_has_connections_and_who_comes_back_to_one_sees_it_followed(chromium, tmp_path):
    path = tmp_path / "store.sqlite"
    Store(path).close()
    with showing(chromium, path) as port:
        first = chromium.current_window_handle
        for _ in range(7):
            chromium.switch_to.new_window("tab")
            chromium.get(f"http://127.0.0.1:{port}{STORE}")
            until(lambda: chromium.execute_script("return document.body.dataset.updates"), seconds=20)
        taught(path, SR1, 1)
        for tab in chromium.window_handles:
            if tab != first:
                chromium.switch_to.window(tab)
                chromium.close()
        chromium.switch_to.window(first)
        until(lambda: "3 of 3 units" in now(chromium))


def test_a_student_that_fails_shows_its_error_on_the_open_page(chromium, tmp_path):
    path = tmp_path / "store.sqlite"
    Store(path).close()
    with showing(chromium, path):
        with pytest.raises(NobodyFinished):
            taught(path, SR1, 1, task=tiny.explosive)
        until(lambda: "the simulator lost its licence" in now(chromium))
        assert "1 failed with an error" in now(chromium)


def test_the_page_goes_on_when_its_server_comes_back(chromium, tmp_path):
    path = tmp_path / "store.sqlite"
    taught(path, SR1, 1)
    with serving(path) as server:
        chromium.get(f"http://127.0.0.1:{server.server_port}{STORE}")
        chromium.execute_script("window.mine = 1")
        until(lambda: words(chromium, "#state").startswith("Nothing is running"))
    until(lambda: words(chromium, "#state").startswith("No connection"))
    taught(path, SR1, 2)
    with serving(path, port=server.server_port):
        until(lambda: "6 of 6 units" in now(chromium) and words(chromium, "#state").startswith("Nothing"))
        assert chromium.execute_script("return window.mine") == 1
        chromium.get("about:blank")
    console(chromium)  # refused connections are told there


def test_a_thousand_students_do_not_slow_the_page(chromium, tmp_path):
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        units = fill(store, 1000, 2, batch=100)
        for _ in range(8):
            next(units)
        with showing(chromium, path):
            for n in range(9, 12):
                next(units)
                began = time.process_time(), time.monotonic()
                until(lambda n=n: f"{100 * n:,} of 2,000 units" in now(chromium))
                assert time.process_time() - began[0] < 2.0  # of this process, which draws; usually a tenth of it
            assert chromium.execute_script("return document.querySelectorAll('*').length") < 6000
            anew = "const began = performance.now(); for (const s of document.querySelectorAll('main section'))"
            anew += " fill(s, s.querySelector('.body').innerHTML); return performance.now() - began"
            assert chromium.execute_script(anew) < 1000  # milliseconds, for all sections


def test_a_hostile_store_cannot_run_script(chromium, tmp_path):
    path = tmp_path / "store.sqlite"
    taught(path, {SCRIPT: Fixed("SR1")}, 1)
    with showing(chromium, path):
        assert "<script>hacked=1</script>" in words(chromium, "main")  # as words
        assert chromium.execute_script("return typeof hacked") == "undefined" and console(chromium) == []
        # Even what would have slipped through as markup is not run.
        chromium.execute_script(
            "document.querySelector('main').innerHTML += arguments[0];"
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'hacked=1'}))",
            SCRIPT,
        )
        time.sleep(0.5)
        assert chromium.execute_script("return typeof hacked") == "undefined"
        assert any("Content Security Policy" in said for said in console(chromium))


def test_another_host_name_that_leads_here_is_refused(chromium, tmp_path):
    Store(tmp_path / "store.sqlite").close()
    with serving(tmp_path) as server:
        chromium.get(f"http://evil.example:{server.server_port}/")
        assert words(chromium, "body").startswith("This host name is not one of this server's")
        chromium.get(f"http://127.0.0.1:{server.server_port}/")
        assert "store.sqlite" in words(chromium, "main")
        chromium.get("about:blank")
    console(chromium)


def stepped_through(driver):
    """Go through the first player of a page by all means that there are."""
    box = driver.find_element("css selector", ".replay")

    def said():
        return box.find_element("css selector", ".said").text

    def press(what):
        box.find_element("css selector", f"[data-do={what}]").click()

    press("first")
    assert said().startswith("step 0")
    press("on")
    press("on")
    assert said().startswith("step ") and not said().startswith("step 0")
    here = driver.execute_script("return document.querySelector('.replay input').value")
    assert here == "2" and len(box.find_element("css selector", ".way").get_attribute("points").split()) == 3
    press("back")
    assert driver.execute_script("return document.querySelector('.replay input').value") == "1"
    last = int(box.find_element("css selector", "input").get_attribute("max"))
    box.send_keys("\ue010")  # End
    assert " after " in said()
    box.send_keys("\ue011", "\ue014")  # Home, right
    assert driver.execute_script("return document.querySelector('.replay input').value") == "1"
    seen = "return document.querySelector('.replay').querySelectorAll('.rescue:not([visibility=hidden])').length"
    assert driver.execute_script(seen) == 0
    box.send_keys(" ")
    until(lambda: driver.execute_script("return Number(document.querySelector('.replay input').value)") > 2)
    assert box.find_element("css selector", "[data-do=play]").text == "Pause"
    box.send_keys(" ")
    assert box.find_element("css selector", "[data-do=play]").text == "Play"
    box.send_keys("\ue010")
    return last, driver.execute_script(seen)


def test_a_student_is_replayed_on_the_live_page_and_in_the_report(chromium, tmp_path):
    path = tmp_path / "store.sqlite"
    taught(path, SR1, 1)
    with showing(chromium, path):
        chromium.find_element("css selector", "#ask-replay button").click()
        until(lambda: chromium.find_elements("css selector", "#replayed .replay"), 100)
        last, rescues = stepped_through(chromium)
        assert last > 5 and rescues > 0
        taught(path, SR1, 2)  # the page follows, and the replay stays
        until(lambda: "6 of 6 units" in now(chromium))
        assert len(chromium.find_elements("css selector", "#replayed .replay")) == 1
    chromium.get(write_page(path, replay=True, task=TINY).as_uri())
    assert stepped_through(chromium)[0] > 0 and console(chromium) == []
