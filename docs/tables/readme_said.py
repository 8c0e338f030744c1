"""What README.md says of its tables."""

from collections.abc import Iterator
from typing import Any

from cells import at_least, at_most, chance, number, over, pm, published, signed
from lake import classes, told_apart
from lander_gpu import reproduced
from lander_gpu_said import beside_the_paper
from others_said import falls, test_of
from pages import Row, by, load, says, table

README = "README.md"


def _rows(run: str) -> dict[str, Any]:
    return by("curriculum", load(run)["rows"])


@says(README)
def quick() -> Iterator[str]:
    rows, teacher = _rows("frozen-lake-quick"), load("frozen-lake-quick-teacher")
    assert not any(row["training_failures"]["mean"] for name, row in rows.items() if name != "none")
    yield f"without a teacher they fell in {number(rows['none']['training_failures']['mean'])} times each"
    assert (
        list(dict.fromkeys(teacher["policy"]["interventions"])) == ["SR2", "HA"] and teacher["policy"]["patience"] == 4
    )
    yield f"tried {teacher['students']} students"
    tests = [t for t in load("frozen-lake-quick")["differences"] if t["measure"] in ("success", "return")]
    assert all(t["told_apart"] == "yes" for t in tests) and len(tests) == 12
    yield f"{number(rows['optimized']['success']['mean'], 4)} is not a result about the paper"


@table("success of the paper's *Optimized*", "paper", "ours", "")
def headline() -> Iterator[Row]:
    assert all(p > 0.05 for name in ("SR1", "SR2", "Random search") for p in told_apart(name))
    same = "not told apart from SR1, SR2 or random search"
    lake, lander = (
        by("curriculum", rows)["Optimized"] for rows in (load("frozen-lake")["rows"], reproduced("two-layer"))
    )
    nine = f"{pm(over(classes('Optimized', 'success')), 3)} over nine teachers"
    yield "Frozen Lake", published(lake["paper"]["success"], 3), nine, same
    p = chance(beside_the_paper("two-layer", "Optimized", "success"))
    three = f"{pm(lander['ours']['success'], 3)} over three teachers"
    yield "Lunar Lander", published(lander["paper"]["success"], 3), three, f"below the paper (p = {p}, not corrected)"


@says(README)
def beside_the_papers_numbers() -> Iterator[str]:
    lander = by("curriculum", reproduced("two-layer"))
    authors = (number(lander[name]["ours"]["success"]["mean"], 3) for name in ("LL-A", "LL-B"))
    yield "our students are at {} and {}".format(*authors)
    ours = load("frozen-lake-ours")["rows"]["ours"]
    assert ours["failed to learn"] == 1
    yield f"{pm(over(ours['classes']), 3)} over nine teachers, one of {ours['students']} students lost"
    told = [test_of("lunar-lander", "success", name)["told_apart"] for name in ("Narrow", "Wide", "none")]
    assert told == ["yes", "no", "no"]


@says("docs/departures.md")
def departures() -> Iterator[str]:
    units = (_rows(run)["LL-A"]["success"] for run in ("lunar-lander", "lunar-lander-relu"))
    yield "{} with tanh, {} with ReLU".format(*(pm(success, 3) for success in units))
    fell = by("measure", load("lunar-lander-multipliers")["differences"])["training_failures"]["means"]
    yield f"{number(fell[1] - fell[0])} failures fewer in training with B/4"
    optimized = classes("Optimized", "success")
    means = (number(over(some)["mean"], 3) for some in (optimized[:3], optimized))
    yield "{} over three, {} over nine".format(*means)


@says(README)
def robot() -> Iterator[str]:
    few, many = (falls("cheetah", name) for name in ("cheetah-curriculum", "none"))
    yield f"fell {few} times while they learned, ten untaught ones {number(many)} times"
    test = test_of("cheetah", "success", "none")
    yield f"within [{signed(at_least(test['low'], 2), 2)}, {signed(at_most(test['high'], 2), 2)}]"
