"""Processes come to an end: with their parent, by signals, and where an environment blocks, quits or keeps memory."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import stubborn
import tiny
from stores import cells, units_on_disk

from cisr import Execution, Fixed, Store, compare
from cisr.auditing import audit
from cisr.cli import main
from cisr.core.errors import ConfigError, NobodyFinished, TaskError
from cisr.core.seeding import derive_seed
from cisr.system.loading import check_not_loading, loading
from cisr.testing import check_task
from cisr.training import Batch, Checkpoint, Graduation, StudentSpec, TrainingSetup, default_observe
from cisr.training.apart import play_apart
from cisr.training.executors import InThisProcess, Processes
from cisr.training.worker import Broken, Job, loaded

SUPPORT = Path(__file__).parents[1] / "support"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def job(task, *names, **setup):
    students = [
        StudentSpec(name=name, policy=Fixed("SR1"), config=tiny.student, seed=k) for k, name in enumerate(names)
    ]
    return Job(TrainingSetup(task=task, **setup), Batch(name=names[0], students=tuple(students)), None)


def taught(executor, *jobs, close=True):
    """All events."""
    try:
        return [event for _, event in executor.run(jobs)]
    finally:
        if close:
            executor.close()


def command(*words, ignoring=()):
    """`cisr` as a user starts it in a terminal, whatever the tests were started in."""
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        ["env", "--default-signal=INT,TERM,HUP", *ignoring, sys.executable, "-m", "cisr", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(happened, seconds=60):
    end = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)
    return found


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def children(pid):
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def told(path):
    return int(path.read_text()) if path.exists() and path.read_text().endswith("\n") else 0


@pytest.fixture
def mischief(tmp_path, monkeypatch):
    """Tells environments where to misbehave and how, also those of workers that have started."""
    path = tmp_path / "mischief"
    monkeypatch.setenv("MISCHIEF", str(path))
    monkeypatch.setattr("cisr.training.apart._known", [])  # these environments answer at one time and not at another
    return lambda where, how: stubborn.tell(path, where, how)


# With their parent


@linux_only
@pytest.mark.parametrize("how", ["lock", "sleep"])
def test_a_worker_ends_with_its_parent_though_it_is_stopped_or_holds_the_lock(tmp_path, mischief, how):
    mischief("step", how)
    words = ("compare", "stubborn:task", "SR1", "--students", 1, "--store", tmp_path / "s", "--workers", 1)
    parent = command(*words)
    worker = wait_until(lambda: told(tmp_path / "mischief.pid"))
    assert worker in children(parent.pid)
    if how == "sleep":
        os.kill(worker, signal.SIGSTOP)
    parent.kill()
    parent.communicate()
    wait_until(lambda: is_gone(worker), seconds=5)


# Environments that take too long


def test_whose_environment_blocks_and_holds_the_lock_breaks_down_and_the_others_go_on(mischief, caplog):
    pool = Processes(1, step_timeout=3.0)
    undisturbed = taught(pool, job(stubborn.task, "a", "b"), close=False)
    mischief(f"step after {derive_seed(1, 'unit 2 round 0', 'env', 1)}", "lock")
    events = []
    for _, event in pool.run([job(stubborn.task, "a", "b")]):
        events.append(event)
        if isinstance(event, Checkpoint) and event.unit == 3:
            mischief(f"step after {derive_seed(0, 'final', 'env', 0)}", "lock")
    pool.close()
    calm, disturbed = ([e for e in each if isinstance(e, Checkpoint)] for each in (undisturbed, events))
    assert [[error is None for error in e.errors] for e in disturbed] == [[True, True], [True, False], [True, False]]
    for one, other in zip(calm, disturbed, strict=True):
        assert one.unit == other.unit and one.records[0] == other.records[0]
        for name, array in one.weights.items():
            np.testing.assert_array_equal(array[0], other.weights[name][0])
    said = "a step or reset of the environment of task 'stubborn-lake' took longer than 3 s"
    assert isinstance(events[-1], Graduation) and caplog.text.count(said) == 2
    for name, (message, failures), known in zip("ab", events[-1].errors, (0, None), strict=True):
        assert message.startswith(f"Student '{name}': {said}") and failures == known


def test_a_task_whose_environments_cannot_be_made_in_time_is_abandoned(mischief):
    mischief("make_env", "lock")
    (event,) = taught(Processes(1, step_timeout=1.0), job(stubborn.task, "a"))
    assert "the environment of task 'stubborn-lake' took longer than 1 s" in event.message


def test_in_this_process_python_code_that_takes_too_long_is_interrupted(mischief):
    mischief(f"step after {derive_seed(1, 'unit 1 round 0', 'env', 0)}", "sleep")
    before = signal.getsignal(signal.SIGALRM)
    end = taught(InThisProcess(step_timeout=2.0), job(stubborn.task, "a", "b"))[-1]
    assert end.errors[0] is None and end.deployments[0] is not None
    assert end.errors[1].message.startswith("Student 'b': at a step: TimeoutError: a step or reset of the environment")
    assert signal.getsignal(signal.SIGALRM) == before and signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize("executor", [InThisProcess, lambda limit: Processes(1, limit)])
def test_time_outside_of_environments_is_not_counted(executor):
    def think(unit):
        time.sleep(2.3)
        return default_observe(unit)

    task = tiny.task.with_training(n_units=2)
    assert taught(executor(2.0), job(task, "a", observe=think))[-1].errors == (None,)


def test_the_command_records_the_student_and_says_why(tmp_path, capfd, mischief):
    mischief("step", "sleep")
    words = ("compare", "stubborn:task", "SR1", "--students", "1", "--store", str(tmp_path / "s"), "--workers", "0")
    assert ended(*words, "--step-timeout", "0.5") == 1
    assert "environment of task 'stubborn-lake' took longer than 0.5 s" in capfd.readouterr().err
    with Store(tmp_path / "s") as store:
        assert "took longer than 0.5 s" in store.transcript("compare/SR1/000").error
    assert ended(*words, "--step-timeout", "0") == 2
    assert "give a number of seconds above 0" in capfd.readouterr().err


def ended(*words):
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return end.value.code


# What is played beside training


BESIDE = {
    "before training": ("make_env", ("compare", "stubborn:task", "SR1", "--students", "1")),
    "quick audit": ("step", ("train", "stubborn:task", "--rounds", "0", "--initial", "1", "--students", "1")),
    "trigger in an audit": ("trigger", ("audit", "stubborn:hidden", "--budget", "100")),
    "audit": ("reset", ("audit", "stubborn:task")),
    "film": ("render", ("compare", "stubborn:task", "SR1", "--students", "1", "--video", "FOLDER/film.gif")),
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("how", ["lock", "crash"])
def test_an_environment_that_blocks_or_crashes_beside_training_ends_the_command_with_one_line(
    tmp_path, capfd, mischief, monkeypatch, beside, how
):
    monkeypatch.chdir(tmp_path)
    where, words = BESIDE[beside]
    mischief(where, how)
    store = () if "audit" in words else ("--store", str(tmp_path / "s"))
    assert ended(*(word.replace("FOLDER", str(tmp_path)) for word in words), *store, "--step-timeout", "2") == 2
    said = capfd.readouterr().err.splitlines()[-1]
    assert "stubborn-lake" in said
    assert ("took longer than 2 s" if how == "lock" else "ended the process in which it was played (signal 6)") in said


def test_a_renderer_that_crashes_after_training_takes_no_result_with_it(tmp_path, capfd, mischief, monkeypatch):
    monkeypatch.setattr("cisr.cli.comparing.check_film", lambda *given, **how: None)
    mischief("render", "crash")
    words = ("compare", "stubborn:task", "SR1", "--students", "1", "--store", str(tmp_path / "s"), "--workers", "1")
    assert ended(*words, "--video", str(tmp_path / "f.gif"), "--json", str(tmp_path / "j.json")) == 2
    out, said = capfd.readouterr()
    assert "SR1" in out and "ended the process in which it was played (signal 6)" in said.splitlines()[-1]
    assert (tmp_path / "j.json").exists() and not list(tmp_path.glob("*.gif")) and "Film" not in out


@pytest.mark.parametrize(("how", "n_workers"), [("lock", 1), ("sleep", 0), ("crash", 1)])
def test_episodes_for_pictures_do_not_hang_or_crash_the_program(tmp_path, mischief, how, n_workers):
    curricula = {"none": Fixed("none")}

    def finished(heard):
        if isinstance(heard.event, Graduation):
            mischief("step", how)

    options = {"n_students": 1, "store": tmp_path / "s", "execution": Execution(n_workers=n_workers, step_timeout=3.0)}
    with pytest.raises(
        TaskError, match=r"of the environment of task 'scenic-lake' took|'scenic-lake' ended the process"
    ):
        compare(stubborn.scenic, curricula, callback=finished, **options)
    mischief("nowhere", "sleep")
    assert compare(stubborn.scenic, curricula, **options).rows[0].finished == 1
    with Store(tmp_path / "s") as store:
        assert len(store.trajectories()["compare/none/000"]) == 2


def test_in_this_process_an_audit_that_takes_too_long_is_interrupted(mischief):
    mischief("step", "sleep")
    with pytest.raises(
        TaskError, match=r"^A step or reset of the environment of task 'stubborn-lake' took longer than 1 s"
    ):
        audit(stubborn.task, n_workers=0, step_timeout=1.0)


@linux_only
def test_what_was_killed_from_outside_is_played_once_more_and_says_nothing_twice(tmp_path):
    def count_and_be_killed(task, path, tell):
        """Dies of a kill in the middle, the first time."""
        for number in range(4):
            if number == 2 and not path.exists():
                path.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            tell(number)
        return "done"

    heard = []
    assert play_apart(count_and_be_killed, stubborn.task, tmp_path / "once", listen=heard.append) == "done"
    assert heard == [0, 1, 2, 3]


def test_played_apart_or_here_an_audit_says_the_same():
    apart, here = (audit(stubborn.hidden, budget=300, n_workers=n) for n in (1, 0))
    assert apart.to_json() == here.to_json()


@linux_only
def test_a_worker_whose_forked_child_holds_the_pipe_is_gone_when_it_dies(mischief, tmp_path):
    mischief("step", "child")
    began = time.monotonic()
    events = taught(Processes(1, step_timeout=300.0), job(stubborn.task, "a"))
    assert [event.message for event in events] == ["its worker process died (signal 6)"]
    assert time.monotonic() - began < 120
    os.kill(told(tmp_path / "mischief.child"), signal.SIGKILL)


# Environments that quit


@pytest.fixture
def terminal():
    """Python's own handling of Ctrl-C, whatever the tests were started in."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


SAID = {"exit": "SystemExit: the simulator has had enough", "interrupt": "KeyboardInterrupt: the simulator pressed"}


@pytest.mark.parametrize("how", SAID)
@pytest.mark.parametrize("where", ["make_env", "reset", "step", "close"])
def test_an_environment_that_quits_has_broken(terminal, mischief, where, how):
    mischief(where, how)
    with pytest.raises(NobodyFinished, match=SAID[how]):
        compare(stubborn.task, {"SR1": Fixed("SR1")}, n_students=1, execution=tiny.HERE)


def test_an_environment_that_quits_in_a_worker_has_broken(mischief):
    pool = Processes(1)
    for how, said in SAID.items():
        mischief("step", how)
        (message, _) = taught(pool, job(stubborn.task, "a"), close=False)[-1].errors[0]
        assert message.startswith(f"Student 'a': at a step: {said}")
        mischief("make_env", how)
        assert said in taught(pool, job(stubborn.task, "b"), close=False)[-1].message
    pool.close()


@pytest.mark.parametrize("how", SAID)
@pytest.mark.parametrize("where", ["trigger", "reward"])
def test_a_trigger_or_a_reward_that_quits_is_named(terminal, mischief, where, how):
    mischief(where, how)
    with pytest.raises(TaskError, match=f"The {where} .* raised {SAID[how]}"):
        compare(stubborn.paying, {"SR1": Fixed("SR1")}, n_students=1, execution=tiny.HERE)


@pytest.mark.parametrize("how", SAID)
def test_an_environment_that_quits_breaks_a_promise(terminal, mischief, how):
    mischief("step", how)
    assert SAID[how] in str(check_task(stubborn.task))


def test_the_users_ctrl_c_is_no_error_of_the_environment(terminal, mischief, tmp_path):
    mischief(f"step after {derive_seed(derive_seed(0, 'compare/SR1/000'), 'final', 'env', 0)}", "signal")
    with pytest.raises(KeyboardInterrupt):
        compare(stubborn.task, {"SR1": Fixed("SR1")}, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    with Store(tmp_path / "s") as store:
        assert [(t.error, len(t.units)) for t in store.transcripts()] == [(None, 3)]


# Signals


def catches(pid, number):
    """Whether a process has a handler of its own for a signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@linux_only
@pytest.mark.parametrize("delay", [0.0, 0.2, 0.6])
def test_ctrl_c_while_a_command_starts_ends_it_with_one_line(tmp_path, delay):
    process = command("compare", "tiny:task", "SR1", "--store", tmp_path / "s", "--workers", 1)
    wait_until(lambda: catches(process.pid, signal.SIGTERM))  # Python itself does not
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.startswith("cisr: Stopped.") and said.count("\n") == 1, said


INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("module", ["cisr.system.interrupts", "cisr.core.appearance", "cisr.cli"])
@pytest.mark.parametrize("how", ["module", "script"])
def test_ctrl_c_during_the_very_first_imports_ends_a_command_with_one_line(tmp_path, module, how):
    """All but those of Python itself."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(INTERRUPTED.format(module=module))
    (tmp_path / "cisr").write_text("from cisr.cli import main\nmain()\n")
    path = os.pathsep.join(map(str, [tmp_path / "hook", *sys.path]))
    process = subprocess.run(
        ["env", "--default-signal=INT", sys.executable, *(["-m", "cisr"] if how == "module" else [tmp_path / "cisr"])],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (130, "cisr: Stopped.\n")


@linux_only
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 2), (signal.SIGTERM, 0), (signal.SIGHUP, 1)])
def test_a_signal_ends_a_command_at_once_with_one_line_and_no_orphans(tmp_path, number, workers):
    store = tmp_path / "s"
    words = ("compare", "tiny:task", "SR1", "--students", "3", "--batch", "1", "--workers")
    process = command(*words, workers, "--store", store)
    wait_until(lambda: units_on_disk(store) >= 2)
    started = children(process.pid)
    process.send_signal(number)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    *progress, stopped = said.splitlines()
    assert stopped == "cisr: Stopped. Finished units are kept: run the same command again to go on."
    assert all(line.startswith("Comparing on") for line in progress)  # told where the machine is busy
    assert len(started) == workers
    for worker in started:
        wait_until(lambda worker=worker: is_gone(worker), seconds=5)
    if number == signal.SIGINT:
        assert units_on_disk(store) < 9
        for path in (store, tmp_path / "undisturbed"):
            assert ended(*words, "1", "--store", str(path)) == 0
        assert cells(store) == cells(tmp_path / "undisturbed")


@linux_only
def test_a_hang_up_is_ignored_where_the_user_said_so():
    process = command("tasks", ignoring=["--ignore-signal=HUP"])
    wait_until(lambda: catches(process.pid, signal.SIGTERM))
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "frozen-lake" in out


# Memory


@linux_only
def test_a_worker_whose_environments_keep_memory_is_replaced_and_nothing_else_changes():
    pool, pids, events = Processes(1), [], []
    try:
        for _, event in pool.run([job(stubborn.leaking, "a", "b")]):
            events.append(event)
            if isinstance(event, Checkpoint):
                pids.append(pool._workers[0].child._process.pid)
    finally:
        pool.close()
    calm = taught(Processes(1), job(tiny.task, "a", "b"))
    assert len(pids) == 3 and len(set(pids)) > 1
    assert events[-1] == calm[-1]
    kept, expected = ([e for e in each if isinstance(e, Checkpoint)] for each in (events, calm))
    for one, other in zip(kept, expected, strict=True):
        assert one.records == other.records
        for name, array in one.weights.items():
            np.testing.assert_array_equal(array, other.weights[name])


STARTS = {
    "an audit": "audit(tiny.task)",
    "an audit here": "audit(tiny.task, n_workers=0)",
    "training": "compare(tiny.task, {'SR1': Fixed('SR1')}, n_students=1, execution=tiny.HERE)",
    "a study": "Study(tiny.task, execution=Execution(n_workers=1)).run()",
    "a store": "Store('study.sqlite')",
    "a process": "start_process('cisr.training.worker')",
}


@pytest.mark.parametrize("what", STARTS)
def test_a_module_that_works_when_a_worker_imports_it_is_refused_by_name(tmp_path, monkeypatch, what):
    """It would have a worker start, which imports it, and so on without an end."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    name = f"unguarded_{what.replace(' ', '_')}"
    imports = "import tiny\nfrom cisr import *\nfrom cisr.training.process import start_process\n"
    (tmp_path / f"{name}.py").write_text(f"{imports}{STARTS[what]}\ntask = 1\n")
    found = loaded(f"c{name}\ntask\n.".encode())  # a pickle of what the module has under that name
    assert isinstance(found, Broken) and found.users_fault
    assert f"Module '{name}'" in found.message and 'if __name__ == "__main__":' in found.message
    assert not (tmp_path / "study.sqlite").exists()


def test_a_module_that_leaves_when_a_worker_imports_it_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaves_at_once.py").write_text("import sys\nsys.exit()\n")
    assert "cannot be loaded there: SystemExit" in loaded(b"cleaves_at_once\ntask\n.").message


def test_so_is_what_pythons_own_workers_import_and_all_else_may_start(monkeypatch):
    check_not_loading()
    with loading():
        pass
    check_not_loading()
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)  # as Python does
    with pytest.raises(ConfigError, match="a worker process imports it"):
        check_not_loading()
