"""What teachers believe while they search. Their models take seconds: another thread asks them, and the page is drawn
anew when they have answered."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from cisr.core.errors import CisrError
from cisr.experiments.interim import interim_finding
from cisr.store.meaning import making_sense_of
from cisr.view.contents import Contents, StudyRecord


class Answer(NamedTuple):
    told: int
    """Trials that the teacher was told."""
    found: Mapping[str, Any] | None


class Beliefs:
    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._asked: set[str] = set()

    @property
    def found(self) -> tuple[tuple[str, int], ...]:
        """Another one whenever a teacher has answered."""
        return tuple((name, answer.told) for name, answer in list(self._answers.items()))

    def added_to(self, contents: Contents) -> Contents:
        """The contents with the last that is known of studies that are not over; asks for more where trials were told
        since."""
        return replace(contents, studies=tuple(self._with_belief(contents, study) for study in contents.studies))

    def _with_belief(self, contents: Contents, study: StudyRecord) -> StudyRecord:
        if study.over:
            return study
        told = sum(trial.told for trial in study.rounds)
        answer = self._answers.get(study.name)
        if told and (answer is None or answer.told != told) and study.name not in self._asked:
            self._asked.add(study.name)
            threading.Thread(target=self._ask, args=(contents, study, told), daemon=True).start()
        # What was found with more trials than there are now is of a study that was set aside.
        return replace(study, found=answer.found) if answer is not None and answer.told <= told else study

    def _ask(self, contents: Contents, study: StudyRecord, told: int) -> None:
        found = None
        try:
            with suppress(CisrError), making_sense_of(f"The study {study.name}"):
                found = interim_finding(study.name, study.run, contents.settings, study.rounds, study.classes)
        finally:
            self._answers[study.name] = Answer(told, found)
            self._asked.discard(study.name)
