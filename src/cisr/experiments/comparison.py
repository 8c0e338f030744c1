"""What a comparison says: how the students of each curriculum did, with honest intervals.

Failures in training and failures in deployment are two columns: the first must not happen under a certified
intervention, the second are what the student does once the teacher is gone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cisr.core.checks import check_text, check_whole
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.experiments import guidance
from cisr.experiments.differences import Difference, Sample, Value, against_the_others
from cisr.experiments.statistics import Estimate, Share, estimate, share
from cisr.experiments.withdrawal import Withdrawn
from cisr.store import Store, owner_of
from cisr.store.load_student import load_student
from cisr.store.provenance import describe
from cisr.training import Deployment, Transcript

if TYPE_CHECKING:
    from cisr.students.student import Student
    from cisr.training.sb3 import SB3Actor

MEASURES = {"success": 3, "return": 2, "training_failures": 1}
"""By which groups of students are told apart, and digits to show."""
LEARNED = 0.3
"""A student has failed to learn if it succeeds in less than this share of its episodes, once deployed.

Students hardly ever end up between: they find the goal or they do not. Where no student of a comparison has ever
succeeded, nobody is said to have failed: a task may have no success at all, such as keeping a pole up.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """How the students of one curriculum did."""

    curriculum: str
    students: int
    finished: int
    policies: int
    """Curriculum policies that they were under. Where there are several, each is one value of the estimates."""
    success: Estimate
    failed_to_learn: Share | None
    """Of those that finished; None where nobody ever succeeds."""
    learned: Estimate | None
    """Success of the others."""
    mean_return: Estimate
    """Of the score: in M_0 an episode with a rescue or a failure counts −2·T_0·R_max."""
    training_failures: Estimate
    students_with_failures: Share
    """Of those whose failures are known."""
    unknown_failures: int
    """Students of whom nobody knows how often they failed, because they broke."""
    safe_evaluation_failures: Estimate
    """In M_0, where last policies were tried before one was handed in; none of them are in training."""
    rescues: Estimate
    driven: Estimate
    """Steps in training that controllers drove."""
    deployment_failures: Estimate
    outcomes: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """By the names of the fields, but for the `return`."""
        told = {"return" if name == "mean_return" else name: one for name, one in vars(self).items()}
        return {name: one.to_json() if isinstance(one, Estimate | Share) else one for name, one in told.items()}


class Kept(NamedTuple):
    """Where the students of a comparison can be found again."""

    store: Path
    task: Task


@dataclass(frozen=True, kw_only=True)
class Comparison:
    task: str
    scale: str
    student_kind: str | None = None
    """What the task calls its students."""
    rows: tuple[Row, ...]
    transcripts: Mapping[str, tuple[Transcript, ...]]
    guidance: tuple[str, ...] = ()
    """What the task's author should know, see `cisr.experiments.guidance`."""
    withdrawn: tuple[Withdrawn, ...] = ()
    """Certificates of the store's audit that its students have contradicted."""
    kept: Kept | None = field(default=None, repr=False, compare=False)
    """None where the store was in memory."""

    def student(self, curriculum: str, number: int = 0) -> Student | SB3Actor:
        """A student of the comparison, ready to act; numbers begin with 0.

        >>> action = comparison.student("SR1", 0).predict(observation)  # doctest: +SKIP
        """
        if check_text("The curriculum", curriculum) not in self.transcripts:
            known = ", ".join(self.transcripts)
            raise ConfigError(f"The comparison has no curriculum '{curriculum}': choose one of {known}.")
        students = self.transcripts[curriculum]
        number = check_whole("The number of a student", number, 0, len(students) - 1)
        if self.kept is None:
            raise ConfigError("The comparison was kept in no file, and its students are gone: give `compare` a store.")
        with Store(self.kept.store, read_only=True) as store:
            return load_student(store, self.kept.task, students[number].name)

    @property
    def title(self) -> str:
        return titled(self.task, self.scale, self.student_kind)

    @property
    def deployed_under(self) -> str:
        """The intervention that final policies were deployed under; `none` for the task itself."""
        deployments = (t.deployment for students in self.transcripts.values() for t in students)
        return next((deployment.under for deployment in deployments if deployment), "none")

    @property
    def measured(self) -> dict[str, dict[str, Sample]]:
        return measure_groups(self.transcripts)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The first curriculum against each other one."""
        return against_the_others(self.measured)

    def to_json(self) -> dict[str, Any]:
        rows = [row.to_json() for row in self.rows]
        differences = [difference.to_json() for difference in self.differences]
        return {
            "task": self.task,
            "scale": self.scale,
            "student": self.student_kind,
            "deployed_under": self.deployed_under,
            "rows": rows,
            "differences": differences,
            "guidance": list(self.guidance),
            "withdrawn": [one.to_json() for one in self.withdrawn],
        }


def titled(task: str, scale: str, student: str | None) -> str:
    """What students were trained on, in words."""
    return f"{task} ({scale} scale{f', {student} students' if student else ''})"


def comparison_of(
    task: Task,
    groups: Mapping[str, tuple[Transcript, ...]],
    kept: Kept | None = None,
    contradicted: tuple[Withdrawn, ...] = (),
) -> Comparison:
    return Comparison(
        task=task.name,
        scale=task.training.scale,
        student_kind=task.training.student_kind,
        rows=summarise_groups(groups),
        transcripts=groups,
        guidance=guidance.of_comparison(groups, describe(task)),
        withdrawn=contradicted,
        kept=kept,
    )


def summarise_groups(groups: Mapping[str, Sequence[Transcript]]) -> tuple[Row, ...]:
    """A row for each curriculum of a comparison."""
    can_succeed = any(_ever_succeeded(t) for students in groups.values() for t in students)
    return tuple(summarise_group(label, students, can_succeed) for label, students in groups.items())


def summarise_group(label: str, transcripts: Sequence[Transcript], can_succeed: bool = True) -> Row:
    """Sum up the students that finished; training failures count for those that broke, too."""
    finished = [(t, t.deployment) for t in transcripts if t.deployment is not None]
    successes = [d.success for _, d in finished if d.success is not None]
    over = [t for t in transcripts if t.deployment or t.error]  # of the others nobody knows what is still to come
    failures = [n for t in over if (n := t.training_failures) is not None]
    n_policies = len({_policy(t) for t in transcripts})

    def over_finished(of: Callable[[Transcript, Deployment], float | None], *within: float) -> Estimate:
        values = class_means(transcripts, lambda t: of(t, t.deployment) if t.deployment else None)
        return estimate(values, (within[0], within[1]) if within else None)

    def counted(yes: Sequence[bool]) -> Share:
        """Students of one teacher are not drawn one by one: their share has no exact interval."""
        found = share(sum(yes), len(yes))
        return found if n_policies <= 1 else replace(found, low=None, high=None)

    known = [d.outcomes for _, d in finished if d.outcomes]
    return Row(
        curriculum=label,
        students=len(transcripts),
        finished=len(finished),
        policies=n_policies,
        success=over_finished(lambda t, d: d.success, 0, 1),
        failed_to_learn=counted([value < LEARNED for value in successes]) if can_succeed else None,
        learned=over_finished(lambda t, d: d.success if (d.success or 0) >= LEARNED else None, LEARNED, 1)
        if can_succeed
        else None,
        mean_return=over_finished(lambda t, d: d.score),
        training_failures=estimate(class_means(over, lambda t: t.training_failures)),
        students_with_failures=counted([n > 0 for n in failures]),
        unknown_failures=len(over) - len(failures),
        safe_evaluation_failures=estimate(class_means(over, lambda t: t.safe_evaluation_failures)),
        rescues=over_finished(lambda t, d: t.rescues),
        driven=over_finished(lambda t, d: t.driven),
        deployment_failures=over_finished(lambda t, d: d.failures_per_episode, 0, 1),
        outcomes={name: float(np.mean([rates[name] for rates in known])) for name in (known[0] if known else {})},
    )


def measure_groups(groups: Mapping[str, Sequence[Transcript]]) -> dict[str, dict[str, Sample]]:
    """By measure, then by curriculum, the students that finished and what is known of the others, see `units`."""
    measured = {label: measure_units(units(students)) for label, students in groups.items()}
    return {measure: {label: found[measure] for label, found in measured.items()} for measure in MEASURES}


def measure_units(drawn: Sequence[Sequence[Transcript]]) -> dict[str, Sample]:
    """By measure the values of students that chance has drawn in these units."""
    values: tuple[Callable[[Transcript], Value | None], ...] = (
        lambda t: _value(t.deployment.success) if t.deployment else Value(None, 0.0, 1.0),
        lambda t: _value(t.deployment.score) if t.deployment else Value(None, -math.inf, math.inf),
        _failures,
    )

    def sample(value: Callable[[Transcript], Value | None]) -> Sample:
        found = (tuple(v for t in unit if (v := value(t)) is not None) for unit in drawn)
        return Sample(tuple(unit for unit in found if unit))

    return {measure: sample(value) for measure, value in zip(MEASURES, values, strict=True)}


def _value(number: float | None) -> Value | None:
    return None if number is None else Value(number, number, number)


def _failures(student: Transcript) -> Value | None:
    """Whoever did not finish would have failed as often as it did, at least."""
    number = student.training_failures
    if student.deployment is not None:
        return _value(number)
    return Value(number if student.error else None, number or 0.0, math.inf)


def units(transcripts: Sequence[Transcript]) -> list[list[Transcript]]:
    """What chance has drawn independently: each student by itself where all were under one curriculum policy.

    Where there are several policies, as when every teacher of a reproduction has found one, the students of a policy
    share its curriculum policy: then each teacher's class counts once.
    """
    classes: dict[tuple[str, str], list[Transcript]] = {}
    for transcript in transcripts:
        classes.setdefault((owner_of(transcript.name), _policy(transcript)), []).append(transcript)
    several = len({policy for _, policy in classes}) > 1
    return list(classes.values()) if several else [[t] for t in transcripts]


def class_means(transcripts: Sequence[Transcript], value: Callable[[Transcript], float | None]) -> list[float]:
    """The mean over each unit's students that have a value, where there are any."""
    known = ([v for t in unit if (v := value(t)) is not None] for unit in units(transcripts))
    return [float(np.mean(values)) for values in known if values]


def median_student(group: Sequence[Transcript]) -> str | None:
    """The name of the student in the middle, by return in deployment; None where nobody has finished."""
    ranked = sorted((t.deployment.mean_return, t.name) for t in group if t.deployment is not None)
    return ranked[len(ranked) // 2][1] if ranked else None


def _policy(transcript: Transcript) -> str:
    return json.dumps(transcript.curriculum, sort_keys=True)


def _ever_succeeded(transcript: Transcript) -> bool:
    deployed = transcript.deployment is not None and (transcript.deployment.success or 0) > 0
    return deployed or any((unit.success or 0) > 0 for unit in transcript.units)
