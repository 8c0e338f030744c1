"""What studies, comparisons, audits and reproductions have found, as a store keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cisr.core.checks import check_text, shown
from cisr.core.errors import ConfigError
from cisr.curricula import Parameters
from cisr.store.database import Database
from cisr.store.meaning import is_parameters
from cisr.store.rows import as_json
from cisr.store.schema import QUICK


class StoredTrial(NamedTuple):
    """One curriculum policy that a teacher tried."""

    parameters: Parameters
    told: bool
    score: float | None
    sem: float | None
    model: dict[str, Any]
    """The hyperparameters of the teacher's model when it proposed this policy; empty if it used none."""


class KeepsFindings:
    """The part of a store that says what came out."""

    _db: Database

    def trials(self, study: str) -> list[StoredTrial]:
        check_text("The name of a study", study)
        rows = self._db.rows(
            "SELECT parameters, told, score, sem, model FROM rounds WHERE study = ? ORDER BY round",
            (study,),
        )
        return [
            StoredTrial(json.loads(parameters), bool(told), score, sem, json.loads(model))
            for parameters, told, score, sem, model in rows
        ]

    def propose(self, study: str, number: int, parameters: Parameters, model: Mapping[str, Any]) -> None:
        if not is_parameters(dict(parameters)):
            raise ConfigError(f"The policy that '{study}' is to try is {shown(parameters)}: give finite numbers.")
        row = {"study": study, "round": number, "parameters": as_json(parameters), "model": as_json(model)}
        with self._db.transaction():
            self._db.insert("rounds", row)

    def tell(self, study: str, number: int, score: float | None, sem: float | None) -> None:
        with self._db.transaction():
            self._db.change("rounds", {"study": study, "round": number}, {"told": 1, "score": score, "sem": sem})

    def findings(self) -> dict[str, dict[str, Any]]:
        """What each finished study found, by its name: its best policy and what its teacher's model looks like."""
        return {row["study"]: json.loads(row["found"]) for row in self._db.named_rows("findings")}

    def keep_findings(self, study: str, found: Mapping[str, Any]) -> None:
        with self._db.transaction():
            self._db.insert("findings", {"study": study, "found": as_json(found)})

    def curricula(self, comparison: str) -> list[str]:
        """In what order a comparison's curricula were last given."""
        check_text("The name of a comparison", comparison)
        row = self._db.row("SELECT curricula FROM comparisons WHERE name = ?", (comparison,))
        return [] if row is None else list(json.loads(row[0]))

    def keep_curricula(self, comparison: str, curricula: Sequence[str]) -> None:
        with self._db.transaction():
            self._db.insert("comparisons", {"name": comparison, "curricula": as_json(list(curricula))})

    def trajectories(self) -> dict[str, list[dict[str, Any]]]:
        """A few episodes of some students, by their names; see `cisr.experiments.trajectories`."""
        return {row["student"]: json.loads(row["episodes"]) for row in self._db.named_rows("trajectories")}

    def keep_trajectories(self, episodes: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        with self._db.transaction():
            for student, played in episodes.items():
                self._db.insert("trajectories", {"student": student, "episodes": as_json(played)})

    def audit(self) -> dict[str, Any] | None:
        """The quick audit of the task; None before the first."""
        row = self._db.row("SELECT found FROM audits WHERE kind = ?", (QUICK,))
        return None if row is None else dict(json.loads(row[0]))

    def keep_audit(self, found: Mapping[str, Any]) -> None:
        with self._db.transaction():
            self._db.insert("audits", {"kind": QUICK, "found": as_json(found)})

    def drop_audit(self) -> None:
        with self._db.transaction():
            self._db.remove("audits", {"kind": QUICK})

    def reproduction(self) -> dict[str, Any] | None:
        """What a report must know of the reproduction that a store may be; see `cisr.experiments.reproduce.finding`."""
        row = self._db.row("SELECT found FROM reproductions")
        return None if row is None else dict(json.loads(row[0]))

    def keep_reproduction(self, found: Mapping[str, Any]) -> None:
        with self._db.transaction():
            self._db.insert("reproductions", {"title": found["title"], "found": as_json(found)})
