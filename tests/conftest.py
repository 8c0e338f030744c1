import functools
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

# Compiled programs are shared between all tests and their subprocesses, and kept apart from the user's own.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parent.parent / ".pytest_cache" / "caches")

# Properties are tried on the same examples everywhere, and machines may be slow.
settings.register_profile("same everywhere", derandomize=True, database=None, deadline=None)
settings.load_profile("same everywhere")


@pytest.fixture(scope="session")
def box2d():
    """What flies a lander needs it."""
    pytest.importorskip("Box2D", reason="Lunar Lander needs Box2D: pip install 'cisr[lander]'")


@pytest.fixture
def flown(flown_once, tmp_path_factory):
    """A store of one's own with landers that hardly know anything, two under a published teacher, two under none."""
    own = tmp_path_factory.mktemp("flown") / "own"
    shutil.copytree(flown_once.parent, own)
    return own / flown_once.name


@pytest.fixture(scope="session")
def flown_once(box2d, tmp_path_factory):
    import tiny

    from cisr import Fixed, compare
    from cisr.experiments.publications import published_teachers

    path = tmp_path_factory.mktemp("flown") / "store.sqlite"
    curricula = {"LL-A": published_teachers("lunar-lander")["LL-A"], "none": Fixed("none")}
    compare(tiny.lander, curricula, n_students=2, store=path, execution=tiny.HERE)
    return path


@pytest.fixture
def in_this_process(monkeypatch, tmp_path):
    """A folder for code as users write it, and the quickest way to run it: no processes to start, and batches of one
    size, so that little is compiled."""
    import cisr

    monkeypatch.chdir(tmp_path)
    quick = cisr.Execution(n_workers=0, batch=2)
    for name in ("compare", "Study"):
        monkeypatch.setattr(cisr, name, functools.partial(getattr(cisr, name), execution=quick))
