"""What safety interventions really give: proofs for finite tasks, attacks on all others.

>>> from cisr import get_task
>>> from cisr.auditing import audit
>>> report = audit(get_task("frozen-lake"))
>>> report["SR1"].status, report["none"].status, report.refuted
('certified', 'refuted', False)

May import the store and below; knows nothing of experiments and of how verdicts are shown.
"""

from typing import TYPE_CHECKING

from cisr.core.libraries import late

if TYPE_CHECKING:
    from cisr.auditing.report import AuditReport, Verdict, audit, quick_audit, quick_audit_for
else:
    _names = ("AuditReport", "Verdict", "audit", "quick_audit", "quick_audit_for")
    __getattr__ = late(__name__, dict.fromkeys(_names, "cisr.auditing.report"))

__all__ = ["AuditReport", "Verdict", "audit", "quick_audit", "quick_audit_for"]
