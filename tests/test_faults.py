"""A small part of the campaign of `benchmarks/faults.py`: environments that misbehave, and disks that fill up."""

import damage
import faulty
import faulty_runs
import full_disks
import pytest
import tiny
from faulty import Fault
from full_disks import Case

from cisr import Fixed
from cisr.testing import check_task
from cisr.training import Abandonment, Batch, Checkpoint, StudentSpec, TrainingSetup
from cisr.training.executors import InThisProcess, Processes
from cisr.training.worker import Job


@pytest.fixture(scope="module")
def pool():
    pool = Processes(1)
    yield pool
    pool.close()


@pytest.fixture
def last_event(tmp_path, monkeypatch):
    """How teaching two students ends where a fault happens."""
    mischief = tmp_path / "mischief"
    monkeypatch.setenv("MISCHIEF", str(mischief))

    def last_event(executor, fault):
        monkeypatch.setenv("CALLS", "0")
        fault.tell(mischief)
        students = [StudentSpec(name=name, policy=Fixed("SR1"), config=tiny.student, seed=1) for name in "ab"]
        job = Job(TrainingSetup(task=faulty.gymnasium_lake), Batch(name="a", students=tuple(students)), None)
        *_, (_, event) = executor.run([job])
        return event

    return last_event


SAID = {
    "an error without words": "UnspeakableError: (it cannot say what)",
    "an error beside Exception": "OfItsOwn: panic",
    "half a character": r"ValueError: half \ud800 a letter",
    "the end of a generator": "GeneratorExit: ",
}


@pytest.mark.parametrize("how", SAID)
def test_whatever_an_environment_raises_is_its_error(last_event, how):
    end = last_event(InThisProcess(), Fault("step", how, at=1, once=False))
    assert [error.message.split(": at a step: ")[1].startswith(SAID[how]) for error in end.errors] == [True, True]
    end = last_event(InThisProcess(), Fault("make_env", how, at=3, once=True))
    assert SAID[how] in end.errors[0].message and end.errors[1] is None


def test_a_twin_that_pays_no_number_once_its_student_is_deployed_is_no_result(tmp_path, monkeypatch):
    monkeypatch.setenv("MISCHIEF", str(tmp_path / "mischief"))
    task = faulty.compiled_lake
    students = (StudentSpec(name="a", policy=Fixed("SR1"), config=tiny.student, seed=1),)
    job = Job(TrainingSetup(task=task, backend="compiled"), Batch(name="a", students=students), None)
    for _, event in InThisProcess().run([job]):
        # What deploys has not been compiled yet.
        if isinstance(event, Checkpoint) and event.unit == task.training.n_units:
            Fault("jax_env.step_env", "a JAX environment that pays no number", at=1, once=False).tell(
                tmp_path / "mischief"
            )
    assert event.deployments == (None,) and "not finite once deployed" in event.errors[0].message


@pytest.mark.parametrize("how", SAID)
def test_whatever_an_environment_raises_breaks_a_promise(tmp_path, monkeypatch, how):
    monkeypatch.setenv("MISCHIEF", str(tmp_path / "mischief"))
    monkeypatch.setenv("CALLS", "0")
    Fault("step", how, at=1, once=False).tell(tmp_path / "mischief")
    assert SAID[how].split(" ")[0] in str(check_task(faulty.gymnasium_lake))


def test_environments_of_a_worker_cannot_reach_its_messages(pool, tmp_path, monkeypatch):
    """They may ask, close files, start processes and leave them behind: it is their own affair."""
    mischief = tmp_path / "mischief"
    monkeypatch.setenv("MISCHIEF", str(mischief))  # the worker starts after this
    students = [StudentSpec(name=name, policy=Fixed("SR1"), config=tiny.student, seed=1) for name in "ab"]
    job = Job(TrainingSetup(task=faulty.gymnasium_lake), Batch(name="a", students=tuple(students)), None)

    def taught():
        return [event for _, event in pool.run([job])][-1]

    calm = taught()
    assert calm.errors == (None, None)
    for how in ("return twice", "die and leave a child", "close all files"):
        Fault("step", how, at=1, once=True).tell(mischief)
        assert taught() == calm, how
        assert not mischief.exists(), "it has happened"
    for how, said in (("a question", "EOFError"), ("a question to a child", "IndexError")):
        Fault("step", how, at=1, once=False).tell(mischief)
        assert said in taught().errors[0].message
    Fault("step", "exit with 72", at=1, once=False).tell(mischief)
    assert taught() == Abandonment("its worker process died (exit code 72)")


def test_a_fault_is_told_in_one_line_and_changes_nobody_elses_results(tmp_path):
    calm = faulty_runs.undisturbed(tmp_path, "gymnasium")
    case = faulty_runs.Case("gymnasium", Fault("step", "an endless message", at=700, once=True), workers=1)
    assert faulty_runs.suffer(case, tmp_path, calm) == []


def test_cases_follow_from_a_seed_and_all_kinds_are_among_them():
    cases = [faulty_runs.drawn(seed, backend) for backend in faulty.WHERE for seed in range(200)]
    assert cases == [faulty_runs.drawn(seed, backend) for backend in faulty.WHERE for seed in range(200)]
    assert {case.kind for case in cases} == {"raises", "hangs", "dies", "harmless", "answers wrongly"}


def test_a_disk_that_fills_up_loses_nothing_and_says_so(tmp_path):
    (tmp_path / "patient").mkdir()
    patient = damage.Patient.make(tmp_path / "patient")
    cases = [
        Case("store", "bytes of a file", 40_960, "from nothing"),
        Case("store", "bytes of a file", 45_056, "unfinished"),
        Case("report --out", "bytes of a file", 20_480, "over an old one"),
    ]
    if full_disks.can_mount(tmp_path):
        cases += [Case("store", "bytes", 131_072, "from nothing"), Case("store", "files", 4, "from nothing")]
    for case in cases:
        folder = tmp_path / str(case)
        folder.mkdir()
        assert full_disks.suffer(case, patient, folder) == (True, []), case
