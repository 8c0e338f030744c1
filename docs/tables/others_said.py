"""What the pages of driving, the robot, single learners and other libraries say of their tables."""

from collections.abc import Iterator
from math import ceil, floor, hypot
from typing import Any

from scipy.stats import beta

from cells import at_least, at_most, chance, number, pm, shift, signed
from pages import by, load, says

HIGHWAY, CHEETAH, LEARNER = (f"docs/results/{page}.md" for page in ("highway", "cheetah", "learner"))


def times_as_rare(few: float, many: float) -> tuple[int, int]:
    """95 % interval of how many times as rare `few` independent events are as `many` in equal time.

    Given their sum, the few are binomial with a share of 1 / (1 + ratio): Clopper and Pearson's interval of the share.
    """
    low, high = beta.ppf(0.025, few, many + 1), beta.ppf(0.975, few + 1, many)
    return floor(1 / high - 1), ceil(1 / low - 1)


def falls(run: str, curriculum: str) -> int:
    row = by("curriculum", load(run)["rows"])[curriculum]
    fell: float = row["training_failures"]["mean"] * row["students"]
    return round(fell)


def test_of(run: str, measure: str, others: str) -> Any:
    return next(t for t in load(run)["differences"] if (t["measure"], t["others"]) == (measure, others))


def by_errors(run: str, curriculum: str) -> str:
    taught, untaught = (by("curriculum", load(run)["rows"])[name]["success"] for name in (curriculum, "none"))
    return f"{number(taught['mean'] - untaught['mean'], 3)} ± {number(hypot(taught['sem'], untaught['sem']), 3)}"


@says(HIGHWAY)
def highway() -> Iterator[str]:
    few, many = falls("highway", "highway-curriculum"), falls("highway", "none")
    yield f"Ten students of the curriculum had {few} collision while they learned, ten untaught ones {number(many)}"
    low, high = times_as_rare(few, many)
    yield f"between {number(low)} and {number(high)} times"
    test = test_of("highway", "success", "none")
    least, most = at_least(test["low"], 2), at_most(test["high"], 2)
    means = "{:.3f} against {:.3f}".format(*test["means"])
    yield f"success, {means}, ten students cannot exclude a difference between {signed(least, 2)} and {signed(most, 2)}"
    yield f"by standard errors it is {by_errors('highway', 'highway-curriculum')}"
    yield "The returns are {:.2f} and {:.2f}".format(*test_of("highway", "return", "none")["means"])
    assert all(t["told_apart"] == "no" for t in load("highway")["differences"] if t["measure"] in ("success", "return"))
    found = load("highway-teacher")
    yield f"{found['students']} students tried"
    yield f"collided {found['training_failures']} times while they learned"
    belief = found["belief"]
    yield f"a score of {belief['score']:.2f} of it, and at least {belief['bound']:.2f} with 90 % confidence"


@says(CHEETAH)
def cheetah() -> Iterator[str]:
    many = falls("cheetah", "none")
    few = falls("cheetah", "cheetah-curriculum")
    yield f"fell {few} times while they learned, ten untaught ones {number(many)} times"
    low, high = times_as_rare(few, many)
    yield f"that is {number(low)} to {number(high)} times as rare"
    for name in ("Stop", "Rewind"):
        low, high = times_as_rare(falls("cheetah", name), many)
        yield f"under {name} it is {falls('cheetah', name)} falls and {number(low)} to {number(high)} times"
    again = load("cheetah-again")["rows"][0]
    yield f"[{falls('cheetah-again', 'cheetah-curriculum')} times](cheetah-again.json)"
    yield f"succeed in {pm(again['success'], 3)} of their episodes"
    test = test_of("cheetah", "success", "none")
    less, more = at_most(-test["low"], 2), at_most(test["high"], 2)
    yield f"succeed less often by {less:.2f}, or more often by {more:.2f}"
    yield f"by standard errors the difference is {by_errors('cheetah', 'cheetah-curriculum')}"
    yield f"failed {falls('cheetah', 'Stop')} times in 614,400 steps"


@says(LEARNER)
def learners() -> Iterator[str]:
    for name in ("learner-pendulum", "learner-cheetah"):
        run = load(name)
        one = run["difference"]
        yield f"The difference of means is {signed(one['mean'], 0)} {shift(one['low'], one['high'], 0)}; p ="
        yield f"p = {chance(run['p']['means'])} by means, {chance(run['p']['ranks'])} by ranks"


@says("docs/howto/other-learners.md")
def sb3() -> Iterator[str]:
    for run in ("frozen-lake-sb3", "frozen-lake-sb3-longer"):
        test = test_of(run, "success", "SR2")
        assert test["told_apart"] == "no"
    first, longer = (test_of(run, "success", "SR1") for run in ("frozen-lake-sb3", "frozen-lake-sb3-longer"))
    yield f"(p = {chance(first['p_mean'])} by means and {chance(first['p_rank'])} by ranks;"
    yield f"{chance(longer['p_mean'])} and {chance(longer['p_rank'])}) and from none"
    found = load("frozen-lake-quick-teacher")
    assert list(dict.fromkeys(found["policy"]["interventions"])) == ["SR2", "HA"]
    quick = by("curriculum", load("frozen-lake-quick")["rows"])["optimized"]
    yield f"with {found['students']} students and patience, at {pm(quick['success'], 4)}"


@says("docs/howto/cluster.md")
def ray() -> Iterator[str]:
    faults = load("ray-faults")["faults"]
    kills, total = faults["kills"], sum(faults["kills"].values())
    yield f"{total} SIGKILLs at random moments of {faults['studies']} studies, of a node ({kills['node']})"
    assert not faults["tables that differ"] and not faults["processes left"]
    shares = load("ray-faults")["overhead"]["share of time in units"]
    spent = "With Ray {:.2f}, {:.2f} and {:.2f} of the workers' time was spent in units, with processes {:.2f}, {:.2f}"
    yield spent.format(*shares["ray"], *shares["processes"])


@says("docs/results/faults.md")
def faults() -> Iterator[str]:
    runs = load("faults")
    kills = [sum(n for name, n in run["tried"].items() if ": kills of" in name) for run in runs]
    by_seed = {run["seed"]: n for run, n in zip(runs, kills, strict=True) if n}
    yield f"{by_seed[0]} with `--seed 0`, {by_seed[1]} with `--seed 1` and {by_seed[20]} with `--seed 20`"
    tried = {name: n for run in runs for name, n in run["tried"].items() if name.startswith(("damages", "disks"))}
    noticed, harmless = (tried[f"damages, {what}"] for what in ("one line", "same result"))
    yield f"Of the damages, {noticed} were noticed, in one line, and {harmless} did no harm"
    disks = {name: n for name, n in tried.items() if name.startswith("disks")}
    full = sum(n for name, n in disks.items() if name.endswith("full"))
    yield f"{sum(disks.values())} of 200 disks"
    yield f"{full} of the disks were full"
