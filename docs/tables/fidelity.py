"""Numbers of docs/results/lander-fidelity.md."""

from collections.abc import Iterator, Mapping
from typing import Any

from cells import chance, number, pm, shift, signed
from pages import Row, load, says, table

OUTCOMES = ("crash", "out of map", "success", "timeout")


def _part(some: int, of: int, digits: int = 1) -> str:
    return f"{some:,} ({100 * some / of:.{digits}f} %)".replace("100.0 %", "100 %")


@table("", "")
def fidelity_steps() -> Iterator[Row]:
    run = load("lander-fidelity-steps")
    n, edges = run["compared"], run["a leg on two edges"]
    yield f"steps compared ({run['of them crashes']} more were crashes)", f"{n:,}"
    yield "all 18 numbers within 1e-3 (aim: 95 %)", _part(run["within 1e-3"], n)
    yield "within 1e-4", _part(run["within 1e-4"], n)
    yield "equal to the last bit", _part(run["equal to the last bit"], n)
    yield "median of the largest difference", f"{run['median']:.1e}".replace("e-0", "e-")
    yield "steps in which a leg is on two edges at once", f"{edges}, of them {run['of them within 1e-3']} within 1e-3"
    rest = run["within 1e-3"] - run["of them within 1e-3"]
    yield "all other steps", f"{n - edges:,}, of them {rest:,} within 1e-3"
    yield "equal flags of both legs' ground contact", f"{run['equal flags']:,}"
    yield "another verdict of a crash", f"{run['other verdicts of a crash']} of {run['steps']:,}"
    asleep = f"{run['other verdicts of sleep']} of {run['steps']:,} ({run['fell asleep']} fell asleep)"
    yield "another verdict of falling asleep", asleep


@table("", "")
def fidelity_episodes() -> Iterator[Row]:
    run = load("lander-fidelity-replay")
    n, ground = run["episodes"], run["of them without a crash"]
    after, flight = (f"{run[key]:.1e}".replace("e-0", "e-") for key in ("after the reset", "200 steps of flight"))
    equal = run["of them with bodies equal to the last bit"]
    yield "after the reset", f"{after} (aim: 1e-5); the bodies' equal to the last bit in {equal} of {n}"
    yield f"200 steps of flight, {run['steps of flight']:,} in all", f"{flight} (aim: 2e-4)"
    yield "of them with all numbers of the bodies equal to the last bit", f"{run['of them equal to the last bit']:,}"
    flags = f"{run['of them with equal flags']:,} of {run['steps after the first contact']:,}"
    yield "steps after the first contact with equal flags of both legs", flags
    same = run["equal to the last bit"]
    crashes = "without the crashes' own: bodies equal to the last bit"
    yield crashes, f"{same:,} of {ground:,} ({100 * same / ground:.0f} %)"
    yield "bodies within 1e-4", _part(run["within 1e-4"], ground, 0)
    slept, within = run["fell asleep"], run["within 2 steps"]
    landings = (
        f"{within} of {slept}, {100 * within / slept:.0f} % (aim: 90 %), {run['in the same step']} in the same step"
    )
    yield "landings that fall asleep within 2 steps of Box2D's", landings
    crashed = f"{run['crashed within 2 steps']} of {run['crashed']}, {run['crashed in the same step']} in the same step"
    yield "crashes within 2 steps of Box2D's", crashed


def _rates(side: Mapping[str, Any], n: int, *, ends: bool) -> str:
    percent = [number(100 * side["outcomes"][outcome] / n, 1) for outcome in OUTCOMES]
    return ", ".join(percent) + (f"; {number(100 * side['outcomes']['rescue'] / n, 1)}" if ends else "")


@table("policy", "under", "episodes of each", "Gymnasium", "compiled", "rescues")
def fidelity_rates() -> Iterator[Row]:
    for row in load("lander-fidelity-rates")["by policy and intervention"]:
        n, under = row["episodes"], row["intervention"]
        sides = row["gymnasium"], row["compiled"]
        rates = (_rates(side, n, ends=under == "Hard-Funnel") for side in sides)
        rescues = " / ".join(number(side["mean_rescues"], 2) for side in sides) if under != "none" else ""
        yield row["policy"].split()[0], under, f"{n:,}", *rates, rescues


@table("", "compiled", "on Box2D", "change, student by student")
def fidelity_deployed() -> Iterator[Row]:
    row = load("lunar-lander-careful-deployed")["rows"][0]
    for name, digits, changed in (("success", 3, 4), ("return", 1, 1), ("failures", 3, 4)):
        now, before, change = (row[name][when] for when in ("now", "before", "change"))
        said = f"{signed(change['mean'], changed)} ± {number(change['sem'], changed)}"
        if name == "success":
            said += f" {shift(change['low'], change['high'], 3)} (aim: at most 0.02 lost)"
        yield name.replace("failures", "failures per episode"), pm(before, digits), pm(now, digits), said


@says("docs/results/lander-fidelity.md")
def rates() -> Iterator[str]:
    run = load("lander-fidelity-rates")
    assert not run["not shown to be equivalent"]
    yield f"All {run['rates']} rates are shown to be equivalent within {100 * run['margin']:.0f} points"
    worst = max(run["by rate"], key=lambda one: one["p"])
    yield f"the largest p is {chance(run['largest p'])} ({worst['policy'].split()[0]} under {worst['intervention']}"
    furthest = max(run["by rate"], key=lambda one: abs(one["gymnasium"] - one["compiled"]) / one["episodes"])
    where = f"({furthest['policy'].split()[0]} under {furthest['intervention']}, {furthest['outcome']})"
    yield f"The largest difference is {100 * run['largest difference']:.2f} points {where}"
    sure = sum(
        one["gymnasium"] == one["compiled"] and one["compiled"] in (0, one["episodes"]) for one in run["by rate"]
    )
    yield f"{sure} of the {run['rates']} are rates of what always or never happened on both sides"


@says("docs/results/lander-fidelity.md")
def single_steps() -> Iterator[str]:
    run = load("lander-fidelity-steps")
    assert run["within 1e-3"] == run["compared"]
    yield "No step differs by more than 1e-3"
    late = load("lander-fidelity-replay")
    yield f"{late['crashed'] - late['crashed in the same step']} of {late['crashed']} crashes come in another step"
