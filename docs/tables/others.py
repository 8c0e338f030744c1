"""Numbers of driving, the robot, single learners and faults: README.md and their pages in docs/results."""

from collections import Counter
from collections.abc import Iterator
from statistics import mean, stdev
from typing import Any

from cells import NONE, at_most, chance, interval, number, pm, share, shift, signed
from pages import Row, by, load, table

LEARNED = {
    "highway-curriculum": "the teacher's",
    "cheetah-curriculum": "learned: Stop, then Steady (which no student reached)",
}
MEASURED = {"training_failures": "collisions in training"}


def _failures(estimate: dict[str, float]) -> str:
    return pm(estimate, 0 if estimate["mean"] >= 100 else 1)


def _bounds(estimate: dict[str, float]) -> str:
    return interval(estimate["low"], estimate["high"])


@table("first", "then", "at a return of", "and a violation of", "students", "scores")
def highway_search() -> Iterator[Row]:
    tried: dict[tuple[Any, ...], list[float]] = {}
    for each in load("highway-teacher")["rounds"]:
        tried.setdefault(tuple(each["parameters"].values()), []).append(each["score"])
    for (first, then, at, below), scores in tried.items():
        yield first, then, number(at, 2), number(below, 2), f"{len(scores)}", ", ".join(number(s, 2) for s in scores)


@table("curriculum", "success", "interval", "return", "collisions in training", "students with any", "rescues")
def highway_compared() -> Iterator[Row]:
    for row in load("highway")["rows"]:
        success = pm(row["success"], 3), _bounds(row["success"])
        collided = pm(row["training_failures"], 1), share(row["students_with_failures"])
        name = LEARNED.get(row["curriculum"], row["curriculum"])
        yield name, *success, pm(row["return"], 2), *collided, number(row["rescues"]["mean"])


@table("measure", "teacher's against", "difference", "interval", "p (means)", "p (ranks)", "told apart")
def highway_tests() -> Iterator[Row]:
    digits = {"success": 3, "return": 2, "training_failures": 1}
    for test in load("highway")["differences"]:
        measure, (ours, others) = test["measure"], test["means"]
        bounds = NONE if test["low"] is None else shift(test["low"], test["high"])
        told = chance(test["p_mean"]), chance(test["p_rank"]), test["told_apart"]
        difference = signed(ours - others, digits[measure])
        yield MEASURED.get(measure, measure), test["others"], difference, bounds, *told


@table("curriculum", "success", "return", "collisions in training")
def highway_first() -> Iterator[Row]:
    for row in load("highway-first")["rows"]:
        name = LEARNED.get(row["curriculum"], row["curriculum"])
        yield name, pm(row["success"], 3), pm(row["return"], 2), _failures(row["training_failures"])


AUDIT = ("verdict", "collisions in judged episodes", "while attackers were trained or rehearsed")


@table("intervention", *AUDIT, "failures per episode at most")
def highway_audit() -> Iterator[Row]:
    for verdict in load("highway-audit")["interventions"]:
        attacked = verdict["falsification"]
        failures, episodes = (sum(one[key] for one in attacked["attacks"]) for key in ("failures", "episodes"))
        rehearsed = sum(one["rehearsal_failures"] for one in attacked["attacks"])
        seen = rehearsed + (attacked["training"] or {"failures": 0})["failures"]
        judged = f"{failures} of {episodes}"
        yield verdict["name"], verdict["status"], judged, f"{seen}", number(at_most(attacked["upper_bound"], 3), 3)


@table("curriculum", "success", "failures in training", "return")
def cheetah_short() -> Iterator[Row]:
    for row in load("cheetah")["rows"]:
        name = row["curriculum"].replace("cheetah-curriculum", "learned: Stop, in effect")
        yield name, pm(row["success"], 3), _failures(row["training_failures"]), pm(row["return"], 0)


@table(
    "curriculum",
    "failures in training",
    "students with any",
    "success",
    "return",
    "failures per episode once deployed",
)
def cheetah_compared() -> Iterator[Row]:
    for row in load("cheetah")["rows"]:
        fell = _failures(row["training_failures"]), share(row["students_with_failures"])
        success, deployed = row["success"], row["deployment_failures"]
        name = LEARNED.get(row["curriculum"], row["curriculum"])
        later = f"{number(deployed['mean'], 3)} {_bounds(deployed)}"
        yield name, *fell, f"{pm(success, 3)} {_bounds(success)}", pm(row["return"], 0), later


@table("learned against", "success", "p (means), p (ranks)", "return", "p (means), p (ranks)", "told apart by both")
def cheetah_tests() -> Iterator[Row]:
    tests = load("cheetah")["differences"]
    earned = by("others", (test for test in tests if test["measure"] == "return"))
    for test in tests:
        if test["measure"] == "success":
            other = earned[test["others"]]
            gain, more = (one["means"][0] - one["means"][1] for one in (test, other))
            success = f"{signed(gain, 3)} {shift(test['low'], test['high'])}"
            p, q = (f"{chance(one['p_mean'])}, {chance(one['p_rank'])}" for one in (test, other))
            apart = [name for name, one in (("success", test), ("return", other)) if one["told_apart"] == "yes"]
            yield test["others"], success, p, signed(more, 0), q, " and ".join(apart) or "no"


@table(
    "intervention",
    "failures of random play",
    "of sticky play",
    "of the trained attacker",
    "at most, per episode (95 %)",
    "verdict",
)
def cheetah_audit() -> Iterator[Row]:
    for verdict in load("cheetah-audit")["interventions"]:
        attacked = verdict["falsification"]
        played = {one["attacker"]: f"{one['failures']} of {one['episodes']}" for one in attacked["attacks"]}
        counts = (played.get(attacker, NONE) for attacker in ("random", "sticky", "trained"))
        yield verdict["name"], *counts, number(at_most(attacked["upper_bound"], 3), 3), verdict["status"]


@table("backend", "steps/s", "times sb3", "times sb3-plain")
def cheetah_bench() -> Iterator[Row]:
    bench = load("cheetah-bench")
    for backend, rate in bench["lanes"].items():
        ratios = (bench["ratios"].get(f"{backend}/{other}") for other in ("sb3", "sb3-plain"))
        yield backend, number(rate), *(NONE if ratio is None else number(ratio, 2) for ratio in ratios)


def _learners(name: str) -> Iterator[Row]:
    for learner, returns in load(name)["returns"].items():
        each = " ".join(number(value) for value in sorted(returns))
        label = {"sb3": "Stable-Baselines3"}.get(learner, learner)
        yield label, number(mean(returns)), number(stdev(returns)), each


LEARNERS = ("learner", "mean return", "standard deviation over seeds", "each student")


@table(*LEARNERS)
def learners_pendulum() -> Iterator[Row]:
    yield from _learners("learner-pendulum")


@table(*LEARNERS)
def learners_cheetah() -> Iterator[Row]:
    yield from _learners("learner-cheetah")


CASES = {
    "kills": "kills: units lost, workers that lived on",
    "finished studies": "studies that were killed and went on to their end: cells changed",
    "damages": "damages",
    "a store": "disks under a store and its weights",
    "disks": "disks under what commands write",
}


def _case(name: str) -> str:
    name = name.split(": ", 1)[1] if name.split(": ")[0] in ("gymnasium", "compiled") else name
    if name.startswith("disks"):
        return CASES["a store" if "a store" in name else "disks"]
    return CASES.get(name.split(" of ")[0].split(",")[0], name)


@table("command", "commit", "ran to its end", "tried")
def faults_runs() -> Iterator[Row]:
    for run in load("faults"):
        ended = "yes" if run["finished"] else "stopped"
        yield f"`{run['command']}`", f"`{run['code']}`", ended, f"{sum(run['tried'].values()):,}"


@table("what", "tried", "clear", "wrong")
def faults_tried() -> Iterator[Row]:
    tried: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for run in load("faults"):
        for name, count in run["tried"].items():
            tried[_case(name)] += count
            wrong[_case(name)] += len(run["wrong"].get(name, []))
    for case in [*CASES.values(), *(case for case in tried if case not in CASES.values())]:
        yield case, f"{tried[case]:,}", f"{tried[case] - wrong[case]:,}", f"{wrong[case]}"


@table("curriculum", "success", "interval", "failed to learn", "return", "failures in training", "rescues")
def sb3_students() -> Iterator[Row]:
    first, longer = (load(run)["rows"] for run in ("frozen-lake-sb3", "frozen-lake-sb3-longer"))
    for row in (first[0], longer[0], *first[1:]):
        learned = pm(row["success"], 3), _bounds(row["success"]), share(row["failed_to_learn"])
        yield row["curriculum"], *learned, pm(row["return"], 2), pm(row["training_failures"], 0), pm(row["rescues"], 0)


@table("the spoilt function", "tasks", "a promise named", "certified", "contradicted by play", "honest and accused")
def certificates() -> Iterator[Row]:
    total: dict[str, Counter[str]] = {}
    for run in map(load, ("certificates", "certificates-2")):
        for way, found in {**run["ways"], "all": run["all"]}.items():
            total.setdefault(way, Counter()).update(found)
    for way, counts in sorted(total.items(), key=lambda each: (each[0] == "all", each[0] != "honest", each[0])):
        names = ("tasks", "promises named", "certified", "contradicted", "accused though honest")
        yield "none" if way == "honest" else way, *(f"{counts[name]:,}" for name in names)
