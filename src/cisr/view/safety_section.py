"""What the audit said of each intervention before training began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cisr.view.audit import promises
from cisr.view.svg import esc

MARKS = {"certified": "✓", "refuted": "✗"}
NOTE = (
    "Certified: no policy whatsoever can fail under the intervention within its horizon, by an exhaustive search of a "
    "finite task. Not refuted: a few episodes of random play did not fail, which proves nothing. Eventual safety: any "
    "policy within the intervention's tolerances also keeps the task's own (Proposition 1); that is about the policy "
    "that kept them, not about its most likely actions alone."
)


def safety_section(audit: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{esc(v['name'])}</td><td>{MARKS.get(v['status'], '?')} {esc(v['status'])}"
        f"{'' if v['counts'] else ' (for information)'}</td><td>{esc(v['reason'])}</td>"
        f"<td>{'given' if v['eventual']['given'] else 'not given'}: {esc(v['eventual']['reason'])}</td></tr>"
        for v in audit["interventions"]
    )
    head = "<tr><th>intervention</th><th>safe while learning</th><th>because</th><th>eventual safety</th></tr>"
    table = f'<table class="plain"><thead>{head}</thead><tbody>{rows}</tbody></table>'
    return f'<div class="wide">{table}</div><p class="note">{esc(NOTE + promises(audit))}</p>'
