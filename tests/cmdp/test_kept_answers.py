"""What environments answer is kept as it was, also by environments that write their answers anew at every step."""

import in_place
import numpy as np
import pytest
import tiny

from cisr import Drive, Fixed, InducedCMDP, Override, Place, Rewind, Store, ToStart, compare
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.experiments.playing import play
from cisr.testing import check_task

VETO = {"trigger": lambda state, action: abs(state + 0.3 * action).max(axis=-1) > in_place.NEAR}
BACK = {"place": in_place.place}
SAVED = {"save": lambda env: env.unwrapped.at.copy(), "restore": in_place.restore}
RESCUES = {
    "a rewind by copies": (Rewind(1), {}),
    "a long rewind by copies": (Rewind(3), {}),
    "a rewind by place": (Rewind(2), BACK),
    "a rewind by restore": (Rewind(2), SAVED),
    "a place": (Place(lambda state, history, u: history.mean(axis=-2) * u[..., :1], n_history=3, n_uniforms=1), BACK),
    "a drive": (Drive(lambda state: np.clip(-state, -1, 1).astype(np.float32), max_steps=3), {}),
    "an override": (Override(lambda state, action: -np.sign(state).astype(np.float32)), VETO),
    "the start": (ToStart(), {}),
}
rescues = pytest.mark.parametrize(("reset", "fields"), RESCUES.values(), ids=RESCUES)


def told(step, cmdp):
    """All that is kept of a step, as it is then."""
    move = cmdp.transition.move
    infos = [info["deep"][0]["at"] for info in cmdp.infos]
    return [np.array(x) for x in (*step, cmdp.observations, *move[:4], move.info["at"], infos, cmdp.transition.after)]


@rescues
@pytest.mark.parametrize("box", [True, False], ids=["one part", "a dictionary"])
def test_episodes_are_those_of_the_environment_with_new_answers(reset, fields, box):
    rows = []
    for fresh in (True, False):
        task = in_place.task(reset, fresh=fresh, box=box, **fields)
        rows.append(InducedCMDPs(task, task.interventions[0], [task.make_env() for _ in range(3)]))
    rng, rescued, starts = np.random.default_rng(0), 0, [row.seed([1, 2, 3]) for row in rows]
    np.testing.assert_array_equal(*starts)
    for _ in range(60):
        actions = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        given = actions.copy()
        steps = [row.step(actions) for row in rows]
        np.testing.assert_array_equal(actions, given)  # they are the student's
        for one, other in zip(*(told(step, row) for step, row in zip(steps, rows, strict=True)), strict=True):
            np.testing.assert_array_equal(one, other)
        rescued += int(steps[0].rescued.sum())
        for k in np.flatnonzero(steps[0].terminated | steps[0].truncated).tolist():
            starts = [row.restart(k) for row in rows]
            np.testing.assert_array_equal(starts[0][0], starts[1][0])
    assert rescued > 5


@rescues
def test_what_was_seen_is_not_changed_by_the_steps_that_follow(reset, fields):
    task = in_place.task(reset, fresh=False, **fields)
    env = InducedCMDP(task, "rescue")
    seen, info = env.reset(seed=0)
    kept = [(seen, info["at"], info["deep"][0]["at"])]
    frozen = [[part.copy() for part in kept[0]]]
    for _ in range(12):
        seen, _, terminated, truncated, info = env.step(np.array([0.9, 0.1], np.float32))
        if terminated or truncated:
            seen, info = env.reset()
        kept.append((seen, info["at"], info["deep"][0]["at"]))
        frozen.append([part.copy() for part in kept[-1]])
    np.testing.assert_array_equal(kept, frozen)
    steps = list(play(task, lambda observation: np.ones(2, np.float32), task.make_env(), under="rescue"))
    assert len(np.unique([step.state for step in steps], axis=0)) > 2


def test_a_learner_may_write_into_what_it_is_shown():
    task = in_place.task(Rewind(1), fresh=True, trigger=lambda state: abs(state[..., 0]) >= 0)
    env = InducedCMDP(task, "rescue")
    seen, _ = env.reset(seed=0)
    first = seen.copy()
    seen[:] = 0
    for _ in range(2):
        seen, *_ = env.step(np.ones(2, np.float32))
        np.testing.assert_array_equal(seen, first)
        seen[:] = 0


@rescues
def test_it_keeps_its_promises(reset, fields):
    assert not check_task(in_place.task(reset, fresh=False, reward=None, **fields))


@pytest.mark.parametrize("student", ["ours", "SB3"])
def test_students_learn_the_same(student):
    told = []
    for fresh in (True, False):
        task = in_place.task(Rewind(1), fresh=fresh)
        if student == "SB3":
            sb3_tasks = pytest.importorskip("sb3_tasks")
            task = task.with_training(student=sb3_tasks.students["PPO"])
        with Store(None) as store:
            compare(task, {"rescue": Fixed("rescue")}, n_students=1, store=store, execution=tiny.HERE)
            (transcript,) = store.transcripts()
        assert transcript.rescues
        told.append((transcript.units, transcript.deployment))
    assert told[0] == told[1]
