"""What a teacher that knows how sure it is believes of each policy tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from cisr.curricula import Observation, Switching
from cisr.view.svg import COLOURS, Frame, dot, esc, number, padded, segment, svg, text, ticks
from cisr.view.words import in_words

USUAL, BEST = COLOURS[0], COLOURS[1]
ROW, MOST_ROWS = 19, 40


@dataclass(frozen=True, kw_only=True)
class BelievedPolicy:
    """One policy, however often it was tried."""

    parameters: Mapping[str, float | str]
    policy: Mapping[str, Any]
    """As JSON."""
    numbers: tuple[int, ...]
    """Which policies of the search it was, counted from 1."""
    students: int
    expected: float
    bound: float
    best: bool

    @property
    def hover(self) -> str:
        tried = f"{self.students} student{'s' * (self.students != 1)}"
        return f"expected {self.expected:.4g}, at least {self.bound:.4g}; {tried}. {in_words(self.policy)}"


def belief_figure(policies: Sequence[BelievedPolicy], confidence: float) -> str:
    """Each policy a row: from the bound to what is expected, the surest at the top."""
    shown = sorted(policies, key=lambda policy: -policy.bound)[:MOST_ROWS]
    height = 28 + ROW * len(shown) + 44
    ends = padded([end for policy in shown for end in (policy.bound, policy.expected)])
    frame = Frame(x=ends, y=(0, len(shown)), width=960, height=height, left=250, right=90)
    title = "What the teacher believes of each policy"
    floor = height - frame.bottom
    parts = [text(frame.left, 16, title, font_weight="600"), text(frame.width - 8, 16, "students", anchor="end")]
    for x in ticks(*frame.x, about=8):
        at = frame.across(x)
        parts += [segment(at, frame.top, at, floor, "#e4e4e4"), segment(at, floor, at, floor + 4)]
        parts += [text(at, floor + 17, number(x), anchor="middle", fill="#444")]
    parts += [segment(frame.left, floor, frame.width - frame.right, floor)]
    parts += [
        text((frame.left + frame.width - frame.right) / 2, height - 6, "mean score of new students", anchor="middle")
    ]
    for k, policy in enumerate(shown):
        y = frame.top + ROW * (k + 0.5)
        colour, weight = (BEST, "600") if policy.best else (USUAL, "400")
        low, mean = frame.across(policy.bound), frame.across(policy.expected)
        row = [
            text(frame.left - 8, y + 4, _label(policy), anchor="end", font_weight=weight),
            segment(low, y, mean, y, colour, width=2),
            segment(low, y - 4, low, y + 4, colour, width=2),
            dot(mean, y, colour, radius=4),
            text(frame.width - 8, y + 4, policy.students, anchor="end", font_weight=weight),
        ]
        parts.append(f"<g><title>{esc(policy.hover)}</title>{''.join(row)}</g>")
    left_out = f" The {len(shown)} surest of {len(policies)} policies." if len(shown) < len(policies) else ""
    caption = (
        "Dots: the mean score that the teacher's model expects of new students. Bars reach down to what it is at "
        f"least, with {100 * confidence:.0f} % confidence by the model. The policy with the highest such bound is the "
        f"one found (bold).{left_out}"
    )
    return f"<figure>{svg(frame.width, height, parts, title)}<figcaption>{caption}</figcaption></figure>"


def _label(policy: BelievedPolicy) -> str:
    tried = ", ".join(str(k) for k in policy.numbers[:3]) + ("…" if len(policy.numbers) > 3 else "")
    return f"{' → '.join(met(policy.parameters))} (policy {tried})"


def met(parameters: Mapping[str, float | str]) -> list[str]:
    """The interventions that students meet: not a first one that (0, 0) skips, and equal neighbours once."""
    policy = Switching.from_parameters(dict(parameters))
    skipped = bool(policy.thresholds) and policy.thresholds[0].passed(Observation())
    return [name for name, _ in groupby(policy.interventions[skipped:])]
