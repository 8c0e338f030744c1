"""Random finite tasks whose interventions mostly keep students safe, with functions that are honest, or one of which is
spoilt: it keeps state, draws, reads the time, looks at the batch, or counts on a type of numbers."""

import itertools
import random
import time
from dataclasses import dataclass, replace

import numpy as np
from gymnasium.wrappers import TimeLimit
from random_cmdps import FALL, TableEnv, highest_failure, highest_failure_when_acting, random_model

from cisr import Drive, Intervention, Override, Place, Rewind, Task, ToStart
from cisr.auditing import quick_audit
from cisr.cmdp.gymnasium import InducedCMDPs

TYPES = (np.int64, np.int64, np.uint8, np.int8, np.int32, np.float32, np.float64)


class Typed(TableEnv):
    """Remembers no more than its state; `state` is (s, n − 1)."""

    def vector(self, dtype):
        return np.array([self.s, self.observation_space.n - 1], dtype)


def put(env, state):
    env.unwrapped.s = int(state[0])
    return env.unwrapped.s


def number(state):
    return np.asarray(state[..., 0]).astype(int)


# Ways to spoil a function: `fn` is what it should be, `odd` what it answers instead now and then.


def after_calls(rng, fn, odd, n):
    calls, after = itertools.count(), int(rng.choice([1, 3, 30, 50, 200, 1_000, 3_000, 10_000]))
    return lambda *about: (odd if next(calls) >= after else fn)(*about)


def every_so_many_calls(rng, fn, odd, n):
    calls, every = itertools.count(1), int(rng.choice([2, 7, 50, 500]))
    return lambda *about: (fn if next(calls) % every else odd)(*about)


def drawn(rng, fn, odd, n):
    luck, share = np.random.default_rng(0), float(rng.choice([0.5, 0.05, 0.005, 0.001]))
    return lambda *about: (odd if luck.random() < share else fn)(*about)


def drawn_from_the_process(rng, fn, odd, n):
    share = float(rng.choice([0.5, 0.05, 0.005, 0.001]))
    draw = random.random if rng.random() < 0.5 else np.random.random
    return lambda *about: (odd if draw() < share else fn)(*about)


def cached(rng, fn, odd, n):
    kept = {}
    return lambda *about: kept.setdefault(np.shape(about[0]), fn(*about))


def of_the_last(rng, fn, odd, n):
    """Answers otherwise where it has just been asked about the same."""
    last = [None]

    def answer(*about):
        before, last[0] = last[0], np.array(about[0])
        return (odd if np.array_equal(before, last[0]) else fn)(*about)

    return answer


def by_the_clock(rng, fn, odd, n):
    unit = int(rng.choice([1_000, 1_000_000]))
    return lambda *about: (odd if time.perf_counter_ns() // unit % 2 else fn)(*about)


def later(rng, fn, odd, n):
    when, clock = float(rng.choice([1.0, 60.0, 3_000.0])), (time.time if rng.random() < 0.5 else time.monotonic)
    made = clock()
    return lambda *about: (odd if clock() > made + when else fn)(*about)


def by_the_size(rng, fn, odd, n):
    """Sizes of batches as training has them."""
    size = int(rng.choice([1, 2, 4, 8]))
    return lambda *about: (odd if len(np.atleast_2d(about[0])) == size else fn)(*about)


def by_the_neighbours(rng, fn, odd, n):
    def answer(*about):
        s = number(np.atleast_2d(about[0]))
        return (odd if len(s) > 1 and (s == s[0]).all() else fn)(*about)

    return answer


def by_type(rng, fn, odd, n):
    """Right for the model's numbers; small ones wrap around, short ones are rounded otherwise."""

    def answer(*about):
        s = about[0]
        wrapped = np.asarray((s[..., 0] - s[..., 1]) % n).astype(int) != (number(s) + 1) % n
        short = (s.dtype == np.float32) & (np.asarray(s[..., 0]) * 0.1 != np.asarray(s[..., 0]).astype(float) * 0.1)
        return np.where(wrapped | short, odd(*about), fn(*about))

    return answer


def changing(rng, fn, odd, n):
    def answer(*about):
        answered = fn(*about)
        if len(np.atleast_2d(about[0])) > 1:
            about[0][..., 0] = 0
        return answered

    return answer


WAYS = {
    way.__name__.replace("_", " "): way
    for way in (
        after_calls,
        every_so_many_calls,
        drawn,
        drawn_from_the_process,
        cached,
        of_the_last,
        by_the_clock,
        later,
        by_the_size,
        by_the_neighbours,
        by_type,
        changing,
    )
}
HONEST = "honest"


def honest(rng, fn, odd, n):
    """As it is, or with a memory, a log or a watch that change nothing."""
    kind, log, table = rng.choice(["plain", "log", "memory", "watch"]), [], {}

    def logged(*about):
        log.append(np.shape(about[0]))
        return fn(*about)

    def remembered(*about):
        key = tuple(np.asarray(part).tobytes() + str(np.asarray(part).shape).encode() for part in about)
        key += (about[0].dtype.str,)
        return table.setdefault(key, fn(*about)).copy()

    def watched(*about):
        begun = time.perf_counter()
        answer = fn(*about)
        log.append(time.perf_counter() - begun)
        return answer

    return {"plain": fn, "log": logged, "memory": remembered, "watch": watched}[kind]


@dataclass
class Fragile:
    task: Task
    way: str
    """HONEST, or how a function is spoilt."""
    what: str
    """Which function."""
    typed: str
    """Type of the numbers that `read_state` answers."""
    safe: bool | None
    """Whether no policy can fail, where all functions are honest; None where that is not worked out here."""


def fragile_task(rng, way=None):
    """A task with one intervention; `way` spoils one of its functions, by default one in three is honest."""
    model = random_model(rng)
    n, n_actions = model.n_states, model.n_actions
    water = rng.random(n) < 0.3
    water[0] = False
    fails = water[model.target] | (model.reward == FALL)
    risky = np.bincount(model.pair, fails, minlength=n * n_actions).reshape(n, n_actions) > 0  # (n, A)
    calm = ~risky.any(axis=1) & ~water
    starts = np.zeros(n, bool)
    starts[rng.choice(np.flatnonzero(calm)) if calm.any() else 0] = True
    states = np.column_stack([np.arange(n), np.full(n, n - 1)])
    dtype = TYPES[rng.integers(len(TYPES))]
    limit = int(rng.integers(2, 8)) if rng.random() < 0.1 else None
    model = replace(model, states=states, start=starts / 1.0, time_limit=limit)
    way = way or (HONEST if rng.random() < 1 / 3 else str(rng.choice(list(WAYS))))
    kind = str(rng.choice(["override", "drive", "place", "rewind", "far", "to start"]))
    parts = {
        "override": ("trigger", "act"),
        "drive": ("trigger", "controller", "until"),
        "place": ("trigger", "reset"),
    }.get(kind, ("trigger",))
    spoilt = str(rng.choice(parts))
    if way in ("after calls", "drawn", "later") and rng.random() < 0.2:
        spoilt = "danger"

    def made(what, fn, odd):
        if way == HONEST:
            return fn if what == "danger" else honest(rng, fn, odd, n)
        return WAYS[way](rng, fn, odd, n) if what == spoilt else fn

    def table(what, answers, other):
        return made(what, lambda s: answers[number(s)], lambda s: other[number(s)])

    def deeds(what, answers, other):
        return made(what, lambda s, a: answers[number(s), a], lambda s, a: other[number(s), a])

    careful = risky.argmin(axis=1)  # (n,) an action that is not risky, where there is one
    zone = (risky.any(axis=1) | (rng.random(n) < 0.2)) & ~starts
    zone = table("trigger", zone, ~zone)
    match kind:
        case "override":
            vetoed = risky | (rng.random((n, n_actions)) < 0.2)
            instead = np.repeat(careful[:, None], n_actions, axis=1)
            trigger = deeds("trigger", vetoed, ~vetoed)
            reset = Override(deeds("act", instead, (instead + 1) % n_actions), ends=bool(rng.random() < 0.3))
        case "drive":
            trigger, until = zone, table("until", calm, ~calm)
            controller = table("controller", careful, (careful + 1) % n_actions)
            reset = Drive(controller, until=until, max_steps=int(rng.integers(1, 5)))
        case "place":
            trigger, first = zone, int(np.flatnonzero(starts)[0])

            def placing(where):
                return lambda s, history, u: np.array([where, n - 1])

            reset = Place(made("reset", placing(first), placing(int(rng.integers(n)))))
        case _:
            trigger, reset = zone, {"rewind": Rewind(1), "far": Rewind(3), "to start": ToStart()}[kind]

    def fallen(move):
        return (move.reward == FALL) | water[number(move.state)]

    danger = made("danger", fallen, lambda move: ~fallen(move))
    intervention = Intervention(name="I", trigger=trigger, reset=reset, tau=float(rng.choice([0.0, 0.5])))
    if rng.random() < 0.5:
        intervention = replace(intervention, horizon=int(rng.integers(1, 20)))

    def make_env(**_):
        return Typed(model) if limit is None else TimeLimit(Typed(model), limit)

    task = Task(
        name="fragile",
        make_env=make_env,
        model=lambda: model,
        danger=danger,
        success=lambda move: move.terminated & (move.reward > 0),
        interventions=(intervention,),
        horizon=int(rng.integers(2, 12)),
        constraint_form="sum" if rng.random() < 0.5 else "mean",
        read_state=lambda env: env.unwrapped.vector(dtype),
        place=put,
    )
    safe = None
    if way == HONEST and kind != "far":
        highest = highest_failure_when_acting if kind in ("override", "drive") else highest_failure
        safe = highest(task, intervention) == 0
    return Fragile(task, way, spoilt if way != HONEST else "", np.dtype(dtype).name, safe)


@dataclass
class Judged:
    honest: bool
    safe: bool | None
    certified: bool
    named: tuple[str, ...]
    """What the audit says of promises."""
    failures: int
    """Of hard play under the intervention, where it is certified."""

    @property
    def contradicted(self):
        return self.certified and (self.failures > 0 or self.safe is False)

    @property
    def accused(self):
        """Although it is honest."""
        return self.honest and (bool(self.named) or (self.safe is True and not self.certified))


def judged(case, seed, n_steps=4_000):
    report = quick_audit(case.task)
    certified = report["I"].status == "certified"
    failures = sum(play(case.task, n_envs, n_steps // 2, seed) for n_envs in (1, 4)) if certified else 0
    return Judged(case.way == HONEST, case.safe, certified, tuple(map(str, report.broken)), failures)


def play(task, n_envs, n_steps, seed):
    """Failures of about so many steps of random play, as training steps its environments."""
    rng = np.random.default_rng(seed)
    cmdp = InducedCMDPs(task, task.intervention("I"), [task.make_env() for _ in range(n_envs)])
    cmdp.seed([seed + k for k in range(n_envs)])
    failures, space = 0, cmdp.envs[0].action_space.n
    for _ in range(n_steps // n_envs):
        step = cmdp.step(rng.integers(space, size=n_envs))
        failures += int(step.failed.sum())
        for k in np.flatnonzero(step.terminated | step.truncated).tolist():
            cmdp.restart(k)
    return failures
