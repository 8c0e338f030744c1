"""Small random finite CMDPs with random interventions, and what is true of them worked out the slow, plain way.

Nothing here uses `cisr.auditing`: the rules of `cisr.cmdp` are written down a second time, one move after the other.
"""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import gymnasium
import numpy as np
from hypothesis import strategies as st

from cisr import Drive, Intervention, Override, Place, Rewind, Task, ToStart
from cisr.core.model import FiniteModel

FALL = -100.0


class TableEnv(gymnasium.Env):
    """Any finite model as an environment that shows its table as Gymnasium's toy-text environments do."""

    def __init__(self, model):
        self.observation_space = gymnasium.spaces.Discrete(model.n_states)
        self.action_space = gymnasium.spaces.Discrete(model.n_actions)
        self.initial_state_distrib = model.start
        self.P = {s: {a: [] for a in range(model.n_actions)} for s in range(model.n_states)}
        for s, a, p, s_next, reward, terminated in rows(model):
            self.P[s][a].append((p, s_next, reward, terminated))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = int(self.np_random.choice(len(self.P), p=self.initial_state_distrib))
        return self.s, {}

    def step(self, action):
        moves = self.P[self.s][int(action)]
        chances = np.array([move[0] for move in moves])
        _, self.s, reward, terminated = moves[self.np_random.choice(len(moves), p=chances / chances.sum())]
        return self.s, reward, terminated, False, {}


def rows(model):
    columns = (model.source, model.action, model.probability, model.target, model.reward, model.terminated)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def random_model(rng, *, deterministic=False):
    n, n_actions = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    ends = rng.random(n) < 0.2
    moves = []
    for s in range(n):
        for a in range(n_actions):
            fan = 1 if deterministic else int(rng.integers(1, 4))
            for p in rng.dirichlet(np.ones(fan)) * 0.9 + 0.1 / fan:
                s_next = int(rng.integers(n))
                fall = rng.random() < 0.1
                moves.append((s, a, p, s_next, FALL if fall else float(rng.integers(-1, 2)), bool(ends[s_next])))
    source, action, probability, target, reward, terminated = map(np.array, zip(*moves, strict=True))
    starts = np.eye(n)[0] if deterministic else np.where(rng.random(n) < 0.3, rng.random(n), 0) + np.eye(n)[0] * 0.1
    return FiniteModel(
        states=np.arange(n)[:, None],
        n_actions=n_actions,
        source=source,
        action=action,
        probability=probability,
        target=target,
        reward=reward,
        terminated=terminated,
        start=starts / starts.sum(),
    )


def random_intervention(rng, n, kinds=("rewind", "to start", "place"), name="random", share=0.5, n_triggers=1):
    """Several triggers overlap as chance has it; together they are as likely to fire as one."""
    zones = rng.random((n_triggers, n)) < 1 - (1 - share) ** (1 / n_triggers)
    zones[:, 0] &= rng.random() < 0.2  # students start there
    table = rng.integers(n, size=(n, n))  # where a student is put that enters a state (row) from another (column)
    kind = str(rng.choice(kinds))
    resets = {
        "rewind": Rewind(1),
        "far": Rewind(3),
        "to start": ToStart(),
        "place": Place(lambda state, history, u: np.array([table[state[0], history[-1, 0]]])),
    }
    tau, kappa = (float(rng.choice([0.0, 0.2, 0.6, 1.5])) for _ in range(2))
    trigger = {f"zone {k}": (lambda s, zone=zone: zone[s[..., 0]]) for k, zone in enumerate(zones)}
    return Intervention(name=name, trigger=trigger, reset=resets[kind], tau=tau, kappa=kappa)


def random_drive(rng, n, n_actions, name="random"):
    steered, arrived = rng.integers(n_actions, size=n), rng.random(n) < 0.6
    zone = rng.random(n) < 0.5
    zone[0] &= rng.random() < 0.2
    until = None if rng.random() < 0.5 else lambda s: arrived[s[..., 0]]
    reset = Drive(lambda s: steered[s[..., 0]], until=until, max_steps=int(rng.integers(1, 5)))
    tau, kappa = (float(rng.choice([0.0, 0.2, 0.6, 1.5])) for _ in range(2))
    return Intervention(name=name, trigger=lambda s: zone[s[..., 0]], reset=reset, tau=tau, kappa=kappa)


def random_override(rng, n, n_actions, name="random"):
    vetoed, instead = rng.random((n, n_actions)) < 0.6, rng.integers(n_actions, size=(n, n_actions))
    reset = Override(lambda s, a: instead[s[..., 0], a])
    tau, kappa = (float(rng.choice([0.0, 0.2, 0.6, 1.5])) for _ in range(2))
    return Intervention(name=name, trigger=lambda s, a: vetoed[s[..., 0], a], reset=reset, tau=tau, kappa=kappa)


def random_task(rng, *, deterministic=False, form="sum", starts_in_danger=False, own_horizons=False, **options):
    """Danger shows in the reward, or in the state, or in both."""
    model = random_model(rng, deterministic=deterministic)
    water = (rng.random(model.n_states) < 0.3) & (rng.random() < 0.7)
    if options.get("kinds") == ("drive",):
        intervention = random_drive(rng, model.n_states, model.n_actions)
    elif options.get("kinds") == ("override",):
        intervention = random_override(rng, model.n_states, model.n_actions)
    else:
        intervention = random_intervention(rng, model.n_states, **options)
    horizon = int(rng.integers(1, 7))
    if not starts_in_danger:
        water &= model.start == 0
    if own_horizons:  # M_i's is mostly not the task's, and the environment may cut both off
        intervention = replace(intervention, horizon=int(rng.integers(1, 9)))
        model = replace(model, time_limit=int(rng.integers(2, 8)) if rng.random() < 0.3 else None)
    return Task(
        name="random",
        make_env=lambda: TableEnv(model),
        model=lambda: model,
        danger=lambda move: (move.reward == FALL) | water[move.state[..., 0]],
        success=lambda move: move.terminated & (move.reward > 0),
        interventions=(intervention,),
        horizon=horizon,
        constraint_form=form,
    )


@st.composite
def finite_tasks(draw):
    """Tasks like the random ones, of which hypothesis finds the smallest that shows what it has found."""
    n, n_actions, horizon = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 5))
    states, sets = st.integers(0, n - 1), st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    ends = draw(sets)
    moves = []
    for s in range(n):
        for a in range(n_actions):
            targets = draw(st.lists(states, min_size=1, max_size=2))
            chance, reward = 1 / len(targets), draw(st.sampled_from([0.0, 1.0, FALL]))
            moves += [(s, a, chance, target, reward, bool(ends[target])) for target in targets]
    source, action, probability, target, reward, terminated = map(np.array, zip(*moves, strict=True))
    model = FiniteModel(
        states=np.arange(n)[:, None],
        n_actions=n_actions,
        source=source,
        action=action,
        probability=probability,
        target=target,
        reward=reward,
        terminated=terminated,
        start=np.eye(n)[0],
    )
    zone, water, put = draw(sets), draw(sets), draw(states)
    put_there = Place(lambda state, history, u: np.array([put]))
    reset = draw(st.sampled_from([Rewind(1), ToStart(), put_there]))
    return Task(
        name="drawn",
        make_env=lambda: TableEnv(model),
        model=lambda: model,
        danger=lambda move: (move.reward == FALL) | water[move.state[..., 0]],
        success=lambda move: move.terminated & (move.reward > 0),
        interventions=(Intervention(name="random", trigger=lambda s: zone[s[..., 0]], reset=reset, tau=0.1),),
        horizon=horizon,
        constraint_form="sum",
    )


def steps_of(task, intervention):
    """How long an episode may last."""
    own = task.horizon if intervention.horizon is None else intervention.horizon
    limit = task.model().time_limit
    return own if limit is None else min(own, limit)


def starts_in_danger(task, state):
    start = type("Move", (), {"state": task.model().states[state], "reward": 0.0, "terminated": False})
    return bool(task.failed(start))


def moves_of(task, state, action):
    """[(probability, reward, failed, terminated, next state), …] in M."""
    model = task.model()
    for s, a, p, s_next, reward, terminated in rows(model):
        if (s, a) == (state, action):
            move = type("Move", (), {"state": model.states[s_next], "reward": reward, "terminated": terminated})
            yield p, reward, bool(task.failed(move)), terminated, s_next


def whole_steps(task, intervention, state, action, left, first=False):
    """One step in M_i under a drive or an override, with `left` steps of the clock:
    [(probability, reward, failed, fired, where it leaves the student, steps of the clock), …]."""
    model, reset = task.model(), intervention.reset
    doomed = first and starts_in_danger(task, state)
    (trigger,) = intervention.triggers.values()
    vector = model.states[state]
    if isinstance(reset, Override):
        fired = bool(trigger(vector, action))
        given = int(reset.act(vector, action)) if fired else action
        for p, reward, failed, terminated, s_next in moves_of(task, state, given):
            failed |= doomed
            over = failed or terminated or (fired and reset.ends)
            yield p, reward, failed, fired, None if over else s_next, 1
        return

    def drive(p, reward, s, driven):
        for q, _, failed, terminated, s_next in moves_of(task, s, int(reset.controller(model.states[s]))):
            now = driven + 1
            there = model.states[s_next]
            safe = not trigger(there) if reset.until is None else reset.until(there)
            if failed or terminated:
                yield p * q, reward, failed, True, None, 1 + now
            elif 1 + now >= left:
                yield p * q, reward, False, True, None, 1 + now
            elif safe or now == reset.max_steps:
                yield p * q, reward, False, True, s_next, 1 + now
            else:
                yield from drive(p * q, reward, s_next, now)

    for p, reward, failed, terminated, s_next in moves_of(task, state, action):
        failed |= doomed
        fired = bool(trigger(model.states[s_next]))
        if failed or terminated or left == 1 or not fired:
            yield p, reward, failed, fired, None if failed or terminated else s_next, 1
        else:
            yield from drive(p, reward, s_next, 0)


def highest_failure_when_acting(task, intervention):
    """The highest failure probability under a drive or an override, by recursion over the clock."""

    @cache
    def worst(state, left):
        if state is None or left <= 0:
            return 0.0
        return max(
            sum(
                p * (1.0 if failed else worst(stands, left - took))
                for p, _, failed, _, stands, took in whole_steps(task, intervention, state, a, left, left == horizon)
            )
            for a in range(model.n_actions)
        )

    model, horizon = task.model(), steps_of(task, intervention)
    return sum(p * worst(s, horizon) for s, p in enumerate(model.start.tolist()) if p)


def evaluate_when_acting(task, intervention, policy):
    """A policy (T, n, actions) in M_i under a drive or an override: expected failures, rescues and return."""

    @cache
    def worth(state, left):
        if state is None or left <= 0:
            return np.zeros(3)
        total = np.zeros(3)
        for a in range(model.n_actions):
            steps = whole_steps(task, intervention, state, a, left, left == horizon)
            for p, reward, failed, fired, stands, took in steps:
                now = np.array([failed, fired, reward], float)
                total += policy[horizon - left, state, a] * p * (now + worth(stands, left - took))
        return total

    model, horizon = task.model(), steps_of(task, intervention)
    return sum(p * worth(s, horizon) for s, p in enumerate(model.start.tolist()) if p)


def outcomes(task, intervention, state, action, first=False):
    """One step in M_i, for rewinds of one: [(probability, reward, failed, fired, where it leaves the student), …].

    `fired` is one bool for each trigger. In an episode's `first` step whoever starts in danger fails.
    """
    table = []
    model = task.model()
    doomed = first and starts_in_danger(task, state)
    for s, a, p, s_next, reward, terminated in rows(model):
        if (s, a) != (state, action):
            continue
        move = type("Move", (), {"state": model.states[s_next], "reward": reward, "terminated": terminated})
        failed = bool(task.failed(move)) or doomed
        fired = tuple(bool(trigger(model.states[s_next])) for trigger in intervention.triggers.values())
        stands = s_next
        if failed or terminated or (any(fired) and isinstance(intervention.reset, ToStart)):
            stands = None
        elif any(fired) and isinstance(intervention.reset, Rewind):
            stands = s
        elif any(fired):
            stands = int(intervention.reset.fn(model.states[s_next], model.states[[s]], np.empty(0))[0])
            if starts_in_danger(task, stands):  # a rescue into danger
                failed, stands = True, None
        table.append((p, reward, failed, fired, stands))
    return table


def highest_failure(task, intervention):
    """The highest failure probability, by recursion over what is left of the horizon."""

    @cache
    def worst(state, steps):
        if state is None or steps == 0:
            return 0.0
        return max(
            sum(
                p * (1.0 if failed else worst(stands, steps - 1))
                for p, _, failed, _, stands in outcomes(task, intervention, state, a, first=steps == horizon)
            )
            for a in range(model.n_actions)
        )

    model, horizon = task.model(), steps_of(task, intervention)
    return sum(p * worst(s, horizon) for s, p in enumerate(model.start.tolist()) if p)


class Evaluated(NamedTuple):
    """A policy in M_i. Of failures and rescues by each trigger, (1 + k,): expected sums, and expected n/L."""

    sums: np.ndarray
    means: np.ndarray
    gained: float

    def keeps(self, intervention, form):
        """Are these the tolerances that students are held to?"""
        tolerance = np.array([intervention.kappa, *[intervention.tau] * (len(self.sums) - 1)])
        return bool(((self.sums if form == "sum" else self.means) <= tolerance).all())


def evaluate(task, intervention, policy):
    """A policy (T, n, actions) in M_i, by pushing its distribution over states and event counts forward."""
    model, horizon = task.model(), steps_of(task, intervention)
    nothing = (0,) * (1 + len(intervention.triggers))
    here = {(s, nothing): p for s, p in enumerate(model.start.tolist()) if p}
    sums, means, gained = np.zeros(len(nothing)), np.zeros(len(nothing)), 0.0
    for t in range(horizon):
        after = defaultdict(float)
        for (s, counts), mass in here.items():
            for a in range(model.n_actions):
                for p, reward, failed, fired, stands in outcomes(task, intervention, s, a, first=t == 0):
                    share = mass * policy[t, s, a] * p
                    now = tuple(n + event for n, event in zip(counts, (failed, *fired), strict=True))
                    gained += share * reward
                    if stands is None or t == horizon - 1:
                        sums += share * np.array(now)
                        means += share * np.array(now) / (t + 1)
                    else:
                        after[stands, now] += share
        here = after
    return Evaluated(sums, means, gained)


def random_policy(rng, model, horizon):
    """Often deterministic, so that corners are visited; (T, n, actions)."""
    shape = (horizon, model.n_states, model.n_actions)
    return rng.dirichlet(np.full(model.n_actions, rng.choice([0.05, 1.0])), size=shape[:2])
