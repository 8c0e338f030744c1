"""Driving on a highway: highway-env's `highway-fast`, three lanes in dense traffic, for twenty seconds.

A student acts five times a second, by highway-env's meta-actions: left, on, right, faster, slower. It is paid for
speed, up to 10 in an episode, and a collision, which is the danger, costs 5; whoever gets through has succeeded. Five
interventions watch the same two things, whether the ego comes too close to whoever is ahead, and whether it changes
into a lane without room:

- Brake, an instructor with controls of his own (`Drive`): steers back and brakes until neither is so any more;
- Co-driver, who has a hand on the wheel (`Override`): vetoes what would lead there, and keeps the lane;
- Rewind: the last second over again, from copies;
- Stop: the lesson is over (`ToStart`);
- Veto: what the co-driver would not let through ends the lesson (`Override`). Its students may come close, as long as
  they do the right thing there, and so learn what that is.

The first three tolerate some rescues, so that students dare to drive fast; the others tolerate none, which weans them.
Stop is the safe evaluation M_0, too. None of them is certified: other drivers brake and change lanes as well, and what
is known is a bound on what attackers did (`docs/results/highway.md`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cisr.core.appearance import Appearance
from cisr.core.errors import ConfigError
from cisr.core.intervention import Array, Drive, Intervention, Override, Rewind, ToStart
from cisr.core.task import Move, Task
from cisr.core.training import Teaching, Training
from cisr.students.config import MLP, StudentConfig, explorer
from cisr.tasks.entry import EXPLORER, Entry, Scale
from cisr.tasks.highway.driving import (
    corrected,
    cutting_in,
    settled,
    speeding_up_to,
    state_plot,
    steered_clear,
    too_close,
    turning_into,
)
from cisr.tasks.highway.scene import CRASH_COST, DECISIONS, read_state, restore, save

if TYPE_CHECKING:
    import gymnasium

HORIZON = 20 * DECISIONS
TAU = {"Brake": 1.0, "Co-driver": 1.0, "Rewind": 1.0, "Stop": 0.0, "Veto": 0.0}
"""Rescues that each tolerates in an episode, by each trigger."""
STUDENT = explorer(
    StudentConfig(
        network=MLP(hidden=(64, 64), activation="tanh"),
        n_envs=8,
        n_steps=128,
        n_minibatches=8,
        n_epochs=8,
        rounds_per_unit=1,
        updates_per_round=3,
        learning_rate=1e-3,
        last_learning_rate=3e-4,
        gamma=0.97,
        vf_coef=0.5,
        multiplier_bound=5.0,
    ),
    ent_coef=0.01,
    n_candidates=1,
)
TEACHING = Teaching(
    interventions=("Brake", "Veto", "Co-driver", "Stop", "Rewind"),  # the first students take them in turn, two each
    n_switches=1,
    return_range=(0.0, 4.0),
    violation_range=(-2.0, 2.0),
    n_initial=5,
    n_rounds=20,
    at_once=4,
)


def make_env(**options: Any) -> gymnasium.Env[Any, Any]:
    try:
        from cisr.tasks.highway import environment  # brings in highway-env
    except ImportError as error:
        raise ConfigError(f"Highway needs highway-env ({error}): pip install 'cisr[highway]'.") from error
    return environment.make_env(**options)


def crashed(move: Move) -> Array:
    """Whoever's fault it was."""
    return move.terminated


def survived(move: Move) -> Array:
    """The end of the drive, without a crash."""
    return ~move.terminated


WATCHED = {"too close": too_close, "cutting in": cutting_in}
VETOED = {"too close": speeding_up_to, "cutting in": turning_into}
INTERVENTIONS = (
    Intervention(name="Brake", trigger=WATCHED, reset=Drive(steered_clear, settled, max_steps=20), tau=TAU["Brake"]),
    Intervention(name="Co-driver", trigger=VETOED, reset=Override(corrected), tau=TAU["Co-driver"]),
    Intervention(name="Rewind", trigger=WATCHED, reset=Rewind(DECISIONS), tau=TAU["Rewind"]),
    Intervention(name="Stop", trigger=WATCHED, reset=ToStart(), tau=TAU["Stop"]),
    Intervention(name="Veto", trigger=VETOED, reset=Override(corrected, ends=True), tau=TAU["Veto"]),
)


def highway(scale: Scale, kind: str) -> Task:
    quick = scale == "quick"
    n_units = 3 if quick else 10
    return Task(
        name="highway",
        make_env=make_env,
        danger={"collision": crashed},
        success=survived,
        interventions=INTERVENTIONS,
        horizon=HORIZON,
        read_state=read_state,
        save=save,
        restore=restore,
        constraint_form="sum",
        safe_evaluation="Stop",
        max_reward=CRASH_COST,
        training=Training(
            n_units=n_units,
            deployment_steps=1_000 if quick else 3_000,
            student=STUDENT,
            teaching=replace(TEACHING, n_rounds=2) if quick else TEACHING,
            student_kind=kind,
            scale=scale,
        ),
        appearance=Appearance(
            description=f"highway-env's highway-fast, {n_units} units of {STUDENT.steps_per_unit:,} steps.",
            state_plot=state_plot(tuple(TAU)),
        ),
    )


ENTRY = Entry(make=highway, scales={"paper": EXPLORER, "quick": EXPLORER}, students=(EXPLORER,))
