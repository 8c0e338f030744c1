"""An attacker that is trained: students who are paid for failures under an intervention.

Failures alone are too rare a reward to learn from, so hints are paid as well: for getting where random play seldom
gets and near where it was rescued, and twice as much for being rescued there, because danger lies behind the trigger
set. In a whole episode hints are worth at most half a failure, so that failing is what pays best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from cisr.auditing.counterexample import counterexamples
from cisr.auditing.falsification import Training
from cisr.auditing.play import Arena, AuditProgress, Episode, RandomAttacker, StickyAttacker
from cisr.auditing.twin import Twin, distribution_of, drawn_actions, given_actions, held_actions
from cisr.core.callback import Callback, ProgressEvent, ignore
from cisr.core.errors import ConfigError
from cisr.core.intervention import Array, Intervention
from cisr.core.libraries import GYMNASIUM
from cisr.core.seeding import derive_seed, generator
from cisr.core.task import Task, Transition
from cisr.core.training import Teaching
from cisr.curricula import Fixed
from cisr.store import Store
from cisr.store.load_student import stored_student
from cisr.students.config import StudentConfig
from cisr.students.distributions import Gaussian
from cisr.students.kinds import student_of
from cisr.students.student import Student
from cisr.training import Batching, BatchProgress, Classroom, Progress, StudentSpec, TrainingSetup, Transcript
from cisr.training.setup import choose_backend

if GYMNASIUM:
    from cisr.training.spaces import specs_of

FAILURE_PAY = 100.0
"""Well above what a fresh network takes for value: otherwise hints drown in its errors."""
SCOUTING = 0.1
"""Share of the training steps that is spent on finding out where random play stays."""
STEPS_PER_STUDENT = 3_000
MOST_STUDENTS = 8
STEPS_OF_MANY, MOST_OF_MANY = 1_000_000, 512
"""Where the JAX environment makes steps cheap: of each student, and students at most."""
MOST_SCOUTS = 1_000
"""Episodes of the JAX environment of which all states are kept."""
SHORTEST_ROLLOUT, LONGEST_ROLLOUT = 8, 64
"""Steps in each environment from update to update: short ones make the most of few steps."""
ENTROPIES = (0.01, 0.1, 0.001, 0.03)
"""The students differ in how long they keep exploring; which is best depends on the task."""
MOST_TARGETS = 64
"""Rescues that students are led to."""
MOST_NUMBERS = 1_000_000
"""States that are whole numbers below this are counted, not measured."""
N_UNITS = 4
"""Training reports its progress after each unit."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The best of the students that were trained to fail, and what their training saw."""

    attacker: TrainedAttacker | None
    """None where no student got through its training."""
    students: tuple[Student, ...]
    """All that did."""
    training: Training
    notes: tuple[str, ...]
    """What there is to say of it."""


def obstacle_to_training(task: Task) -> str | None:
    """Why no student can be trained on a task, in words; None where one can."""
    try:
        specs_of(task)
    except ConfigError as error:
        return str(error)
    return None


def train_attacker(
    task: Task,
    intervention: Intervention,
    *,
    budget: int,
    seed: int,
    backend: str = "auto",
    n_workers: int | None = None,
    callback: Callback = ignore,
) -> Trained:
    """Spend about `budget` steps on students that learn to fail; the one that failed most in the end is kept."""
    kind = choose_backend(task, backend)
    look = scout_twin if kind == "compiled" else scout
    scouted = look(task, intervention, int(budget * SCOUTING), derive_seed(seed, "scout"), callback)
    n_students, config = plan_training(task, budget - len(scouted.states), kind)
    setup = TrainingSetup(
        task=hostile_task(task, intervention, scouted),
        backend=kind,
        evaluate_under=_one_step(intervention).name,
    )
    students = [
        StudentSpec(name=name, policy=Fixed(intervention.name), config=settings, seed=derive_seed(seed, name))
        for name, settings in (
            (f"attacker {k}", replace(config, ent_coef=ENTROPIES[k % len(ENTROPIES)])) for k in range(n_students)
        )
    ]

    def count(heard: ProgressEvent) -> None:
        if isinstance(heard, BatchProgress) and isinstance(heard.event, Progress):
            callback(AuditProgress(intervention.name, "training", heard.event.steps))

    with (
        Store(None) as store,
        Classroom(
            setup, store, batching=_batching(kind, n_students), n_workers=_workers(kind, n_workers), callback=count
        ) as room,
    ):
        taught = list(room.teach(students))
        sound = sorted((t for t in taught if t.error is None), key=_promise, reverse=True)
        ours = tuple(_frozen(store, setup, transcript.name) for transcript in sound)
    training = Training(
        students=n_students,
        backend=kind,
        steps=len(scouted.states) + sum(_steps(transcript) for transcript in taught),
        failures=sum(_failures(transcript) for transcript in taught),
        scouting_failures=scouted.failures,
        counterexamples=counterexamples(task, intervention, "scouting", scouted.failed),
    )
    notes = [f"a student that was trained to attack gave up: {t.error}" for t in taught if t.error is not None]
    if training.failures and kind == "compiled":
        seen = f"the JAX environment saw {training.failures:,} failures in training"
        notes.append(f"{seen}: claims about that environment alone")
    attacker = TrainedAttacker(ours[0]) if ours else None
    return Trained(attacker=attacker, students=ours, training=training, notes=tuple(notes))


class TrainedAttacker:
    """A student's frozen policy, drawing its actions as it did in training."""

    def __init__(self, student: Student) -> None:
        self._student = student
        self._from_noise = jax.jit(student.distribution.act)

    def begin(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def act(self, observation: np.ndarray, state: np.ndarray) -> Any:
        student, distribution = self._student, self._student.distribution
        outputs = student.outputs(np.asarray(observation, student.observation.dtype)[None])
        n = (1, distribution.n_outputs)
        noise = self._rng.normal(size=n) if isinstance(distribution, Gaussian) else self._rng.gumbel(size=n)
        return distribution.in_space(np.asarray(self._from_noise(outputs, noise)))[0]


@dataclass(frozen=True, kw_only=True)
class Scouted:
    """Where random and sticky play gets."""

    states: np.ndarray  # (n, d)
    rescued: np.ndarray  # (k, d) those of them that a trigger fired in
    failures: int
    """Episodes that ended in danger."""
    failed: Sequence[Episode] = ()
    """Those on Gymnasium's environment."""


def scout(task: Task, intervention: Intervention, budget: int, seed: int, callback: Callback = ignore) -> Scouted:
    """Random and sticky episodes by turns; at least one of each."""
    episodes: list[Episode] = []
    with Arena(task, intervention) as arena:
        attackers = (RandomAttacker(arena.space), StickyAttacker(arena.space, task.horizon_under(intervention)))
        while len(episodes) < 2 or sum(len(e.steps) for e in episodes) < budget:
            episodes.append(arena.play(attackers[len(episodes) % 2], derive_seed(seed, len(episodes))))
            callback(AuditProgress(intervention.name, "training", len(episodes[-1].steps)))
    steps = [step for episode in episodes for step in episode.steps]
    failed = [episode for episode in episodes if episode.danger is not None]
    return Scouted(
        states=np.array([step.state for step in steps]),
        rescued=np.array([step.state for step in steps if step.rescued]),
        failures=len(failed),
        failed=failed,
    )


def scout_twin(task: Task, intervention: Intervention, budget: int, seed: int, callback: Callback = ignore) -> Scouted:
    """The same in the JAX environment, as far as there is room for states."""
    twin = Twin(task, intervention, given_actions, records=True)
    n = int(np.clip(budget // (2 * twin.horizon), 1, MOST_SCOUTS))
    rng = generator(seed, "scouts")
    held = held_actions(twin.distribution, rng, twin.horizon, n)
    drawn = drawn_actions(twin.distribution, rng, (n, twin.horizon))
    seeds = rng.integers(2**31, size=(1, 2 * n))
    played = twin.play((), np.concatenate([held, drawn])[None].swapaxes(1, 2), seeds)
    assert played.recorded is not None
    callback(AuditProgress(intervention.name, "training", int(played.n_steps.sum())))
    lasted = np.arange(twin.horizon)[:, None] < played.n_steps[0]  # (T, E)
    states, rescued = played.recorded.state[0], played.recorded.rescued[0]
    return Scouted(states=states[lasted], rescued=states[lasted & rescued], failures=int(played.failed(task).sum()))


def hostile_task(task: Task, intervention: Intervention, scouted: Scouted) -> Task:
    """The task as an attacker sees it: the same world, paid for failures."""
    pay = hostile_reward(scouted, task.horizon_under(intervention))
    named = () if intervention.name == "none" else (intervention,)
    return replace(
        task,
        reward=pay,
        interventions=(*named, _one_step(intervention)),
        safe_evaluation=None,
        training=replace(task.training, n_units=N_UNITS, deployment_steps=1, teaching=Teaching()),
    )


def _one_step(intervention: Intervention) -> Intervention:
    """Students are deployed when they have learned; here that would be a waste, and is over after one step."""
    return replace(intervention, name=f"{intervention.name}, one step", horizon=1)


def hostile_reward(scouted: Scouted, horizon: int) -> Callable[[Transition], Array]:
    """What attackers are paid: failures, and hints that are worth at most half of one."""
    states = scouted.states
    lead = novelty_by_count(states) if _numbered(states) else lead_by_distance(states, scouted.rescued[:MOST_TARGETS])

    def pay(transition: Transition) -> Array:
        hint = (1 + transition.rescued) / 2 * lead(transition.move.state)  # 0 to 1
        return FAILURE_PAY * (transition.failed + hint / (2 * horizon))

    return pay


def novelty_by_count(states: np.ndarray) -> Callable[[Array], Array]:
    """1 / √(1 + visits) for states that are numbers (n, 1)."""
    visits = np.bincount(states[:, 0], minlength=1)
    table = np.append(1 / np.sqrt(1 + visits), 1.0).astype(np.float32)  # the last for numbers never seen

    def novelty(state: Array) -> Array:
        number = state[..., 0].clip(0, len(visits))
        return state.__array_namespace__().asarray(table)[number]

    return novelty


def lead_by_distance(states: np.ndarray, rescued: np.ndarray) -> Callable[[Array], Array]:
    """Half for being far from where random play (n, d) stays, half for being near one of its rescues (k, d).

    Far is z / (1 + z) with z = ‖s − mean‖, near is 1 / (1 + z) with z = min ‖s − rescue‖, in units of the deviation and
    as root mean squares over dimensions.
    """
    spread = states.std(axis=0)
    varies = (spread > 0) & np.isfinite(spread)
    scale = np.where(varies, 1 / np.where(varies, spread, 1), 0).astype(np.float32) / np.sqrt(max(varies.sum(), 1))
    centre = np.where(varies, states.mean(axis=0), 0).astype(np.float32)
    targets = rescued.astype(np.float32)

    def lead(state: Array) -> Array:
        away = (((state - centre) * scale) ** 2).sum(axis=-1) ** 0.5
        far = away / (1 + away)
        if not len(targets):
            return far
        off = (((state[..., None, :] - targets) * scale) ** 2).sum(axis=-1).min(axis=-1) ** 0.5
        return (far + 1 / (1 + off)) / 2

    return lead


def _numbered(states: np.ndarray) -> bool:
    whole = np.issubdtype(states.dtype, np.integer) and states.shape[-1] == 1
    return whole and bool(states.min() >= 0 and states.max() < MOST_NUMBERS)


def plan_training(task: Task, budget: int, backend: str) -> tuple[int, StudentConfig]:
    """How many students are trained for about `budget` steps in all, and their settings: the task's, in small updates,
    or in its own where there are steps for many.

    Several students, because each finds its own way; N_UNITS units of one round, because there are no constraints.
    """
    own = student_of(task)
    n_students = min(max(budget // STEPS_PER_STUDENT, 1), MOST_STUDENTS)
    if backend == "compiled":
        n_students = max(n_students, min(budget // STEPS_OF_MANY, MOST_OF_MANY))
    per_unit = budget // (n_students * N_UNITS)
    longest = max(LONGEST_ROLLOUT, own.n_steps) if per_unit * N_UNITS >= STEPS_OF_MANY else LONGEST_ROLLOUT
    updates = max(-(-per_unit // (longest * own.n_envs)), 1)
    n_steps = max(per_unit // (updates * own.n_envs), SHORTEST_ROLLOUT)
    if n_steps > LONGEST_ROLLOUT:
        n_steps -= n_steps % own.n_minibatches  # few steps of many
    return n_students, replace(
        own,
        n_steps=n_steps,
        n_minibatches=math.gcd(own.n_minibatches, n_steps * own.n_envs),
        rounds_per_unit=1,
        updates_per_round=updates,
        clip_range_vf=None,
        multiplier_bound=0.0,
    )


def _frozen(store: Store, setup: TrainingSetup, name: str) -> Student:
    """A student that acts; Gymnasium need not be there if it did not learn there."""
    stored = stored_student(store, name)
    if setup.backend == "compiled":
        assert setup.task.jax_env is not None and isinstance(stored.config, StudentConfig)
        env = setup.task.jax_env()
        return Student(stored.config, env.observation, distribution_of(env), stored.params, stored.statistics)
    student = stored.ready(setup.task)
    assert isinstance(student, Student)  # attackers are ours
    return student


def _promise(transcript: Transcript) -> tuple[float, float]:
    """Students are chosen by their last unit: failures per episode, then what they were paid."""
    last = transcript.units[-1]
    assert last.failures is not None and last.episodes
    return last.failures / last.episodes, last.mean_return


def _steps(transcript: Transcript) -> int:
    last = transcript.deployment
    return sum(unit.steps or 0 for unit in transcript.units) + (last.steps or 0 if last else 0)


def _failures(transcript: Transcript) -> int:
    last = transcript.deployment
    return (transcript.training_failures or 0) + (last.failures or 0 if last else 0)


def _batching(backend: str, n_students: int) -> Batching:
    """One batch; several where steps are compiled and there are cores for them."""
    if backend != "compiled":
        return Batching(1, n_students)
    usual = Batching.usual(backend)
    return usual._replace(largest=min(usual.largest, -(-n_students // usual.side_by_side)))


def _workers(backend: str, n_workers: int | None) -> int | None:
    """One batch of students needs one worker at most."""
    return n_workers if backend == "compiled" else 1 if n_workers is None else min(n_workers, 1)
