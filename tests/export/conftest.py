import shutil

import pytest
import tiny

from cisr import Execution, Fixed, NobodyFinished, Observation, Store, Study, compare, task_elsewhere
from cisr.store.load_student import load_student

ARM = task_elsewhere("arm", ["held", "slow"], n_units=3, n_initial=2, n_rounds=2)

QUICKLY = Execution(n_workers=0, batch=2)
"""Batches of one size, so that little is compiled."""


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """A store of a small study and a comparison."""
    path = tmp_path_factory.mktemp("trained") / "store.sqlite"
    with Store(path) as store:
        Study(tiny.task, teaching=tiny.teaching(n_initial=2, n_rounds=1), store=store, execution=QUICKLY).run()
        compare(tiny.task, {"SR1": Fixed("SR1"), "none": Fixed("none")}, n_students=2, store=store, execution=QUICKLY)
    return path


@pytest.fixture
def trained(trained_once, tmp_path):
    """A copy of one's own."""
    shutil.copytree(trained_once.parent, tmp_path / "own")
    return tmp_path / "own" / trained_once.name


@pytest.fixture(scope="session")
def broken(tmp_path_factory):
    """A store of students that all broke."""
    path = tmp_path_factory.mktemp("broken") / "store.sqlite"
    with pytest.raises(NobodyFinished):
        compare(tiny.explosive, {"SR1": Fixed("SR1")}, n_students=2, store=path, execution=QUICKLY)
    return path


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory):
    """A store of students elsewhere: one was given up, of the others little is known, and one is not done."""
    path = tmp_path_factory.mktemp("elsewhere") / "arm.sqlite"
    study = Study(ARM, store=path)
    for score in (1.0, None, 3.0):
        trial = study.ask()
        while trial.unit is not None and (score is not None or trial.unit == 1):
            trial.next_intervention(Observation(0.5 * trial.unit, violation=0.25))
        study.tell(trial, score)
    study.ask()
    return path


@pytest.fixture(scope="session")
def student(trained_once):
    """Of the comparison, ready to act."""
    with Store(trained_once, read_only=True) as store:
        return load_student(store, tiny.task, "compare/SR1/000")
