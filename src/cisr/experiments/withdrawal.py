"""What students' records say of the certificates of an audit: a failure under an intervention that was certified
withdraws its certificate, wherever verdicts are shown.

Pure functions of the audit that a store keeps (JSON, see `cisr.auditing.report.keep_quick_audit`) and of transcripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from cisr.core.errors import CisrError
from cisr.curricula import policy_from_json
from cisr.training import StudentSpec, Transcript, UnitRecord, default_observe
from cisr.training.lessons import next_lesson


@dataclass(frozen=True, kw_only=True)
class Withdrawn:
    """A certificate that students have contradicted."""

    intervention: str
    failures: int
    students: int
    student: str
    """The first of them."""
    seed: int
    when: str
    """When that one first failed."""

    def __str__(self) -> str:
        failures = f"{self.failures:,} failure{'s' * (self.failures != 1)}"
        students = f"{self.students:,} student{'s' * (self.students != 1)}"
        return (
            f"CERTIFICATE WITHDRAWN: the audit certified {self.intervention}, and {students} had {failures} under it, "
            f"the first of them {self.student} (seed {self.seed}) {self.when}. The certificate does not hold: the code "
            f"that students meet departs from the model that was audited."
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"said": str(self)}


class _Failed(NamedTuple):
    under: str
    failures: int
    when: str


def withdrawn(audit: Mapping[str, Any] | None, transcripts: Sequence[Transcript]) -> tuple[Withdrawn, ...]:
    """The certificates that do not hold, in the order of the audit. Failures count under the intervention of their own
    unit, trial or deployment."""
    certified = [v["name"] for v in (audit or {}).get("interventions", ()) if v.get("status") == "certified"]
    if not certified:
        return ()
    found: dict[str, list[tuple[Transcript, _Failed]]] = {name: [] for name in certified}
    for transcript in transcripts:
        for failed in _failures(transcript):
            if failed.under in found:
                found[failed.under].append((transcript, failed))
    return tuple(
        Withdrawn(
            intervention=name,
            failures=sum(failed.failures for _, failed in each),
            students=len({transcript.name for transcript, _ in each}),
            student=each[0][0].name,
            seed=each[0][0].seed,
            when=each[0][1].when,
        )
        for name, each in found.items()
        if each
    )


def held_against(audit: Mapping[str, Any] | None, transcripts: Sequence[Transcript]) -> dict[str, Any]:
    """The audit as it is to be shown: certificates that students have contradicted are withdrawn, and listed as
    `withdrawn`. Empty where there is no audit."""
    if not audit:
        return {}
    lost = {one.intervention: one for one in withdrawn(audit, transcripts)}
    verdicts = [_without(v, lost[v["name"]]) if v["name"] in lost else v for v in audit["interventions"]]
    return {**audit, "interventions": verdicts, "withdrawn": [one.to_json() for one in lost.values()]}


def _without(verdict: Mapping[str, Any], lost: Withdrawn) -> dict[str, Any]:
    reason = "The certificate is withdrawn: nothing follows from it."
    eventual = {**verdict.get("eventual", {}), "given": False, "failure_bound": None, "reason": reason}
    return {**verdict, "status": "withdrawn", "reason": str(lost), "eventual": eventual}


def _failures(student: Transcript) -> Iterator[_Failed]:
    for unit in student.units:
        if unit.failures:
            yield _Failed(unit.intervention, unit.failures, f"in unit {unit.unit}")
        if unit.evaluation is not None and unit.evaluation.failures:
            yield _Failed(unit.evaluation.under, unit.evaluation.failures, f"when tried out after unit {unit.unit}")
        if unit.deployment is not None and unit.deployment.failures:
            yield _Failed(unit.deployment.under, unit.deployment.failures, f"when deployed after unit {unit.unit}")
    if student.failures_when_broken:
        when = f"in unit {len(student.units) + 1}, which an error ended"
        for under in _when_broken(student):
            yield _Failed(under, student.failures_when_broken, when)
    if student.deployment is not None and student.deployment.failures:
        yield _Failed(student.deployment.under, student.deployment.failures, "when deployed")


def _when_broken(student: Transcript) -> Sequence[str]:
    """Under what the unit was that an error ended, which has no record: curriculum policies are functions of the units
    before. Where the teacher observed otherwise than usual, all that the policy uses; of policies that cannot be made
    again, what the student had met."""
    try:
        policy = policy_from_json(student.curriculum)
    except CisrError:
        return [*dict.fromkeys(unit.intervention for unit in student.units)]
    spec = StudentSpec(name=student.name, policy=policy, config=student.config, seed=student.seed)
    before: UnitRecord | None = None
    for unit in student.units:
        lesson = next_lesson(spec, unit.unit, before, default_observe)
        if lesson.intervention != unit.intervention:
            return policy.interventions_used
        before = UnitRecord(unit, lesson.stage)
    return [next_lesson(spec, len(student.units) + 1, before, default_observe).intervention]
