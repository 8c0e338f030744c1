"""What docs/results/lunar-lander-gpu.md says of its tables."""

from collections.abc import Iterator

from scipy.stats import ttest_ind_from_stats

from cells import chance, number, over, pm
from cisr.experiments.statistics import holm
from lander_gpu import reproduced
from pages import by, load, says

GPU = "docs/results/lunar-lander-gpu.md"
MEASURES = ("success", "return", "training_failures")


def beside_the_paper(students: str, curriculum: str, measure: str) -> float:
    """p of Welch's t-test of three repetitions against the paper's three."""
    row = by("curriculum", reproduced(students))[curriculum]
    ours, theirs = row["ours"][measure], row["paper"][measure]
    errors = (ours["sem"] * 3**0.5, theirs[1] * 3**0.5)
    return float(ttest_ind_from_stats(ours["mean"], errors[0], 3, theirs[0], errors[1], 3, equal_var=False).pvalue)


@says(GPU)
def tables_7() -> Iterator[str]:
    given = ("No-interv.", "Narrow", "Wide")
    least = min(beside_the_paper("two-layer", curriculum, measure) for curriculum in given for measure in MEASURES)
    yield f"(the smallest p of these nine is {chance(least)}, by Welch's"
    p = [beside_the_paper("two-layer", "Optimized", measure) for measure in ("success", "return")]
    rows = by("curriculum", reproduced("two-layer"))
    success, earned = (rows["Optimized"]["ours"][measure]["mean"] for measure in ("success", "return"))
    yield f"{number(success, 3)} against 0.892 in success (p = {chance(p[0])}) and {number(earned)} against"
    yield f"return (p = {chance(p[1])})"
    corrected = {chance(q) for q in holm(p)}
    yield f"Holm's correction makes both {' and '.join(corrected)}"
    theirs = (number(rows[name]["ours"]["success"]["mean"], 3) for name in ("LL-A", "LL-B"))
    yield "take our students to {} and {}".format(*theirs)
    switches = load("lunar-lander-reproduced")["policies"]["Random search"]
    assert all(policy["interventions"] == ["Narrow", "Wide"] for policy in switches)
    at = sorted(policy["thresholds"][0]["min_return"] for policy in switches)
    yield "(at returns of {:.0f}, {:.0f} and {:.0f})".format(*at)
    noisy = {(c, m): beside_the_paper("noisy", c, m) for c in ("Optimized", *given) for m in MEASURES}
    assert [where for where, p in noisy.items() if p < 0.1] == [("No-interv.", "training_failures")]
    yield f"p = {chance(noisy['No-interv.', 'training_failures'])}, not corrected)"
    one = min(beside_the_paper("one-layer", c, m) for c in ("Optimized", *given) for m in MEASURES)
    yield f"has a p below {int(100 * one) / 100:.2f}"
    classes = [number(mean, 3) for mean in by("curriculum", reproduced("one-layer"))["Optimized"]["classes"]["success"]]
    yield f"class to {classes[0]}, the two that come to Narrow alone take theirs to {classes[1]} and {classes[2]}"


@says(GPU)
def top_two() -> Iterator[str]:
    found, row = load("lunar-lander-top-two"), load("lunar-lander-top-two-compared")["rows"][0]
    at, below = found["policy"]["thresholds"][0].values()
    yield f"Narrow, then Wide at a return of {number(at, 1)} and {number(below, 2)} rescues"
    fell = pm(row["training_failures"], 1)
    yield f"in {pm(row['success'], 3)} of episodes with a return of {pm(row['return'], 1)} (it had expected"
    yield f"(it had expected {number(found['belief']['score'])}) and {fell} failures in training"


@says(GPU)
def multipliers() -> Iterator[str]:
    tests = by("measure", load("lunar-lander-multipliers")["differences"])
    fell = tests["training_failures"]
    both = f"p = {chance(fell['p_mean'])} by means, {chance(fell['p_rank'])} by ranks"
    yield f"{number(fell['means'][1] - fell['means'][0])} failures more ({both}"
    p = [[chance(tests[measure][key]) for measure in ("success", "return")] for key in ("p_mean", "p_rank")]
    yield f"(p = {p[0][0]} and {p[0][1]} by means, {p[1][0]} and {p[1][1]} by ranks"


@says(GPU)
def ours() -> Iterator[str]:
    row = load("lunar-lander-careful-deployed")["rows"][0]["success"]["now"]
    yield f"A success of **{pm(row, 3)}** on Box2D [{row['low']:.3f}, {row['high']:.3f}]"
    teachers = load("lunar-lander-ours-teachers")["teachers"]
    assert not any(teacher["training_failures"] for teacher in teachers)
    yield f"none of their {sum(teacher['students'] for teacher in teachers)} students failed in training"
    fresh = load("lunar-lander-ours-compared")["rows"]
    assert not any(row["training_failures"]["mean"] for row in fresh)
    means = [row["success"]["now"]["mean"] for row in load("lunar-lander-ours-deployed")["rows"]]
    yield f"The three teachers together are at {pm(over(means), 3)}, on Box2D as on the compiled lander"
    assert [row["failed_to_learn"]["count"] for row in fresh] == [0, 0, 1]
    steps = sum((one["falsification"] or {"steps": 0})["steps"] for one in load("lunar-lander-audit")["interventions"])
    yield f"in {round(steps / 1e6, -1):.0f} million steps under the two together"
