"""A learning rate that falls from unit to unit, on both backends."""

import dataclasses

import numpy as np
import pytest
import tiny

from cisr import Fixed
from cisr.training import Batch, Checkpoint, StudentSpec, TrainingSetup, compiled, gymnasium

BACKENDS = {"compiled": compiled.train, "gymnasium": gymnasium.train}
FALLING = dataclasses.replace(tiny.student, last_learning_rate=0.0)


def policies(backend, checkpoint=None, *configs):
    """The students' weights after each unit, one row a unit, (units, S, n)."""
    students = [StudentSpec(name=f"s{k}", policy=Fixed("SR1"), config=c, seed=1) for k, c in enumerate(configs)]
    setup = TrainingSetup(task=tiny.compiled, backend=backend)
    events = [e for e in BACKENDS[backend](setup, Batch(name="batch", students=tuple(students)), checkpoint)]
    checkpoints = [event for event in events if isinstance(event, Checkpoint)]
    rows = [
        np.concatenate([a.reshape(len(configs), -1) for name, a in sorted(c.weights.items()) if "params/" in name], 1)
        for c in checkpoints
    ]
    return checkpoints, np.stack(rows)


@pytest.mark.parametrize("backend", BACKENDS)
def test_who_no_longer_learns_keeps_its_policy_and_its_neighbour_learns_on(backend):
    _, (first, second, third) = policies(backend, None, FALLING, tiny.student)
    assert np.array_equal(first[0], first[1])  # the same student so far
    assert not np.array_equal(first[0], second[0]) and not np.array_equal(second[0], second[1])
    assert np.array_equal(second[0], third[0])
    assert not np.array_equal(second[1], third[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_student_that_goes_on_from_a_checkpoint_learns_as_fast_as_one_that_was_never_stopped(backend):
    checkpoints, whole = policies(backend, None, FALLING)
    _, rest = policies(backend, checkpoints[0], FALLING)
    assert np.array_equal(whole[1:], rest)
