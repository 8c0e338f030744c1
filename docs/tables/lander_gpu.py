"""Numbers of docs/results/lunar-lander-gpu.md."""

from collections.abc import Iterator, Sequence
from typing import Any

from cells import NONE, at_most, number, pm, published
from cisr.tasks.lunar_lander.publication import LUNAR_LANDER
from lander import PAPER_HEADS, paper_failures, training_failures
from pages import Row, by, load, table

TABLE_7 = ("curriculum", *PAPER_HEADS[:2], "crash", "paper", "out of map", "paper", *PAPER_HEADS[2:])
SEARCHES = {"paper": "the paper's GP-UCB", "random": "random search", "ours": "our teacher"}
RETURNED = ("Narrow, then Wide", "Narrow", "Wide", "Wide, then Narrow")


def reproduced(students: str) -> Sequence[Any]:
    run = load("lunar-lander-reproduced")
    rows: Sequence[Any] = (run if students == "two-layer" else run["transfers"][students])["rows"]
    return rows


def _table_7(students: str) -> Iterator[Row]:
    for row in reproduced(students):
        ours, theirs = row["ours"], row["paper"] or {}
        ends = theirs.get("outcomes", {})
        yield (
            row["curriculum"],
            *(pm(ours["success"], 3), published(theirs.get("success"), 3)),
            *(pm(ours["outcomes"]["crash"], 3), published(ends.get("crash"), 3)),
            *(pm(ours["outcomes"]["out of map"], 3), published(ends.get("out of map"), 3)),
            *(training_failures(ours["training_failures"]), paper_failures(theirs.get("training_failures"))),
            *(pm(ours["return"], 1), published(theirs.get("return"), 1)),
        )


@table(*TABLE_7)
def lander_table_7a() -> Iterator[Row]:
    yield from _table_7("two-layer")


@table(*TABLE_7)
def lander_table_7b() -> Iterator[Row]:
    yield from _table_7("noisy")


@table(*TABLE_7)
def lander_table_7c() -> Iterator[Row]:
    yield from _table_7("one-layer")


@table(
    "students",
    "curriculum",
    "return",
    "paper",
    "success",
    "paper",
    "test failures",
    "paper",
    "failures in training",
    "paper",
)
def lander_table_1() -> Iterator[Row]:
    papers = (LUNAR_LANDER, *LUNAR_LANDER.transfers)
    for students, paper in zip(("two-layer", "noisy", "one-layer"), papers, strict=True):
        rows = by("curriculum", reproduced(students))
        for name, theirs in paper.main.items():
            ours = rows[name]["ours"]
            fell = theirs.training_failures
            yield (
                students,
                name,
                *(pm(ours["return"], 1), number(theirs.mean_return, 1)),
                *(pm(ours["success"], 3), number(theirs.success, 3)),
                *(pm(ours["deployment_failures"], 3), number(theirs.test_failures, 3)),
                *(
                    training_failures(ours["training_failures"]),
                    f"{fell:,.0f}" if fell >= 100 else f"{fell:.2f}".removesuffix("0"),
                ),
            )


@table("teacher", "returned", "success of its 10 students", "return")
def lander_teachers() -> Iterator[Row]:
    run = load("lunar-lander-reproduced")
    means = by("curriculum", run["rows"])["Optimized"]["classes"]
    for k, policy in enumerate(run["policies"]["Optimized"]):
        first, second = policy["interventions"]
        at, below = policy["thresholds"][0].values()
        if at <= 0:
            said = f"{second} from the start ({first}, then {second} at {number(at, 1)}, which is passed before unit 1)"
        elif first == second:
            said = first
        else:
            said = f"{first}, then {second} at a return of {number(at, 1)} and {number(below, 2)} rescues"
        yield f"{k + 1}", said, number(means["success"][k], 3), number(means["return"][k], 1)


@table("search", *RETURNED, "expected return")
def lander_searches() -> Iterator[Row]:
    for row in load("lunar-lander-search")["rows"]:
        counts = (f"{row['returned'][what]}" for what in RETURNED)
        yield SEARCHES[row["teacher"]], *counts, number(row["mean_return"], 1)


@table("begin at", "success", "return", "failures in training", "crash", "out of map")
def lander_multipliers() -> Iterator[Row]:
    names = {"B/4": "B/4 (ours)", "B/3": "B/3 (the authors')"}
    for name, row in load("lunar-lander-multipliers")["rows"].items():
        ends = (number(row["outcomes"][end], 3) for end in ("crash", "out of map"))
        yield names[name], pm(row["success"], 3), pm(row["return"], 1), pm(row["training_failures"], 0), *ends


@table("interventions met", "students", "success", "below 0.5")
def lander_met() -> Iterator[Row]:
    for met in ("Soft-Funnel, then Hard-Funnel", "Hard-Funnel", "Soft-Funnel"):
        groups = [teacher["met"][met] for teacher in load("lunar-lander-ours-teachers")["teachers"]]
        n = sum(group["students"] for group in groups)
        success = sum(group["students"] * group["success"] for group in groups) / n
        yield met, f"{n}", number(success, 3), f"{sum(group['below 0.5'] for group in groups)}"


@table(
    "teacher",
    "switches at a return of",
    "and a violation of at most",
    "success",
    "on Box2D",
    "return on Box2D",
    "failures in training",
)
def lander_ours() -> Iterator[Row]:
    teachers = load("lunar-lander-ours-teachers")["teachers"]
    trained, deployed = (load(run)["rows"] for run in ("lunar-lander-ours-compared", "lunar-lander-ours-deployed"))
    for k, (teacher, row, again) in enumerate(zip(teachers, trained, deployed, strict=True), 1):
        threshold = teacher["policy"]["thresholds"][0]
        at = number(threshold["min_return"], 1), number(threshold["max_violation"], 1)
        box2d = pm(again["success"]["now"], 3), pm(again["return"]["now"], 1)
        yield f"{k}", *at, pm(row["success"], 3), *box2d, f"{row['training_failures']['mean']:g}"


ATTACKED = (
    "intervention",
    "while students were trained to fail",
    "random",
    "sticky",
    "trained",
    "at most, per episode",
)


@table(*ATTACKED, "on Gymnasium, each attacker")
def lander_compiled_attacks() -> Iterator[Row]:
    for verdict in load("lunar-lander-audit")["interventions"]:
        if (attacked := verdict["falsification"]) and verdict["counts"]:
            on_box2d = {f"{one['failures']} of {one['episodes']}" for one in attacked["attacks"]}
            yield (*_attacked(verdict), " / ".join(sorted(on_box2d)) or NONE)


@table(*ATTACKED, "steps of the three attackers")
def lander_long_attacks() -> Iterator[Row]:
    for name in ("funnel", "chimney"):
        verdict = load(f"lunar-lander-attacks-{name}")["interventions"][0]
        yield *_attacked(verdict), f"{sum(one['steps'] for one in verdict['falsification']['searches']):,}"


def _attacked(verdict: dict[str, Any]) -> Row:
    """Attacks in the JAX environment."""
    searched, training = verdict["falsification"]["searches"], verdict["falsification"]["training"]
    steps = f"{training['steps'] / 1e6:.0f} million steps of {training['students']} students"
    played = (f"{one['failures']:,} of {one['episodes']:,}" for one in searched)
    most = max(one["upper_bound"] for one in searched)
    digits = 5 if most > 1e-5 else 7
    return verdict["name"], f"{training['failures']} in {steps}", *played, number(at_most(most, digits), digits)
