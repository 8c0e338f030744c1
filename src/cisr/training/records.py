"""What goes into a classroom and what comes out of it, as plain frozen records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from cisr.core.callback import ProgressEvent
from cisr.core.intervention import NONE
from cisr.core.task import Task
from cisr.curricula import CurriculumPolicy, Observation, Stage
from cisr.students.kinds import AnyStudent


def total(counts: Sequence[int | None]) -> int | None:
    """The sum of what was counted; None where some of it is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, kw_only=True)
class StudentSpec:
    """One student to be taught: who it is, under which curriculum policy, and its seed."""

    name: str
    policy: CurriculumPolicy
    config: AnyStudent
    seed: int


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """How a frozen policy did, under one intervention or on its own. What a student elsewhere did not tell is None."""

    under: str
    """The intervention in force; `none` for the task itself."""
    steps: int | None
    episodes: int | None
    mean_return: float
    score: float
    """The mean return; in M_0 an episode with a rescue or a failure counts −2·T_0·R_max instead, T_0 its horizon. Of a
    student elsewhere, what was told."""
    failures: int | None
    rescues: int | None
    outcomes: Mapping[str, float]
    """Rate of each of the task's outcomes, as far as they are known."""
    driven: int = 0
    """Steps that controllers drove, on top of the students' own; stores made before there were drives say nothing."""
    visits: tuple[int, ...] | None = None
    """Steps spent on each of a finite task's observations, where the backend counts them."""

    @property
    def success(self) -> float | None:
        return self.outcomes.get("success")

    @property
    def failures_per_episode(self) -> float | None:
        return None if self.failures is None or not self.episodes else self.failures / self.episodes


@dataclass(frozen=True, kw_only=True)
class UnitLog:
    """One interaction unit of one student, as the teacher may see it. What a student elsewhere did not tell is None."""

    unit: int
    """1 … N_s"""
    intervention: str
    steps: int | None
    episodes: int | None
    mean_return: float
    success: float | None
    violation: float
    """Rescues beyond the tolerance, as the mean over episodes."""
    rescues: int | None
    failures: int | None
    multipliers: tuple[float, ...]
    """λ after the unit, one for each of the task's constraints; empty where the student's learner is not ours."""
    driven: int = 0
    """Steps that controllers drove, on top of the student's own."""
    deployment: Deployment | None = None
    """The paper's periodic deployment in M, for analysis only."""
    evaluation: Deployment | None = None
    """How the policy after the unit did in M_0, where it is a candidate to be handed in."""
    seconds: float = field(default=0.0, compare=False)

    @property
    def total_rescues(self) -> int | None:
        """With those of the evaluation."""
        return total([self.rescues, *([self.evaluation.rescues] if self.evaluation else [])])

    @property
    def total_driven(self) -> int:
        """With those of the evaluation."""
        return self.driven + (self.evaluation.driven if self.evaluation else 0)


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """The full record of one student. It ends with a deployment, or with the error that ended it."""

    name: str
    curriculum: Mapping[str, Any]
    """The curriculum policy, as JSON."""
    config: AnyStudent
    seed: int
    units: tuple[UnitLog, ...]
    deployment: Deployment | None = None
    error: str | None = None
    failures_when_broken: int | None = 0
    """Failures in the unit in which an error ended it, which has no record of its own, those in M_0 included; None:
    nobody knows."""
    fresh_starts: tuple[int, ...] = ()
    """The units that it began with new weights, having started over."""

    @property
    def handed_in(self) -> int | None:
        """The unit whose policy was handed in: of those tried in M_0 the best by mean return, of equal ones the later;
        the last where none was tried. None before graduation."""
        if self.deployment is None:
            return None
        tried = [(unit.evaluation.mean_return, unit.unit) for unit in self.units if unit.evaluation]
        return max(tried)[1] if tried else self.units[-1].unit

    @property
    def training_failures(self) -> int | None:
        """Those in M_0 are counted apart. None where nobody knows: the process that trained the student died in the
        middle of a unit, or a student elsewhere did not tell."""
        return total([self.failures_when_broken, *(unit.failures for unit in self.units)])

    @property
    def safe_evaluation_failures(self) -> int | None:
        """In M_0, where its last policies were tried before one was handed in."""
        return total([unit.evaluation.failures for unit in self.units if unit.evaluation])

    @property
    def rescues(self) -> int | None:
        return total([unit.total_rescues for unit in self.units])

    @property
    def driven(self) -> int:
        """Steps that controllers drove."""
        return sum(unit.total_driven for unit in self.units)


def default_observe(unit: UnitLog) -> Observation:
    """What the teacher sees by default: the mean return and the violation of the unit just trained."""
    return Observation(mean_return=unit.mean_return, violation=unit.violation)


def default_score(transcript: Transcript) -> float:
    """What the teacher wants by default: the return of the final policy."""
    assert transcript.deployment is not None
    return transcript.deployment.score


def charged_score(max_reward: float) -> Callable[[Transcript], float]:
    """What our teachers want by default: the return of the final policy, less R_max for every failure.

    Two curricula may earn their students the same return while one of them has students fail three times as often.
    """

    def score(transcript: Transcript) -> float:
        deployment = transcript.deployment
        assert deployment is not None and deployment.failures is not None and deployment.episodes is not None
        return deployment.score - max_reward * deployment.failures / deployment.episodes

    return score


BackendName = Literal["gymnasium", "compiled", "sb3", "elsewhere"]
"""Where experience comes from, and who learns from it: our students on either kind of environment, Stable-Baselines3's
on Gymnasium's, or somebody whom cisr does not know."""


@dataclass(frozen=True, kw_only=True)
class TrainingSetup:
    """What all students of a classroom have in common."""

    task: Task
    backend: BackendName = "gymnasium"
    evaluate_under: str = "none"
    """Where final policies are deployed: `none` for M, or the task's safe evaluation for M_0."""
    safe_evaluation: str | None = None
    """What stands in for the task's safe evaluation where an audit refutes it: another intervention, or `none` where
    there is no M_0 then. None: the task's own holds."""
    deploy_each_unit: bool = False
    """Also deploy in M after each unit, for analysis; this is not safe."""
    episodes: int | None = None
    """Of a deployment, for each student; None for those that begin within the task's `deployment_steps`."""
    observe: Callable[[UnitLog], Any] = default_observe

    @property
    def task_met(self) -> Task:
        """The task as students meet it, with the M_0 that they are really evaluated in."""
        if self.safe_evaluation is None:
            return self.task
        m0 = None if self.safe_evaluation == NONE.name else self.safe_evaluation
        return replace(self.task, safe_evaluation=m0)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Students that are trained together by one program. Rounding depends on the batch, so it is fixed for good."""

    name: str
    students: tuple[StudentSpec, ...]


class UnitRecord(NamedTuple):
    """What is kept of one student at a unit boundary, beside its weights: enough to go on from there."""

    log: UnitLog
    stage: Stage


class Breakdown(NamedTuple):
    """Why a student could not go on."""

    message: str
    failures: int | None = 0
    """Those of the unit in which it happened; None: nobody knows."""


class Progress(NamedTuple):
    """Steps taken since the last such event."""

    steps: int


class Checkpoint(NamedTuple):
    """A unit of a batch is over. Whoever receives this event keeps it before asking for the next one."""

    unit: int  # units done
    weights: dict[str, np.ndarray]  # the learners and their candidates, stacked over the batch
    records: tuple[UnitRecord | None, ...]  # of this unit; None for a student that has broken down
    errors: tuple[Breakdown | None, ...]

    @staticmethod
    def before_the_first(n: int) -> Checkpoint:
        """Where n students begin: they have no weights yet."""
        return Checkpoint(0, {}, (None,) * n, (None,) * n)


class Graduation(NamedTuple):
    """The end of a batch: its students have been deployed, or have broken down."""

    deployments: tuple[Deployment | None, ...]
    errors: tuple[Breakdown | None, ...]


class Abandonment(NamedTuple):
    """The batch could not be taught to its end, and no single student is to blame; the next run tries it again."""

    message: str


Event = Progress | Checkpoint | Graduation | Abandonment


@dataclass(frozen=True)
class BatchProgress(ProgressEvent):
    """What a callback hears of a classroom."""

    batch: Batch
    event: Event
