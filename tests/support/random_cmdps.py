"""Small random finite CMDPs with random interventions, and what is true of them worked out the slow, plain way.

Nothing here uses `cisr.audit`: the rules of `cisr.cmdp` are written down a second time, one move after the other.
"""

from functools import cache

import gymnasium
import numpy as np

from cisr import Intervention, Place, Rewind, Task, ToStart
from cisr.model import FiniteModel

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


def random_intervention(rng, n, kinds=("rewind", "to start", "place"), name="random", share=0.5):
    zone = rng.random(n) < share
    zone[0] &= rng.random() < 0.2  # students start there
    table = rng.integers(n, size=(n, n))  # where a student is put that enters a state (row) from another (column)
    kind = str(rng.choice(kinds))
    resets = {
        "rewind": Rewind(1),
        "far": Rewind(3),
        "to start": ToStart(),
        "place": Place(lambda state, history, u: np.array([table[state[0], history[-1, 0]]])),
    }
    tau, kappa = (float(rng.choice([0.0, 0.2, 0.6, 1.5])) for _ in range(2))
    return Intervention(name=name, trigger=lambda s: zone[s[..., 0]], reset=resets[kind], tau=tau, kappa=kappa)


def random_task(rng, *, deterministic=False, form="sum", **options):
    """Danger shows in the reward, or in the state, or in both."""
    model = random_model(rng, deterministic=deterministic)
    water = (rng.random(model.n_states) < 0.3) & (rng.random() < 0.7)
    return Task(
        name="random",
        make_env=lambda: TableEnv(model),
        model=lambda: model,
        danger=lambda move: (move.reward == FALL) | water[move.state[..., 0]],
        success=lambda move: move.terminated & (move.reward > 0),
        interventions=(random_intervention(rng, model.n_states, **options),),
        horizon=int(rng.integers(1, 7)),
        constraint_form=form,
    )


def outcomes(task, intervention, state, action):
    """One step in M_i, for rewinds of one: [(probability, reward, failed, rescued, where it leaves the student), …]."""
    table = []
    model = task.model()
    for s, a, p, s_next, reward, terminated in rows(model):
        if (s, a) != (state, action):
            continue
        move = type("Move", (), {"state": model.states[s_next], "reward": reward, "terminated": terminated})
        failed, rescued = bool(task.failed(move)), bool(intervention.triggered(model.states[s_next]))
        stands = s_next
        if failed or terminated or (rescued and isinstance(intervention.reset, ToStart)):
            stands = None
        elif rescued and isinstance(intervention.reset, Rewind):
            stands = s
        elif rescued:
            stands = int(intervention.reset.fn(model.states[s_next], model.states[[s]], np.empty(0))[0])
        table.append((p, reward, failed, rescued, stands))
    return table


def highest_failure(task, intervention):
    """The highest failure probability, by recursion over what is left of the horizon."""

    @cache
    def worst(state, steps):
        if state is None or steps == 0:
            return 0.0
        return max(
            sum(p * (1.0 if failed else worst(stands, steps - 1)) for p, _, failed, _, stands in steps_from[state, a])
            for a in range(model.n_actions)
        )

    model = task.model()
    steps_from = {
        (s, a): outcomes(task, intervention, s, a) for s in range(model.n_states) for a in range(model.n_actions)
    }
    return sum(p * worst(s, task.horizon) for s, p in enumerate(model.start.tolist()))


def evaluate(task, intervention, policy):
    """E[failures, rescues, steps, return] of a policy (T, n, actions) in M_i, by pushing its distribution forward."""
    model = task.model()
    here, total = model.start.copy(), np.zeros(4)
    for t in range(task.horizon):
        after = np.zeros_like(here)
        for s in np.flatnonzero(here):
            for a in range(model.n_actions):
                for p, reward, failed, rescued, stands in outcomes(task, intervention, s, a):
                    mass = here[s] * policy[t, s, a] * p
                    total += mass * np.array([failed, rescued, 1, reward])
                    if stands is not None:
                        after[stands] += mass
        here = after
    return total


def random_policy(rng, model, horizon):
    """Often deterministic, so that corners are visited; (T, n, actions)."""
    shape = (horizon, model.n_states, model.n_actions)
    return rng.dirichlet(np.full(model.n_actions, rng.choice([0.05, 1.0])), size=shape[:2])
