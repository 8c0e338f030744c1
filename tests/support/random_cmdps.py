"""Small random finite CMDPs with random interventions, and what is true of them worked out the slow, plain way.

Nothing here uses `cisr.auditing`: the rules of `cisr.cmdp` are written down a second time, one move after the other.
"""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import gymnasium
import numpy as np

from cisr import Intervention, Place, Rewind, Task, ToStart
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


def random_task(rng, *, deterministic=False, form="sum", starts_in_danger=False, own_horizons=False, **options):
    """Danger shows in the reward, or in the state, or in both."""
    model = random_model(rng, deterministic=deterministic)
    water = (rng.random(model.n_states) < 0.3) & (rng.random() < 0.7)
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


def steps_of(task, intervention):
    """How long an episode may last."""
    own = task.horizon if intervention.horizon is None else intervention.horizon
    limit = task.model().time_limit
    return own if limit is None else min(own, limit)


def starts_in_danger(task, state):
    start = type("Move", (), {"state": task.model().states[state], "reward": 0.0, "terminated": False})
    return bool(task.failed(start))


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
