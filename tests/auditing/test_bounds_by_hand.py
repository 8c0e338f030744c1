"""Bounds on failures once alone, on tasks so small that the worst policy within the tolerances is known."""

from dataclasses import replace

import numpy as np
import pytest
from random_cmdps import FALL, TableEnv, evaluate

from cisr import NONE, Intervention, Rewind, Task
from cisr.auditing.exact import exact_audit
from cisr.core.model import FiniteModel


def task_of(moves, n_states, zones, tau, form, horizon):
    """`moves` are (state, action, probability, next state, reward, terminated), for two actions; 0 is the start."""
    source, action, probability, target, reward, terminated = map(np.array, zip(*moves, strict=True))
    model = FiniteModel(
        states=np.arange(n_states)[:, None],
        n_actions=2,
        source=source,
        action=action,
        probability=probability.astype(float),
        target=target,
        reward=reward.astype(float),
        terminated=terminated.astype(bool),
        start=np.eye(n_states)[0],
    )
    trigger = {f"at {zone}": (lambda s, zone=zone: s[..., 0] == zone) for zone in zones}
    return Task(
        name="by hand",
        make_env=lambda: TableEnv(model),
        model=lambda: model,
        danger=lambda move: move.reward == FALL,
        success=lambda move: move.terminated & (move.reward > 0),
        interventions=(Intervention(name="help", trigger=trigger, reset=Rewind(1), tau=tau),),
        horizon=horizon,
        constraint_form=form,
    )


def always(task, *actions):
    """The policy that takes one action in each state."""
    return np.broadcast_to(np.eye(2)[list(actions)], (task.horizon, len(actions), 2))


def bound(task):
    return exact_audit(task)["help"].numbers.first_trigger_bound


def test_each_of_two_triggers_has_the_tolerance_to_itself():
    """Action 1 leads to one of two zones, and from there to a fall."""
    moves = [(0, 0, 1, 3, 0, True), (0, 1, 0.5, 1, 0, False), (0, 1, 0.5, 2, 0, False), (3, 0, 1, 3, 0, True)]
    moves += [(3, 1, 1, 3, 0, True), *((s, a, 1, 3, FALL, True) for s in (1, 2) for a in (0, 1))]
    task = task_of(moves, 4, zones=(1, 2), tau=0.5, form="sum", horizon=2)
    bold = np.array(always(task, 0, 0, 0, 0))
    bold[0, 0] = [0, 1]
    assert evaluate(task, task.intervention("help"), bold).sums.tolist() == [0.0, 0.5, 0.5]
    assert evaluate(task, NONE, bold).sums[0] == 1.0
    assert bound(task) == pytest.approx(1.0)


def test_a_rescue_in_a_long_episode_is_a_small_mean():
    """Half of the episodes end at once. The others are rescued once in ten steps, a mean of 0.1, and without the
    teacher they would have fallen: students that keep E[n/L] ≤ 0.05 may fall half of the time."""
    moves = [(0, a, 0.5, s, 0, s == 3) for a in (0, 1) for s in (1, 3)]
    moves += [(1, 0, 1, 1, 0, False), (1, 1, 1, 2, 0, False)]
    moves += [(s, a, 1, 3, FALL if s == 2 else 0, True) for s in (2, 3) for a in (0, 1)]
    task = task_of(moves, 4, zones=(2,), tau=0.05, form="mean", horizon=10)
    once = np.array(always(task, 0, 0, 0, 0))
    once[1, 1] = [0, 1]  # into the zone in the second step, and never again
    kept = evaluate(task, task.intervention("help"), once)
    assert kept.keeps(task.intervention("help"), "mean") and kept.means == pytest.approx([0.0, 0.05])
    assert evaluate(task, NONE, once).sums[0] == 0.5
    assert bound(task) == pytest.approx(0.5)
    assert kept.gained <= exact_audit(task)["help"].numbers.best_return


def test_who_is_still_there_at_the_horizon_may_have_succeeded():
    """Action 1 falls one time in ten; action 0 ends the episode nine times in ten, and is no success."""
    moves = [(0, 0, 0.1, 0, 0, False), (0, 0, 0.9, 1, 0, True), (0, 1, 0.9, 0, 0, False), (0, 1, 0.1, 1, FALL, True)]
    moves += [(1, a, 1, 1, 0, True) for a in (0, 1)]
    task = replace(task_of(moves, 2, zones=(1,), tau=0, form="sum", horizon=3), success=lambda move: ~move.terminated)
    numbers = exact_audit(task).numbers
    assert numbers.best_success == pytest.approx(0.9**3)
    assert numbers.best_success_never_failing == pytest.approx(0.1**3)
