"""What safety interventions really give: proofs for finite tasks, attacks on all others.

>>> from cisr import get_task
>>> from cisr.auditing import audit
>>> report = audit(get_task("frozen-lake"))
>>> report["SR1"].status, report["none"].status, report.refuted
('certified', 'refuted', False)

May import the store and below; knows nothing of experiments and of how verdicts are shown.
"""

from cisr.auditing.report import AuditReport, Verdict, audit, quick_audit

__all__ = ["AuditReport", "Verdict", "audit", "quick_audit"]
