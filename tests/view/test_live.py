"""The live page over plain requests: what it tells while a run goes on, and what it refuses."""

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import time
from dataclasses import replace
from urllib.parse import quote

import pytest
import tiny
from live_site import SCRIPT, STORE, TINY, serving, taught

from cisr import ConfigError, Fixed, NobodyFinished, Store, Study
from cisr.experiments.interim import interim_finding
from cisr.training import BatchProgress, Checkpoint
from cisr.view.charts import timeline
from cisr.view.contents import contents_of
from cisr.view.live.access import Access
from cisr.view.live.now_section import MOST_BARS, how_far
from cisr.view.live.pace import Pace
from cisr.view.live.replays import Replays
from cisr.view.live.server import Server
from cisr.view.live.site import Site


class Answer:
    def __init__(self, server, path, method="GET", **headers):
        line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        line.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        found = line.getresponse()
        self.status, self.headers, self.text = found.status, found.headers, found.read().decode()
        line.close()


def asked(server, path, **headers):
    return Answer(server, path, **headers)


def told(server, path, seconds=60.0):
    """What a stream of events says, one message after the other."""
    line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=seconds)
    line.request("GET", path)
    stream = line.getresponse()
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    try:
        while said := stream.readline():
            if said.startswith(b"data: "):
                yield json.loads(said.removeprefix(b"data: "))
    finally:
        line.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two stores, one with a hostile name and hostile curricula, and a store outside with a link that leads to it."""
    outside = tmp_path_factory.mktemp("outside")
    inside = outside / "runs"
    inside.mkdir()
    taught(inside / "store.sqlite", {SCRIPT: Fixed("SR1"), "none": Fixed("none")}, 1)
    content = (inside / "store.sqlite").read_bytes()
    for path in (inside / "<img src=x onerror=hacked=1>'\".sqlite", outside / "secret.sqlite"):
        path.write_bytes(content)
    (inside / "link.sqlite").symlink_to(outside / "secret.sqlite")
    (inside / "notes.txt").write_text("not a store")
    return inside


@pytest.fixture(scope="module")
def site(folder):
    with serving(folder) as server:
        yield server


def test_the_page_has_what_the_report_has_and_how_far_the_run_is(site):
    text = asked(site, STORE).text
    for heading in ("Now", "Comparison", "Map and trigger zones", "To run it again"):
        assert f"<h2>{heading}</h2>" in text
    assert "6 of 6 units" in text


def test_a_single_store_is_the_front_page(folder):
    with serving(folder / "store.sqlite") as server:
        there = asked(server, "/")
        assert (there.status, there.headers["Location"]) == (303, STORE)
        assert asked(server, STORE).status == 200
        assert asked(server, "/store/notes.txt/").status == asked(server, "/events").status == 404


def test_the_list_has_the_stores_of_the_folder_and_nothing_else(site):
    text = asked(site, "/").text
    assert re.findall(r'href="(/store/[^"]*)"', text) == [
        f"/store/{quote(name, safe='')}/" for name in ("<img src=x onerror=hacked=1>'\".sqlite", "store.sqlite")
    ]
    assert "2 of 2 finished" in text and "notes.txt" not in text and "link.sqlite" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/store/link.sqlite/",
        "/store/notes.txt/",
        "/store/..%2Fsecret.sqlite/",
        "/store/../secret.sqlite/",
        "/store/%2e%2e/",
        "/store//",
        "/store/store.sqlite%00/",
        "/static/../page.py",
        "/static/..%2Fpage.py",
        "/static/page.html",
        "//etc/passwd",
        "/../../etc/passwd",
    ],
)
def test_there_is_no_way_out_of_the_folder(site, path):
    assert asked(site, path).status == 404


def test_names_from_stores_and_files_are_never_markup(site):
    hostile = quote("<img src=x onerror=hacked=1>'\".sqlite", safe="")
    for path in ("/", STORE, f"/store/{hostile}/"):
        answer = asked(site, path)
        assert answer.status == 200 and "<script>hacked" not in answer.text and "<img" not in answer.text
    assert "&lt;script&gt;hacked=1" in asked(site, STORE).text


def test_no_script_may_run_but_our_own_files_and_no_other_site_may_read(site):
    for path in ("/", STORE, "/static/live.js", "/nothing", f"{STORE}section?key=none"):
        headers = asked(site, path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert "<script>" not in asked(site, "/").text and "style=" not in asked(site, STORE).text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "0.0.0.0", "[::2]"])
def test_requests_for_another_host_name_are_refused(site, host):
    answer = asked(site, STORE, Host=host)
    assert answer.status == 403 and "tiny" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:9000", "[::1]:80", "LOCALHOST"])
def test_a_tunnel_may_have_another_port(site, host):
    assert asked(site, "/", Host=host).status == 200


def test_a_request_that_names_two_hosts_or_none_is_refused(site):
    for hosts in (b"", b"Host: localhost\r\nHost: localhost\r\n"):
        with socket.create_connection(("127.0.0.1", site.server_port), timeout=10) as line:
            line.sendall(b"GET / HTTP/1.1\r\n" + hosts + b"\r\n")
            assert b" 403 " in line.recv(100)


def test_pages_of_other_sites_get_no_answer_but_may_lead_here(site):
    for where in ("cross-site", "same-site"):
        assert asked(site, STORE, Sec_Fetch_Site=where, Sec_Fetch_Mode="no-cors").status == 403
        assert asked(site, STORE, Sec_Fetch_Site=where, Sec_Fetch_Mode="navigate").status == 200
    assert asked(site, STORE, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status == 200
    assert asked(site, STORE, sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_page_can_be_read_and_nothing_else(site, method):
    assert asked(site, STORE, method=method).status == 405


def test_head_is_get_without_the_text(site):
    answer = asked(site, STORE, method="HEAD")
    assert answer.status == 200 and answer.text == "" and int(answer.headers["Content-Length"]) > 10_000


def test_on_a_network_only_who_knows_the_token_gets_an_answer(folder):
    with serving(folder, "0.0.0.0") as server:
        token, name = server.access.token, server.access.cookie_name
        assert token in server.access.address
        for wrong in ("", "?token=", "?token=x", f"?token={token}x", "?token=%ff"):
            assert asked(server, f"/{wrong}").status == 401
        assert asked(server, "/", Cookie=f"{name}=x").status == asked(server, "/static/page.js").status == 401
        welcome = asked(server, f"/?token={token}")
        kept = welcome.headers["Set-Cookie"]
        assert welcome.status == 200 and "HttpOnly" in kept and "SameSite=Strict" in kept
        assert token not in welcome.text and "store.sqlite" not in welcome.text
        assert "store.sqlite" in asked(server, "/", Cookie=kept.partition(";")[0]).text
        assert asked(server, f"/?token={token}", Host="evil.example").status == 403
        assert asked(server, "/", Host="10.1.2.3:80", Cookie=kept.partition(";")[0]).status == 200


def test_the_cookie_is_found_among_odd_ones_of_other_programs():
    access = Access.to("192.168.1.2", 1)
    ours = access.cookie()["Set-Cookie"].partition(";")[0]
    for cookies in (f"a[b]=1; {ours}", f'x="; {ours}; y', f"=;;{ours}"):
        assert access.admits(None, cookies)
    assert not access.admits(None, f"other-{ours}; {ours}x")


def test_this_machine_alone_needs_no_token():
    assert Access.to("127.0.0.1", 1).token is Access.to("localhost", 1).token is Access.to("::1", 1).token is None
    assert Access.to("192.168.1.2", 1).token != Access.to("192.168.1.2", 1).token
    assert repr(Access.to("0.0.0.0", 1).token) not in repr(Access.to("0.0.0.0", 1))


def test_a_port_that_is_taken_is_told_in_one_line(site, folder):
    with pytest.raises(ConfigError, match=rf"Cannot serve the page on 127.0.0.1:{site.server_port}: .* --port"):
        Server(Site(folder, Replays()), "127.0.0.1", site.server_port)


def test_who_does_not_read_keeps_nobody_waiting_and_connections_are_bounded(folder, monkeypatch):
    monkeypatch.setattr("cisr.view.live.server.MOST_CONNECTIONS", 8)
    monkeypatch.setattr("cisr.view.live.server.PATIENCE", 600.0)  # nobody is let go, however slow the machine
    with serving(folder) as server, contextlib.ExitStack() as stack:
        for _ in range(7):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=10))
            line.sendall(f"GET {STORE} HTTP/1.0\r\nHost: localhost\r\n".encode())  # and never the end of it
        assert asked(server, "/static/page.js").status == 200
        silent = stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=10))
        silent.sendall(b"GET")
        until = time.monotonic() + 10
        while asked(server, "/static/page.js").status == 200 and time.monotonic() < until:
            time.sleep(0.05)
        assert asked(server, "/static/page.js").status == 503


def test_all_of_a_request_comes_in_time_and_not_each_byte_of_it(folder, monkeypatch):
    monkeypatch.setattr("cisr.view.live.server.PATIENCE", 0.5)
    with serving(folder) as server, socket.create_connection(("127.0.0.1", server.server_port)) as line:
        line.settimeout(0.1)
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < began + 10:
                line.sendall(b"G")
                with contextlib.suppress(TimeoutError):
                    assert line.recv(1) == b""
                    break
        assert time.monotonic() - began < 5


def test_what_is_no_address_gets_an_answer(site):
    assert asked(site, "http://[/", Host="localhost").status == 400


def test_a_store_whose_name_leaves_no_room_for_a_lock_is_listed(tmp_path, folder):
    name = "s" * 254
    (tmp_path / name).write_bytes((folder / "store.sqlite").read_bytes())
    with serving(tmp_path) as server:
        assert name in asked(server, "/").text


def test_the_list_says_when_its_folder_is_gone_and_follows_again_when_it_is_back(tmp_path, folder):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "store.sqlite").write_bytes((folder / "store.sqlite").read_bytes())
    with serving(tmp_path / "runs") as server:
        events = told(server, "/events")
        assert "1 store" in next(events)["lead"]
        (tmp_path / "runs").rename(tmp_path / "away")
        assert "Cannot read the folder" in next(events)["problem"]
        answer = asked(server, STORE)
        assert answer.status == 500 and "Cannot read the folder" in answer.text
        (tmp_path / "away").rename(tmp_path / "runs")
        back = next(events)
        assert not back["problem"] and "1 store" in back["lead"]


def test_stores_that_are_written_are_listed_without_waiting_for_them(tmp_path, folder):
    content = (folder / "store.sqlite").read_bytes()
    with contextlib.ExitStack() as stack:
        for k in range(10):
            path = tmp_path / f"{k}.sqlite"
            path.write_bytes(content)
            stack.enter_context(Store(path))
        with pytest.MonkeyPatch.context() as patch, serving(tmp_path) as server:
            patch.setattr("cisr.store.place.time.sleep", lambda seconds: pytest.fail("it waits"))
            assert asked(server, "/").text.count("running") >= 10


def test_a_stream_tells_of_a_real_run_of_its_end_and_of_the_next(tmp_path):
    """The run goes on in this thread; after each unit the page must have heard of it."""
    path = tmp_path / "store.sqlite"
    taught(path, {"SR1": Fixed("SR1")}, 1)
    with serving(path) as server:
        events = told(server, f"{STORE}events")
        first = next(events)
        assert not first["running"] and "1 students: 1 finished" in first["lead"]
        have = {section["key"]: section["digest"] for section in first["sections"]}
        seen = []

        def look(event):
            if isinstance(event, BatchProgress) and isinstance(event.event, Checkpoint):
                for view in events:
                    keys = {section["heading"]: section["key"] for section in view["sections"]}
                    now = asked(server, f"{STORE}section?key={keys['Now']}")
                    if f"unit {event.event.unit}</td>" in now.text:
                        break
                assert view["running"] and now.headers["ETag"].strip('"') not in have.values()
                seen.append((event.event.unit, now.text))

        taught(path, {"SR1": Fixed("SR1")}, 2, callback=look)
        assert [unit for unit, _ in seen] == [1, 2, 3]
        assert "4 of 6 units" in seen[0][1] and "1 in training" in seen[0][1] and "compare/SR1/001" in seen[0][1]
        assert "units a minute" in seen[1][1] and "left" in seen[1][1]
        last = next(view for view in events if not view["running"] and "2 students: 2 finished" in view["lead"])
        now = last["sections"][0]["key"]
        assert "6 of 6 units" in asked(server, f"{STORE}section?key={now}").text
        unchanged = [s for s in last["sections"] if s["heading"] == "Map and trigger zones"]
        assert have[unchanged[0]["key"]] == unchanged[0]["digest"]  # what did not change need not be asked for again


def test_errors_of_students_are_shown_with_their_words(tmp_path):
    path = tmp_path / "store.sqlite"
    with pytest.raises(NobodyFinished):
        taught(path, {"SR1": Fixed("SR1")}, 1, task=tiny.explosive)
    with serving(path) as server:
        text = asked(server, STORE).text
        assert "1 failed with an error" in text and "the simulator lost its licence" in text


def test_a_store_that_is_gone_or_broken_is_told_and_the_page_stays(tmp_path, folder):
    path = tmp_path / "store.sqlite"
    path.write_bytes((folder / "store.sqlite").read_bytes())
    with serving(path) as server:
        before = asked(server, STORE).text
        path.write_bytes(b"SQLite format 3\0" + bytes(4000))
        broken = asked(server, STORE)
        assert broken.status == 200 and re.search(r'role="alert">[^<]+', broken.text)
        assert "<h2>Comparison</h2>" in before and "<h2>Comparison</h2>" in broken.text
        path.unlink()
        assert "There is no store" in asked(server, STORE).text


def test_a_student_is_replayed_with_its_rescues(site):
    student = quote(f"compare/{SCRIPT}/000")
    answer = asked(site, f"{STORE}replay?student={student}&under=SR1&episode=1")
    assert answer.status == 200 and "<script" not in answer.text and "<img" not in answer.text
    assert 'class="way"' in answer.text and 'class="rescue"' in answer.text


@pytest.mark.parametrize(
    ("asked_for", "why"),
    [
        ("student=nobody&under=none&episode=1", "no student"),
        ("student=compare/none/000&under=nothing&episode=1", "nothing"),
        ("student=compare/none/000&under=none&episode=0", "Episode"),
        ("student=compare/none/000&under=none&episode=-1", "number"),
        ("", "number"),
    ],
)
def test_a_replay_that_cannot_be_is_refused_in_words(site, asked_for, why):
    answer = asked(site, f"{STORE}replay?{asked_for}")
    assert answer.status == 400 and why in answer.text


def test_without_the_users_own_task_the_page_says_what_is_missing(folder):
    with serving(folder, task=None) as server:
        assert "give it as --task module:attribute" in asked(server, STORE).text
        assert asked(server, f"{STORE}replay?student=compare/none/000&under=none&episode=1").status == 400


@pytest.mark.parametrize("teacher", ["top-two", "gp-ucb"])
def test_a_teacher_made_again_believes_what_the_studys_own_found(tmp_path, teacher):
    with Store(tmp_path / "store.sqlite") as store:
        Study(tiny.task, teaching=tiny.teaching(teacher=teacher), store=store, execution=tiny.HERE).run()
        contents = contents_of(store, "store")
    (study,) = contents.studies
    found = interim_finding(study.name, study.run, contents.settings, study.rounds, study.classes)
    kept = {what: study.found[what] for what in ("best", "model", "belief") if what in study.found}
    assert json.loads(json.dumps(found)) == kept
    earlier = [*study.rounds[:4], study.rounds[4]._replace(told=False, score=None, sem=None)]
    assert interim_finding(study.name, study.run, contents.settings, earlier, study.classes) not in (None, found)
    other = {**study.run, "teacher": {**study.run["teacher"], "code": "another"}}
    assert interim_finding(study.name, other, contents.settings, study.rounds, study.classes) is None


def test_pictures_of_many_units_have_few_bars_and_labels(folder):
    with Store(folder / "store.sqlite", read_only=True) as store:
        students = [replace(student, deployment=None) for student in store.transcripts()]
    for n_units, bar in ((10, "3: 2 students"), (999_999, "0–9999: 2 students")):
        picture = how_far(students, n_units)
        assert bar in picture and picture.count("<rect") <= MOST_BARS + 2
    assert timeline({"all": students}, {}, 1_000_000).count("<text") < 100


def test_there_is_no_rate_before_a_unit_was_seen_to_end(site, folder):
    with Store(folder / "store.sqlite", read_only=True) as store:
        students = {t.name: t for t in store.transcripts()}
    pace = Pace()
    pace.look({}, running=True)
    assert pace.rate is None and not pace.news
    pace.look(students, running=True)
    assert pace.rate.units == 6 and pace.rate.steps == sum(u.steps for t in students.values() for u in t.units)
    assert {item.what for item in pace.news} == {"unit 1", "unit 2", "unit 3", "finished"}
    pace.look(students, running=False)
    assert pace.rate is None


def test_a_watched_run_prints_its_address_and_takes_the_page_with_it_when_it_ends(tmp_path):
    path = tmp_path / "store.sqlite"
    words = [sys.executable, "-m", "cisr", "compare", TINY, "SR1", "--students", "1", "--workers", "0", "--watch"]
    run = subprocess.Popen([*words, "--store", str(path)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said = next(line for line in run.stderr if "Watch" in line)
    port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", said)[1])
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request("GET", STORE)
    assert line.getresponse().status == 200
    run.communicate(timeout=120)
    assert run.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_run_that_nobody_watches_does_not_even_import_the_page():
    code = "import sys, cisr.cli.training, cisr.cli.comparing, cisr.cli.reproducing; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith("cisr.view.live") or name == "cisr.view.page"]
