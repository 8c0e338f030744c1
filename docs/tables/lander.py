"""Numbers of Lunar Lander on Box2D: README.md and docs/results/lunar-lander.md."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cells import NONE, at_most, chance, number, pm, published, share, signed
from pages import Row, by, load, table

WITHOUT = {"none": "No-interv.", "LL-A": "Optimized"}
"""Rows of the paper's tables, by our names."""
LABELS = {"LL-A": "LL-A (paper: Optimized)"}


def paper(students: str) -> dict[str, Any]:
    """Rows of the paper's Table 7 for a kind of students."""
    run = load("lunar-lander-reproduced")
    return by("curriculum", (run if students == "two-layer" else run["transfers"][students])["rows"])


def training_failures(estimate: Mapping[str, Any]) -> str:
    return pm(estimate, 0 if estimate["mean"] >= 100 else 1)


def paper_failures(pair: Sequence[float] | None) -> str:
    """As the paper has them, but for fractions of large counts."""
    if pair is None or pair[0] >= 100:
        return published(pair, 0)
    return f"{number(pair[0], 1)} ± {number(pair[1], 2)}"


def _beside_the_paper(students: str, rows: Sequence[Any]) -> Iterator[Row]:
    for row in rows:
        theirs = paper(students)[WITHOUT.get(row["curriculum"], row["curriculum"])]["paper"]
        yield (
            LABELS.get(row["curriculum"], row["curriculum"]),
            pm(row["success"], 3),
            published(theirs["success"], 3),
            training_failures(row["training_failures"]),
            paper_failures(theirs["training_failures"]),
            pm(row["return"], 1),
            published(theirs["return"], 1),
        )


PAPER_HEADS = ("success", "paper", "failures in training", "paper", "return", "paper")


@table("curriculum", *PAPER_HEADS)
def lander_compared() -> Iterator[Row]:
    yield from _beside_the_paper("two-layer", load("lunar-lander")["rows"])


@table("students", "curriculum", *PAPER_HEADS)
def lander_transfer() -> Iterator[Row]:
    for students in ("one-layer", "noisy"):
        rows = load(f"lunar-lander-{students}")["rows"]
        yield from ((students, *row) for row in _beside_the_paper(students, rows))


@table("curriculum", "crash", "paper", "out of map", "paper")
def lander_outcomes() -> Iterator[Row]:
    for row in load("lunar-lander")["rows"]:
        theirs = paper("two-layer")[WITHOUT.get(row["curriculum"], row["curriculum"])]["paper"]["outcomes"]
        ends = [(row["outcomes"][end], theirs[end][0]) for end in ("crash", "out of map")]
        yield LABELS.get(row["curriculum"], row["curriculum"]), *(number(x, 3) for pair in ends for x in pair)


def _tests(name: str) -> Iterator[Row]:
    for test in load(name)["differences"]:
        if test["measure"] == "success":
            ours, others = test["means"]
            told = signed(ours - others, 3), chance(test["p_mean"]), chance(test["p_rank"]), test["told_apart"]
            yield test["others"], *told


@table("LL-A against", "difference in success", "p (means)", "p (ranks)", "told apart")
def lander_tests() -> Iterator[Row]:
    yield from _tests("lunar-lander")


@table("optimized against", "difference in success", "p (means)", "p (ranks)", "told apart")
def lander_found_tests() -> Iterator[Row]:
    yield from _tests("lunar-lander-compared")


def _authors(measure: str, digits: int) -> Iterator[Row]:
    for test in load("lunar-lander")["against"]:
        if test["measure"] == measure:
            ours, theirs = test["means"]
            numbers = number(ours, digits), f"{number(theirs, digits)} ({test['sizes'][1]})"
            yield test["group"], *numbers, signed(ours - theirs, digits), chance(test["p_rank"])


@table("curriculum", "success: ours", "theirs (students)", "difference", "p (ranks)")
def lander_authors_success() -> Iterator[Row]:
    yield from _authors("success", 3)


@table("curriculum", "failures in training: ours", "theirs (students)", "difference", "p (ranks)")
def lander_authors_failures() -> Iterator[Row]:
    yield from _authors("training_failures", 1)


@table("units", "success", "median", "return", "failures in training")
def lander_relu() -> Iterator[Row]:
    for units, run in (("tanh", "lunar-lander"), ("ReLU", "lunar-lander-relu")):
        row = by("curriculum", load(run)["rows"])["LL-A"]
        numbers = pm(row["success"], 3), number(row["success"]["median"], 3), pm(row["return"], 1)
        yield units, *numbers, training_failures(row["training_failures"])


def got(parameters: Mapping[str, Any]) -> str:
    """What students meet: a threshold at a return of 0 or less is passed before the first unit."""
    first, second = parameters["intervention_1"], parameters["intervention_2"]
    if parameters["return_1"] <= 0:
        return f"{second} from the start"
    return first if first == second else f"{first}, then {second}"


@table("policy", "interventions", "switch at return ≥", "and rescues per episode ≤", "what students get", "score")
def lander_search() -> Iterator[Row]:
    for k, tried in enumerate(load("lunar-lander-teacher")["rounds"], 1):
        p = tried["parameters"]
        score = f"{number(tried['score'], 1)} ± {number(tried['sem'], 1)}"
        thresholds = number(p["return_1"], 1), number(p["violation_1"], 2)
        name = f"{k} (given)" if k <= 4 else f"{k}"
        yield name, f"{p['intervention_1']} → {p['intervention_2']}", *thresholds, got(p), score


@table("curriculum", "success", "median", "return", "failures in training", "failures once deployed")
def lander_found() -> Iterator[Row]:
    names = {"optimized": "optimized (ours)", "LL-A": "LL-A (the authors')"}
    for row in load("lunar-lander-compared")["rows"]:
        numbers = pm(row["success"], 3), number(row["success"]["median"], 3), pm(row["return"], 1)
        failures = training_failures(row["training_failures"]), pm(row["deployment_failures"], 3)
        yield names.get(row["curriculum"], row["curriculum"]), *numbers, *failures


@table(
    "students",
    "curriculum",
    "success",
    "failed to learn",
    "return",
    "failures in training",
    "failures once deployed",
)
def lander_explorers() -> Iterator[Row]:
    careful = "Soft-Funnel for 4 units, then Hard-Funnel"
    for run, students, curriculum in (
        ("lunar-lander-explorers", "20 explorers", "LL-A"),
        ("lunar-lander-careful", "20 explorers", careful),
        ("lunar-lander", "10 of the paper's (above)", "LL-A"),
    ):
        row = load(run)["rows"][0]
        lost = share(row["failed_to_learn"]) if "failed_to_learn" in row else NONE
        numbers = pm(row["success"], 3), lost, pm(row["return"], 1)
        yield students, curriculum, *numbers, pm(row["training_failures"], 1), pm(row["deployment_failures"], 3)


@table(
    "intervention",
    "failures of random play",
    "of sticky play",
    "of the trained attacker",
    "seen while it was trained or rehearsed",
    "at most, per episode",
    "verdict",
)
def lander_audit() -> Iterator[Row]:
    for verdict in load("lunar-lander-audit-box2d")["interventions"]:
        attacked = verdict["falsification"]
        played = {one["attacker"]: f"{one['failures']} of {one['episodes']}" for one in attacked["attacks"]}
        counts = (played.get(attacker, NONE) for attacker in ("random", "sticky", "trained"))
        seen = sum(one["rehearsal_failures"] for one in attacked["attacks"])
        seen += (attacked["training"] or {"failures": 0})["failures"]
        bound = number(at_most(attacked["upper_bound"], 3), 3)
        yield verdict["name"], *counts, f"{seen}", bound, verdict["status"]
