"""Frozen Lake's numbers: README.md and docs/results/frozen-lake.md."""

from collections.abc import Iterator

from scipy.stats import ttest_1samp, wilcoxon

from cells import at_most, chance, interval, number, over, pm, published, share, signed
from cisr.experiments.statistics import chance as dealt
from cisr.experiments.statistics import holm, rank_chance
from pages import Row, by, load, says, table

LAKE = "docs/results/frozen-lake.md"
SEEDS = ("frozen-lake", "frozen-lake-seed-1", "frozen-lake-seed-2")
TEACHERS = {"paper": "the paper's", "random": "random search"}
RECORDED = {
    "ours": "ours (`TopTwo`)",
    "random": "random search",
    "paper": "the paper's (GP-UCB)",
    "tpe": "Optuna's TPE",
    "gp": "Optuna's GP",
}
BESIDE = ("SR1", "SR2", "Back-6", "Incremental-2", "FL-A", "FL-B", "Random search")
BOUNDS = load("frozen-lake-audit")["exact"]["numbers"]
MEASURES = (("success", 3), ("training_failures", 1), ("return", 3))


@table(
    "curriculum",
    "success",
    "failed to learn",
    "return",
    "failures in training",
    "rescues",
    "failures once deployed",
)
def lake_quick() -> Iterator[Row]:
    for row in load("frozen-lake-quick")["rows"]:
        learned = pm(row["success"], 4), share(row["failed_to_learn"]), pm(row["return"], 2)
        harm = pm(row["training_failures"], 0), pm(row["rescues"], 0), pm(row["deployment_failures"], 3)
        yield row["curriculum"], *learned, *harm


def classes(curriculum: str, measure: str) -> list[float]:
    """The means of the nine classes of the reproductions with seeds 0, 1 and 2."""
    return [value for seed in SEEDS for value in by("curriculum", load(seed)["rows"])[curriculum]["classes"][measure]]


@table(
    "curriculum",
    "success",
    "success, 9 teachers",
    "paper",
    "failures in training",
    "paper",
    "return",
    "paper",
)
def lake_reproduced() -> Iterator[Row]:
    for row in load("frozen-lake")["rows"]:
        theirs = {measure: published(row["paper"] and row["paper"][measure], digits) for measure, digits in MEASURES}
        ours = {measure: pm(row["ours"][measure], digits) for measure, digits in MEASURES}
        nine = pm(over(classes(row["curriculum"], "success")), 3)
        success = row["curriculum"], ours["success"], nine, theirs["success"]
        yield *success, *(text for measure, _ in MEASURES[1:] for text in (ours[measure], theirs[measure]))


@table(
    "curriculum", "ours: mean (median), n", "of them failed to learn", "published: mean, n", "difference", "p (ranks)"
)
def lake_published() -> Iterator[Row]:
    run = load("frozen-lake-published")
    rows = by("curriculum", run["rows"])
    for test in run["against"]:
        if test["measure"] == "success":
            ours, theirs = test["means"]
            success, (n, m) = rows[test["group"]]["success"], test["sizes"]
            yield (
                test["group"],
                f"{number(ours, 3)} ({number(success['median'], 3)}), {n}",
                share(rows[test["group"]]["failed_to_learn"]),
                f"{number(theirs, 3)}, {m}",
                signed(ours - theirs, 3),
                chance(test["p_rank"]),
            )


@table("curriculum", "success", "lowest class", "failed to learn", "return", "failures in training")
def lake_ours() -> Iterator[Row]:
    for name, row in load("frozen-lake-ours")["rows"].items():
        success, earned = pm(over(row["classes"]), 4), pm(over(row["class returns"]), 3)
        lost = f"{row['failed to learn']} of {row['students']}"
        fell = number(row["training failures"] / row["students"], 1)
        yield name, success, number(row["lowest class"], 4), lost, earned, fell


@table("teacher", "success", "lowest class", "return")
def lake_cnn_teachers() -> Iterator[Row]:
    for name, row in load("frozen-lake-cnn-teachers")["rows"].items():
        earned = number(over(row["class returns"])["mean"], 3)
        yield TEACHERS.get(name, name), pm(over(row["classes"]), 3), number(min(row["classes"]), 3), earned


@table("teacher", "regret after 10 students", "30", "60")
def lake_landscape() -> Iterator[Row]:
    rows = load("frozen-lake-landscape")["rows"]
    for name in ("ours", "random", "paper", "tpe", "gp"):
        own = [(row["regret"], *row["interval"]) for row in rows if row["teacher"] == name]
        yield RECORDED[name], *(f"{number(regret, 3)} {interval(low, high, 3)}" for regret, low, high in own)


def told_apart(name: str) -> tuple[float, float]:
    """p of Optimized's nine classes against another curriculum's, by means and by ranks, corrected over the rows."""
    others = [row["curriculum"] for row in load("frozen-lake")["rows"][1:]]
    groups = [(classes("Optimized", "success"), classes(other, "success")) for other in others]
    means, ranks = holm([dealt(*pair) for pair in groups]), holm([rank_chance(*pair) for pair in groups])
    k = others.index(name)
    return means[k] or 0.0, ranks[k] or 0.0


@says(LAKE)
def reproduced() -> Iterator[str]:
    optimized, search = classes("Optimized", "success"), classes("Random search", "success")
    below = chance(ttest_1samp(optimized, 0.960).pvalue), chance(wilcoxon([x - 0.960 for x in optimized]).pvalue)
    yield f"{pm(over(optimized), 3)} against 0.960 (p = {below[0]} by a t-test of the nine classes against 0.960,"
    yield f"0.960, {below[1]} by Wilcoxon's signed ranks)"
    yield f"at {pm(over(optimized[:3]), 3)} (p = {chance(ttest_1samp(optimized[:3], 0.960).pvalue)})"
    by_means, by_ranks = map(chance, told_apart("SR1"))
    assert by_means == by_ranks
    yield f"told apart** from SR1 (p = {by_means} by means and by ranks)"
    assert all(p > 0.05 for name in BESIDE for p in told_apart(name))
    assert all(p < 0.001 for name in ("HR", "Bandit", "No-interv.") for p in told_apart(name))
    nine = [number(x, 3) for x in sorted(optimized)]
    yield f"four between {nine[5]} and {nine[8]}, four between {nine[1]} and {nine[4]}, one at {nine[0]}"
    raw = chance(dealt(optimized, search))
    yield f"({number(over(search)['mean'], 3)} against {number(over(optimized)['mean'], 3)}, p = {raw} by means"
    yield f"without one fell {number(over(classes('No-interv.', 'training_failures'))['mean'])} times each"
    taught = [row for seed in SEEDS for row in load(seed)["pooled"] if row["curriculum"] != "No-interv."]
    assert not any(row["training_failures"]["mean"] for row in taught)
    yield f"every one of the {sum(row['students'] for row in taught)} fresh students"


@says(LAKE)
def ours() -> Iterator[str]:
    run = load("frozen-lake-ours")
    row = run["rows"]["ours"]
    least, *rest = sorted(row["classes"])
    assert least == 29 / 30
    yield f"29 of 30, {least:.4f}, and the other eight are at {number(rest[0], 4)} to {number(rest[-1], 4)}"
    assert all(other["training failures"] == 0 for name, other in run["rows"].items() if name != "none")
    assert row["search failures"] == 0
    worst = max(
        max(test["p_mean"], test["p_rank"]) for test in run["differences"] if test["measure"] in ("success", "return")
    )
    yield f"(p ≤ {at_most(worst, 3):.3f}, nine classes against nine"
    earned = dict(zip(row["classes"], row["class returns"], strict=True))
    yield f"limit** of {BOUNDS['best_return_never_failing']:.3f}"
    yield f"(its class is at {earned.pop(least):.3f})"
    last_hr = [p["interventions"][-1] for p in run["policies"]["ours"]].index("HR")
    detour = row["class returns"][last_hr]
    others = sorted(set(earned.values()) - {detour})
    yield f"({detour:.3f} in the one class whose curriculum ends there"
    yield f"ends there, {others[0]:.3f} to {others[-1]:.3f} in the seven others"
    ten, patient = load("frozen-lake-ours-10"), load("frozen-lake-ours-10-patience")["rows"]
    test = by("measure", ten["differences"])["success"]
    ours, random = ten["rows"]["ours"], ten["rows"]["random"]
    yield f"ours {pm(over(ours['classes']), 4)}, lowest class {ours['lowest class']:.3f} ({ours['failed to learn']} of"
    yield f"{pm(over(random['classes']), 3)}, lowest {random['lowest class']:.3f}, {random['failed to learn']} of 360"
    yield f"(p = {chance(test['p_mean'])} by means, {chance(test['p_rank'])} by ranks;"
    yield f"{patient['ours']['success']:.4f} and {patient['random']['success']:.4f}"
    lost = patient["ours"]["failed to learn"] + load("frozen-lake-ours-patience")["rows"]["ours"]["failed to learn"]
    yield f"{lost} of 630 students"
    yield f"{row['failed to learn'] + ours['failed to learn']} of 630 without"


@says(LAKE)
def teachers_paired() -> Iterator[str]:
    rows = load("frozen-lake-cnn-teachers")["rows"]
    for name, how in (("paper", "paper's by"), ("random", "random search by")):
        gains = [a - b for a, b in zip(rows["ours"]["classes"], rows[name]["classes"], strict=True)]
        p, bounds = wilcoxon(gains).pvalue, ttest_1samp(gains, 0).confidence_interval()
        said = f"{chance(p)}" if p < 0.001 else f"= {chance(p)}"
        yield f"{how} {number(over(gains)['mean'], 3)} [{bounds.low:.3f}, {bounds.high:.3f}] (p {said}"


@says(LAKE)
def landscape() -> Iterator[str]:
    tests = [test for test in load("frozen-lake-landscape")["differences"] if test["teacher"] == "gp"]
    first, second, third = (
        f"{-test['mean']:.3f} [{-test['interval'][1]:.3f}, {-test['interval'][0]:.3f}]" for test in tests
    )
    yield f"{first} (all four still are random search then), {second} and {third}"


@says("docs/safety.md")
def limits() -> Iterator[str]:
    best, never = BOUNDS["best_return"], BOUNDS["best_return_never_failing"]
    yield f"the best return of any policy is {best:.3f}, of policies that never fall {never:.3f}, and the best success"


@says(LAKE)
def price() -> Iterator[str]:
    numbers = {one["name"]: one["numbers"] for one in load("frozen-lake-audit")["exact"]["interventions"]}
    yield f"finds its price to be {abs(numbers['HA']['price']):.3f} where HR's is {numbers['HR']['price']:.3f}"
