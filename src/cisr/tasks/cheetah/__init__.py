"""A robot: MuJoCo's HalfCheetah, on Gymnasium's stock `HalfCheetah-v5`, that must keep to a band of heights.

As in the experiments of Wagener, Boots and Cheng ("Safe Reinforcement Learning Using Advantage-Based Intervention",
2021) the danger is that the front hip leaves [0.4 m, 1 m]: the robot falls on its nose, or rears up. Ours runs for ten
seconds, and it is a success to come 25 m far in them without leaving the band.

Three rescues, for a teacher to choose from. Steady is a controller that brings the robot to a crouch, and sometimes
comes too late; Rewind puts it back to where it was half a second ago, physics and all; under Stop the episode is over.
Rewind and Stop trigger where one more step of 0.05 s could leave the band, Steady earlier, because it must still act.
The safe evaluation M_0 is Stop. None of them is certified: `docs/results/cheetah.md` says what attackers found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cisr.core.appearance import Appearance
from cisr.core.intervention import Drive, Intervention, Rewind, ToStart
from cisr.core.task import Task
from cisr.core.training import Teaching, Training
from cisr.students.config import MLP, StudentConfig, explorer
from cisr.tasks.cheetah import body
from cisr.tasks.entry import EXPLORER, Entry, Scale

if TYPE_CHECKING:
    import gymnasium

HORIZON = 200
LATE, EARLY = (0.46, 0.92, 0.05), (0.46, 0.9, 0.1)
"""Heights that a hip must keep to, and the seconds that a trigger looks ahead."""
TAU = 2.0

STUDENT = explorer(
    StudentConfig(
        network=MLP(hidden=(64, 64), activation="tanh", separate_value=True),
        n_envs=8,
        n_steps=128,
        n_minibatches=8,
        n_epochs=8,
        rounds_per_unit=2,
        updates_per_round=6,
        gamma=0.97,
        gae_lambda=0.95,
        multiplier_bound=1.5,
        multiplier_rate=0.1,
        bootstrap_time_limit=True,
        normalize_observations=True,
        normalize_rewards=True,
    ),
    learning_rate=1e-3,
    last_learning_rate=2e-4,
    ent_coef=0.0,
    vf_coef=0.5,
    n_candidates=2,
)
TEACHING = Teaching(
    n_switches=1, return_range=(10.0, 200.0), violation_range=(0.5, 5.0), n_initial=4, n_rounds=6, at_once=2
)

INTERVENTIONS = (
    Intervention(
        name="Steady",
        trigger=body.leaving(*EARLY),
        reset=Drive(body.steadying, until=body.steady, max_steps=20),
        tau=TAU,
    ),
    Intervention(name="Rewind", trigger=body.leaving(*LATE), reset=Rewind(10), tau=TAU),
    Intervention(name="Stop", trigger=body.leaving(*LATE), reset=ToStart(), tau=0.0),
)


def make_env(**options: Any) -> gymnasium.Env[Any, Any]:
    from cisr.tasks.cheetah import environment  # brings in gymnasium

    return environment.make_env(**options)


def save(env: gymnasium.Env[Any, Any]) -> Any:
    from cisr.tasks.cheetah import environment

    return environment.save(env)


def restore(env: gymnasium.Env[Any, Any], saved: Any) -> None:
    from cisr.tasks.cheetah import environment

    environment.restore(env, saved)


def cheetah(scale: Scale, kind: str) -> Task:
    training = _training(scale, kind)
    steps = STUDENT.steps_per_unit
    return Task(
        name="cheetah",
        make_env=make_env,
        danger={"fall": body.fell, "rearing": body.reared},
        success=body.came_far,
        interventions=INTERVENTIONS,
        horizon=HORIZON,
        reward=body.reward,
        read_state=body.read_state,
        save=save,
        restore=restore,
        constraint_form="sum",
        safe_evaluation="Stop",
        max_reward=10.0,
        training=training,
        appearance=Appearance(
            description=f"MuJoCo's HalfCheetah-v5 in a band of heights, {training.n_units} units of {steps:,} steps.",
            state_plot=body.state_plot({"Steady": EARLY[:2], "Rewind": LATE[:2], "Stop": LATE[:2]}),
        ),
    )


def _training(scale: Scale, kind: str) -> Training:
    quick = scale == "quick"
    return Training(
        n_units=3 if quick else 5,
        deployment_steps=1_000 if quick else 4_000,
        student=STUDENT,
        teaching=replace(TEACHING, n_rounds=2) if quick else TEACHING,
        student_kind=kind,
        scale=scale,
    )


ENTRY = Entry(make=cheetah, scales={"paper": EXPLORER, "quick": EXPLORER}, students=(EXPLORER,))
