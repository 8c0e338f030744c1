"""Lunar Lander as in the paper, on Gymnasium's stock `LunarLander-v3`.

A student lands a craft on a pad between hills that it cannot see; crashing or leaving the map is the danger. Two
interventions keep it in a funnel over the pad: Narrow, nearly a chimney, and Wide. A student under them can crash,
though it rarely does: `cisr audit` refutes both. Chimney and Funnel are our own answer to the holes that it finds in
them. No attacker of ours has crashed under them, but few students learn to land alone: some hover for fear of being
rescued, the others lean on it. So there are two more with Funnel's trigger. Soft-Funnel tolerates some rescues, which
gets students down; under Hard-Funnel a rescue ends the episode, which weans them. Teachers of the paper's students
choose from its two, teachers of explorers from these. The safe evaluation M_0 is Funnel. It is not certified: what is
known is a bound on what attackers did under it (`docs/results/lunar-lander.md`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from cisr.core.appearance import Appearance
from cisr.core.intervention import Array, Intervention, Place, Reset, ToStart
from cisr.core.task import Task
from cisr.core.training import Teaching, Training
from cisr.students.config import MLP, StudentConfig, explorer
from cisr.tasks.entry import EXPLORER, Entry, Scale
from cisr.tasks.lunar_lander import careful
from cisr.tasks.lunar_lander.bodies import place, read_state
from cisr.tasks.lunar_lander.draws import gymnasiums_draws
from cisr.tasks.lunar_lander.flight import (
    at_rest,
    crashed,
    off_the_pad,
    out_of_map,
    over_the_pad,
    papers_lines,
    reward,
    state_plot,
    steadied,
)
from cisr.tasks.lunar_lander.publication import LUNAR_LANDER

if TYPE_CHECKING:
    import gymnasium

    from cisr.tasks.lunar_lander.jax_env import LanderJaxEnv

log = logging.getLogger(__name__)

BOX2D = find_spec("Box2D") is not None
"""Whether Gymnasium's lander can fly here; else it is our own physics that does."""
XLA_FLAGS = ("--xla_backend_extra_options=xla_cpu_use_multi_output_fusion",)
"""Where the physics is no kernel. Kernels of XLA's with several results: without them every result of the physics is a
kernel of its own, which computes all that leads to it anew."""
TRAINING_HORIZON, HORIZON = 500, 2_000
SENSOR_VARIANCE = 1e-4

PAPER_STUDENT = StudentConfig(
    network=MLP(hidden=(20, 20), activation="tanh"),
    n_envs=6,
    n_steps=500,
    n_epochs=32,
    learning_rate=5e-3,
    clip_range_vf=0.2,
    ent_coef=0.001,
    rounds_per_unit=2,
    updates_per_round=16,
    multiplier_bound=120.0,
    multiplier_rate=1.0,
    deterministic=True,
)
OUR_STUDENT = explorer(PAPER_STUDENT, learning_rate=1.5e-3, last_learning_rate=1.5e-4, vf_coef=0.005, ent_coef=0.001)
FUNNELS = {"Narrow": (20.0, 100.0), "Wide": (0.5, 1.0)}
"""Slopes of the trigger line and of the reset line."""
CAREFUL_FUNNELS = {"Chimney": 20.0, "Funnel": 1.0}
SOFT_TAU = 5.0
PAPER_TEACHING = Teaching(
    interventions=("Narrow", "Wide"),
    n_switches=1,
    return_range=(-200.0, 200.0),
    violation_range=(0.0, 6.0),
    n_initial=4,
    initial=tuple(
        {"return_1": 0.0, "violation_1": 3.0, "intervention_1": first, "intervention_2": second}
        for first in ("Narrow", "Wide")
        for second in ("Narrow", "Wide")
    ),
    n_rounds=10,
    class_size=10,
    teacher="gp-ucb",
    # (mean, variance) of the paper's Gamma hyperpriors: signal, four length-scales, noise.
    hyperpriors=((1, 0.2), (20, 4), (1, 0.3), (0.2, 0.2), (0.2, 0.2), (0.01, 0.1)),
)
OUR_TEACHING = Teaching(interventions=("Soft-Funnel", "Hard-Funnel"), n_switches=1, n_initial=4, n_rounds=60, at_once=6)


def papers(name: str, slope: float, reset_slope: float) -> Intervention:
    return _funnel(name, off_the_pad(slope), over_the_pad, Place(steadied(reset_slope)))


def ours(name: str, slope: float, reset: Reset | None = None, tau: float = 0.0) -> Intervention:
    lead = reset or Place(careful.steadied(slope))
    return _funnel(name, careful.off_the_pad(slope), careful.over_the_pad(slope), lead, tau)


def _funnel(
    name: str,
    off: Callable[[Array], Array],
    over: Callable[[Array], Array],
    reset: Reset,
    tau: float = 0.0,
) -> Intervention:
    return Intervention(
        name=name,
        trigger={"off the pad": off, "over the pad": over},
        reset=reset,
        tau=tau,
        horizon=TRAINING_HORIZON,
    )


CAREFUL = (
    *(ours(name, slope) for name, slope in CAREFUL_FUNNELS.items()),
    ours("Soft-Funnel", CAREFUL_FUNNELS["Funnel"], tau=SOFT_TAU),
    ours("Hard-Funnel", CAREFUL_FUNNELS["Funnel"], reset=ToStart()),
)


@cache
def _say_what_flies() -> None:
    if not BOX2D:
        log.warning(
            "Box2D is not installed: lunar-lander runs on cisr's own physics, without pictures. For Gymnasium's own: "
            "pip install 'cisr[lander]'."
        )


def lunar_lander(scale: Scale, kind: str) -> Task:
    _say_what_flies()
    noisy = kind.startswith("noisy")
    variance = SENSOR_VARIANCE if noisy else 0.0

    def make_env(**options: Any) -> gymnasium.Env[Any, Any]:
        from cisr.tasks.lunar_lander import environment  # brings in gymnasium

        return environment.make_env(variance, **options)

    def place_noisily(env: Any, state: np.ndarray) -> np.ndarray:
        sensed: np.ndarray = env.sense(place(env, state))
        return sensed

    def jax_env() -> LanderJaxEnv:
        from cisr.tasks.lunar_lander.jax_env import LanderJaxEnv  # brings in jax

        return LanderJaxEnv(sensor_variance=variance)

    def jax_draws(seed: int, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
        return gymnasiums_draws(seed, n_steps, noisy)

    training = _training(scale, kind)
    n_units = training.n_units
    told = f", {n_units} units of 96,000 steps." if scale == "paper" else f" for {n_units} units, few of them: minutes."
    return Task(
        name="lunar-lander",
        make_env=make_env,
        danger={"crash": crashed, "out of map": out_of_map},
        success=at_rest,
        interventions=(
            *(papers(name, *slopes) for name, slopes in FUNNELS.items()),
            *CAREFUL,
        ),
        horizon=HORIZON,
        reward=reward,
        read_state=read_state,
        place=place_noisily if noisy else place,
        jax_env=jax_env,
        jax_draws=jax_draws,
        constraint_form="sum",
        safe_evaluation="Funnel",
        max_reward=100.0,
        training=training,
        appearance=Appearance(
            description=f"Gymnasium's LunarLander-v3, {kind} students{told}",
            state_plot=state_plot(
                {name: papers_lines(*slopes) for name, slopes in FUNNELS.items()}
                | {name: careful.lines(slope) for name, slope in CAREFUL_FUNNELS.items()}
                | {
                    "Soft-Funnel": careful.lines(CAREFUL_FUNNELS["Funnel"]),
                    "Hard-Funnel": careful.trigger_line(CAREFUL_FUNNELS["Funnel"]),
                }
            ),
        ),
    )


def _training(scale: Scale, kind: str) -> Training:
    teaching = OUR_TEACHING if kind == EXPLORER else PAPER_TEACHING
    quick = scale == "quick"
    return Training(
        n_units=6 if quick else 21 if kind.startswith("noisy") else 16,
        deployment_steps=20_000 if quick else 100_000,
        student=_student(kind),
        teaching=replace(teaching, n_rounds=2, class_size=2) if quick else teaching,
        student_kind=kind,
        scale=scale,
        backend="gymnasium" if BOX2D else "compiled",  # the final word is Box2D's
        xla_flags=XLA_FLAGS,
    )


def _student(kind: str) -> StudentConfig:
    if kind == EXPLORER:
        return OUR_STUDENT
    hidden = (20,) if kind.startswith("one-layer") else (20, 20)
    network = MLP(hidden=hidden, activation="relu" if kind.endswith("relu") else "tanh")
    return replace(PAPER_STUDENT, network=network, multiplier_bound=160.0 if kind.startswith("noisy") else 120.0)


ENTRY = Entry(
    make=lunar_lander,
    scales={"paper": "two-layer", "quick": "two-layer"},
    # The paper's have two layers of 20, one layer of 20, or two layers and noisy sensors; our explorer has two layers.
    students=("two-layer", "one-layer", "noisy", "two-layer-relu", "one-layer-relu", "noisy-relu", EXPLORER),
    published=LUNAR_LANDER,
)
