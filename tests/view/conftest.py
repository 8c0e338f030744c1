import pytest
import tiny

from cisr import Store
from cisr.experiments.reproduce import reproduce


@pytest.fixture(scope="session")
def reproduction(tmp_path_factory):
    """A store, and what `reproduce` said when it made it."""
    path = tmp_path_factory.mktemp("reproduction") / "store.sqlite"
    with Store(path) as store:
        return path, reproduce(tiny.published, store, n_teachers=2, n_students=2, seed=5, execution=tiny.HERE)


@pytest.fixture(scope="session")
def reproduced(reproduction):
    return reproduction[0]
