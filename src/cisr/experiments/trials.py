"""The trials of a study as its store has them: curriculum policies by number, and how their classes scored."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np

from cisr.core.checks import LARGEST, check_number
from cisr.core.errors import CisrError, ConfigError, described
from cisr.curricula import Parameters
from cisr.experiments.statistics import standard_error
from cisr.store import Store, StoredTrial
from cisr.system.interrupts import users_errors
from cisr.training import StudentSpec, Transcript

Score = Callable[[Transcript], float]


def scored(score: Score, student: Transcript) -> float:
    """What a teacher wants of a student; the function is the user's, and the transcript stays as it is."""
    who = f"The score of student '{student.name}'"
    try:
        given: Any = score(copy.deepcopy(student))
        number = float(given) if isinstance(given, SupportsFloat) else given
    except (CisrError, MemoryError):
        raise
    except users_errors() as error:
        raise ConfigError(f"{who}: the study's function raised {described(error)}.") from error
    check_number(who, number)
    if abs(number) > LARGEST:
        raise ConfigError(f"{who} is {number:g}: give a number from {-LARGEST:g} to {LARGEST:g}.")
    return float(number)


class Trials:
    """Students of trial k are named `<study>/<k>/<number>`."""

    def __init__(self, store: Store, study: str, score: Score) -> None:
        self._store = store
        self._study = study
        self._score = score

    def all(self) -> list[StoredTrial]:
        return self._store.trials(self._study)

    def recorded(
        self, first: int, policies: Sequence[Parameters], model: Mapping[str, Any] | None = None
    ) -> list[Parameters]:
        """These policies, now on record as proposed from number `first` on, where they were not before."""
        for number in range(max(first, len(self.all())), first + len(policies)):
            self._store.propose(self._study, number, policies[number - first], dict(model or {}))
        return [trial.parameters for trial in self.all()[first : first + len(policies)]]

    def untold(self, first: int, policies: Sequence[Parameters]) -> dict[int, Parameters]:
        """Those of the policies from number `first` on that have no score yet."""
        known = self.all()
        return {number: point for number, point in enumerate(policies, first) if not known[number].told}

    def broken(self) -> dict[int, Parameters]:
        """Policies that have a score, but students that an error ended or whose weights were lost."""
        classes = {student.name.rpartition("/")[0] for student in self.transcripts() if student.deployment is None}
        known = self.all()
        told = enumerate(known[: sum(trial.told for trial in known)])
        return {k: trial.parameters for k, trial in told if f"{self._study}/{k:03d}" in classes}

    def students(self, numbers: Iterable[int]) -> list[Transcript]:
        """The transcripts of some classes."""
        return [t for number in numbers for t in self._store.transcripts(f"{self._study}/{number:03d}/")]

    def transcripts(self) -> list[Transcript]:
        return self._store.transcripts(f"{self._study}/")

    def keep_scores(self, classes: Mapping[int, list[StudentSpec]], taught: Mapping[str, Transcript]) -> None:
        """Sum up classes and tell the store. An unfinished student counts as the worst finished one of the study."""
        worst = None
        if any(taught[student.name].error is not None for students in classes.values() for student in students):
            finished = [student for student in self.transcripts() if student.deployment is not None]
            worst = min((scored(self._score, student) for student in finished), default=None)
        for number, students in classes.items():
            score, sem = summarise([taught[student.name] for student in students], self._score, worst)
            self._store.tell(self._study, number, score, sem)


def summarise(
    transcripts: Sequence[Transcript], score: Score, worst: float | None = None
) -> tuple[float | None, float | None]:
    """Mean score of a class and its standard error; (None, None) if nobody finished, no error for a single student.

    Who did not finish counts as `worst`: a policy under which students break must not be judged by the survivors.
    """
    scores = [scored(score, transcript) for transcript in transcripts if transcript.error is None]
    if not scores:
        return None, None
    scores += [min(scores) if worst is None else worst] * (len(transcripts) - len(scores))
    return float(np.mean(scores)), standard_error(scores)
