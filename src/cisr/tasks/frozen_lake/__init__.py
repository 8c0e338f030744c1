"""Frozen Lake as in the paper, on Gymnasium's stock `FrozenLake-v1`.

A student crosses a slippery lake to a goal; falling into the water is the danger. The paper's interventions: SR1 and
SR2 put the student back one step when it comes within one or two tiles of the water; HR sends it back to the start,
which ends the episode, when it comes within one tile. One of our own, HA, judges actions: a student that is about to
risk the water takes a safe step instead, and its episode ends. It may walk along the water, which the others keep it
from, and so learns how to behave there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cisr.core.appearance import Appearance
from cisr.core.intervention import Array, Intervention, Override, Rewind, ToStart
from cisr.core.task import Move, Task
from cisr.core.training import Teaching, Training
from cisr.students.config import CNN, MLP, StudentConfig, explorer
from cisr.tasks.entry import EXPLORER, Entry, Scale
from cisr.tasks.frozen_lake.lake import GOAL_REWARD, HORIZON, PAPER_MAP, Lake
from cisr.tasks.frozen_lake.publication import FROZEN_LAKE

if TYPE_CHECKING:
    import gymnasium

    from cisr.tasks.frozen_lake.jax_env import LakeJaxEnv


PAPER_STUDENT = StudentConfig(
    network=CNN(filters=(32, 64), kernel_size=3, hidden=(32,)),
    n_envs=4,
    n_steps=128,
    n_epochs=9,
    learning_rate=1e-3,
    clip_range_vf=0.2,
    ent_coef=0.05,
    rounds_per_unit=2,
    updates_per_round=9,
    multiplier_bound=0.5,
    multiplier_rate=1.0,
)
SMALL_STUDENT = replace(PAPER_STUDENT, network=MLP(hidden=(64,)), learning_rate=2e-3, ent_coef=0.03)
EXPLORERS: dict[Scale, StudentConfig] = {
    "paper": explorer(PAPER_STUDENT, ent_coef=0.1, learning_rate=5e-4, clip_range_vf=0.2),
    "quick": explorer(SMALL_STUDENT, ent_coef=0.1, clip_range_vf=0.2),
}
PAPER_INTERVENTIONS = ("SR1", "SR2", "HR")
PAPER_TEACHING = Teaching(
    interventions=PAPER_INTERVENTIONS,
    n_switches=2,
    return_range=(-0.5, 5.5),
    violation_range=(0.0, 0.2),
    n_initial=10,
    n_rounds=20,
    class_size=1,
    teacher="gp-ucb",
    # (mean, variance) of the paper's Gamma hyperpriors: signal, seven length-scales, noise.
    hyperpriors=((1, 0.2), (1, 1), (0.05, 0.02), (1, 1), (0.05, 0.02), *[(0.2, 0.2)] * 3, (0.01, 0.1)),
)
OUR_TEACHING = Teaching(n_switches=2, n_initial=3, n_rounds=27, at_once=3)


def lake_task(lake: Lake, horizon: int = HORIZON, **changes: Any) -> Task:
    """A Frozen Lake task on any map, with the paper's interventions; `changes` replace fields of the task."""

    def make_env(**options: Any) -> gymnasium.Env[Any, Any]:
        from cisr.tasks.frozen_lake import environment  # brings in gymnasium, which the compiled backend does without

        return environment.make_env(lake, horizon, **options)

    def place(env: gymnasium.Env[Any, Any], state: np.ndarray) -> np.ndarray:
        env.unwrapped.s = int(state[0])  # type: ignore[attr-defined]
        return np.array(lake.images[int(state[0])])

    task = Task(
        name="frozen-lake",
        make_env=make_env,
        danger=_on(lake.where("H")),
        success=_on(lake.where("G")),
        interventions=(
            Intervention(name="SR1", trigger=near(lake, 1), reset=Rewind(1), tau=0.1),
            Intervention(name="SR2", trigger=near(lake, 2), reset=Rewind(1), tau=0.1),
            Intervention(name="HR", trigger=near(lake, 1), reset=ToStart(), tau=0.0),
        ),
        horizon=horizon,
        place=place,
        safe_evaluation="HR",
        max_reward=GOAL_REWARD,
        jax_env=lambda: _jax_env(lake),
        model=lambda: lake.model,
        appearance=Appearance(floor_plan=_floor_plan(lake)),
    )
    return replace(task, **changes)


def _floor_plan(lake: Lake) -> dict[str, Any]:
    zones = {"SR1": lake.near_lakes(1), "SR2": lake.near_lakes(2), "HR": lake.near_lakes(1)}
    return {"rows": list(lake.rows), "zones": {name: np.flatnonzero(zone).tolist() for name, zone in zones.items()}}


def _jax_env(lake: Lake) -> LakeJaxEnv:
    from cisr.tasks.frozen_lake.jax_env import LakeJaxEnv  # brings in jax

    return LakeJaxEnv(lake)


def near(lake: Lake, distance: int) -> Callable[[Array], Array]:
    """A trigger: within a Manhattan distance of a lake."""
    zone = lake.near_lakes(distance)
    return lambda state: _look_up(zone, state)


def hard_on_actions(lake: Lake) -> Intervention:
    """HA: an action that may lead into a lake, at once or by leaving no safe action after it, ends the episode with a
    safe one in its place."""
    risky, safe = ~lake.safe_actions, lake.safe_actions.argmax(axis=-1)

    def trigger(state: Array, action: Array) -> Array:
        return state.__array_namespace__().asarray(risky)[state[..., 0], action]

    return Intervention(
        name="HA", trigger=trigger, reset=Override(lambda state, action: _look_up(safe, state), ends=True), tau=0.0
    )


def _on(tiles: np.ndarray) -> Callable[[Move], Array]:
    return lambda move: _look_up(tiles, move.state)


def _look_up(tiles: np.ndarray, state: Array) -> Array:
    """What a table over tiles says of states (..., 1), as an array of the states' own kind."""
    return state.__array_namespace__().asarray(tiles)[state[..., 0]]


def frozen_lake(scale: Scale, kind: str) -> Task:
    ours = kind == EXPLORER
    if scale == "paper":
        teaching = OUR_TEACHING if ours else PAPER_TEACHING
        description = f"The paper's 10×10 lake and search, {kind} students, 11 units of 9,216 steps."
    else:
        differs: dict[str, Any] = {"patience": 4} if ours else {"interventions": PAPER_INTERVENTIONS}
        teaching = replace(OUR_TEACHING, n_rounds=57, at_once=6, **differs)
        description = f"The paper's lake, small {kind} students: a teacher in minutes."
    lake = Lake(PAPER_MAP)
    task, plan = lake_task(lake), _floor_plan(lake)
    plan["zones"]["HA"] = np.flatnonzero(~lake.safe_actions.all(axis=-1) & lake.where("F")).tolist()
    return replace(
        task,
        interventions=(*task.interventions, hard_on_actions(lake)),
        training=Training(
            n_units=11,
            student={"cnn": PAPER_STUDENT, "mlp": SMALL_STUDENT, EXPLORER: EXPLORERS[scale]}[kind],
            teaching=teaching,
            student_kind=kind,
            scale=scale,
        ),
        appearance=Appearance(description=description, floor_plan=plan),
    )


ENTRY = Entry(
    make=frozen_lake,
    scales={"paper": "cnn", "quick": "mlp"},
    students=("cnn", "mlp", EXPLORER),  # the paper's, small ones, and our explorer of either by the scale
    published=FROZEN_LAKE,
)
