"""What docs/results/lunar-lander.md says of its tables."""

from collections.abc import Iterator, Sequence
from math import hypot
from typing import Any

from cells import at_most, chance, number, pm
from cisr.experiments.statistics import chance as dealt
from cisr.experiments.statistics import holm, rank_chance
from lander import got
from pages import by, load, says

LANDER = "docs/results/lunar-lander.md"


def _row(run: str, curriculum: str) -> Any:
    return by("curriculum", load(run)["rows"])[curriculum]


def test_of(run: str, measure: str, others: str) -> Any:
    found = (test for test in load(run)["differences"] if (test["measure"], test["others"]) == (measure, others))
    return next(found)


def both(test: Any) -> str:
    return f"{chance(test['p_mean'])}, {chance(test['p_rank'])}"


@says(LANDER)
def compared() -> Iterator[str]:
    taught, untaught = (_row("lunar-lander", name)["training_failures"]["mean"] for name in ("LL-A", "none"))
    yield f"{number(taught, 1)} times each against {number(untaught)}, {10 * taught:.0f} failures of ten students"
    yield f"of ten students against {number(10 * untaught)}"
    medians = [_row("lunar-lander", name)["success"]["median"] for name in ("Wide", "LL-A")]
    yield f"({medians[0]:.3f} against {medians[1]:.3f})"
    narrow = test_of("lunar-lander", "training_failures", "Narrow")
    yield f"({chance(narrow['p_mean'])} by means, {chance(narrow['p_rank'])} by ranks)"
    relu = load("lunar-lander-relu")["against"][0]
    yield f"(p = {chance(relu['p_mean'])} by means, {chance(relu['p_rank'])} by ranks, not corrected"


@says(LANDER)
def searched() -> Iterator[str]:
    groups: dict[str, list[float]] = {}
    for each in load("lunar-lander-teacher")["rounds"]:
        groups.setdefault(got(each["parameters"]).removesuffix(" from the start"), []).append(each["score"])
    switch, narrow, wide = (groups[name] for name in ("Narrow, then Wide", "Narrow", "Wide"))
    yield f"{len(switch)} classes had a switch, {len(narrow)} Narrow alone and {len(wide)} Wide alone"
    p = [holm([test(switch, narrow), test(switch, wide)])[0] for test in (dealt, rank_chance)]
    yield f"(p = {chance(p[0])} by means, {chance(p[1])} by ranks, Holm's correction over the two groups)"
    assert min(switch) > max(*narrow, *wide)


@says(LANDER)
def found() -> Iterator[str]:
    ours, theirs = (_row("lunar-lander-compared", name)["success"]["sem"] for name in ("optimized", "LL-A"))
    yield f"success is {hypot(ours, theirs):.3f}."
    best = max(each["score"] for each in load("lunar-lander-teacher")["rounds"])
    fresh = _row("lunar-lander-compared", "optimized")["return"]["mean"]
    yield f"{best:.1f} there, {fresh:.1f} on the fresh students"


@says(LANDER)
def explorers() -> Iterator[str]:
    taught, paper = load("lunar-lander-explorers")["rows"][0], _row("lunar-lander", "LL-A")
    error = hypot(taught["success"]["sem"], paper["success"]["sem"])
    yield f"by {(taught['success']['mean'] - paper['success']['mean']) / error:.1f} standard errors of the difference"
    failures = (row["training_failures"]["mean"] for row in (taught, paper))
    yield "fail {:.1f} times each against {:.1f} while they learn".format(*failures)
    careful = load("lunar-lander-careful")["rows"][0]
    assert careful["students_with_failures"]["count"] == 0 and careful["failed_to_learn"]["count"] == 1
    yield f"is below {at_most(careful['students_with_failures']['high'], 2):.2f} with 95 % confidence"
    yield f"in {pm(careful['learned'], 3)} of episodes once alone"


@says(LANDER)
def transferred() -> Iterator[str]:
    one = {(m, o): test_of("lunar-lander-one-layer", m, o) for m, o in _pairs()}
    noisy = {(m, o): test_of("lunar-lander-noisy", m, o) for m, o in _pairs()}
    yield f"(p = {both(one['success', 'Narrow'])}), cannot be told apart"
    yield f"untaught ones ({both(one['success', 'none'])})"
    fell = [number(mean, 1) for mean in one["training_failures", "Narrow"]["means"]]
    yield f"({fell[0]} against {fell[1]}, p = {both(one['training_failures', 'Narrow'])})"
    means = [number(mean, 3) for mean in noisy["success", "Narrow"]["means"]]
    yield f"({means[0]} against {means[1]}, p = {both(noisy['success', 'Narrow'])})"
    yield f"ones ({both(noisy['success', 'none'])})"
    for run in (one, noisy):
        taught, untaught = run["training_failures", "none"]["means"]
        yield f"{number(taught, 1)} times each in training against {number(untaught)}"


def _pairs() -> Sequence[tuple[str, str]]:
    return [(measure, other) for measure in ("success", "training_failures") for other in ("Narrow", "none")]
