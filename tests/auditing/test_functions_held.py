"""Functions that a verdict rests on give equal answers about equal states, in any batch, at any time, of any type."""

import functools
import itertools
import time
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from fragile import HONEST, WAYS, fragile_task, judged

from cisr import Drive, InducedCMDP, Intervention, Override, Place, Rewind, Task, get_task
from cisr.auditing import quick_audit
from cisr.core.errors import TaskError
from cisr.core.model import FiniteModel
from cisr.testing import check_task

EDGE = 5
ENDS = {"horizon": 20, "success": lambda move: move.terminated}


class Ledge(gymnasium.Env):
    """A ledge 0 … 5 with steps left (0) and right (1); 5 is over the edge. States are (x, 5), as small grids are."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(EDGE + 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 1
        return self.x, {}

    def step(self, action):
        self.x = int(np.clip(self.x + 2 * int(action) - 1, 0, EDGE))
        return self.x, 0.0, False, False, {}


def model():
    source, action = (pairs.ravel() for pairs in np.indices((EDGE + 1, 2)))
    return FiniteModel(
        states=np.column_stack([np.arange(EDGE + 1), np.full(EDGE + 1, EDGE)]),
        n_actions=2,
        source=source,
        action=action,
        probability=np.ones(len(source)),
        target=np.clip(source + 2 * action - 1, 0, EDGE),
        reward=np.zeros(len(source)),
        terminated=np.zeros(len(source), bool),
        start=np.eye(EDGE + 1)[1],
    )


def put(env, state):
    env.unwrapped.x = int(state[0])
    return env.unwrapped.x


def ledge(trigger, reset, dtype=np.int64, **changes):
    fields = {
        "name": "ledge",
        "make_env": lambda **_: Ledge(),
        "danger": lambda move: move.state[..., 0] == EDGE,
        "interventions": (Intervention(name="I", trigger=trigger, reset=reset, tau=0.0),),
        "model": model,
        "read_state": lambda env: np.array([env.unwrapped.x, EDGE], dtype),
        "place": put,
    }
    return Task(**(ENDS | fields | changes))


def near(s):
    return s[..., 0] == EDGE - 1


def toward(s, a):
    return near(s) & (a == 1)


def back(s):
    return (s[..., 0] == 0).astype(int)


def stay(s, a):
    return back(s)


def far(s):
    return s[..., 0] < EDGE - 1


def inside(s, history, u):
    return np.array([1, EDGE])


def told(task, what):
    """What a quick audit says of one function; nothing is certified then."""
    report = quick_audit(task)
    assert report["I"].status != "certified" and not report["I"].eventual.given
    (promise,) = [promise for promise in report.broken if promise.what == what]
    assert promise.state is not None
    return promise.message


VETO, GUIDE = "trigger 'rescues' of 'I'", "controller of 'I'"


@pytest.mark.parametrize(
    ("dtype", "how"),
    [
        (np.uint8, (near, Drive(back, far))),
        (np.int32, (near, Rewind(1))),
        (np.float32, (near, Place(inside))),
        (np.float64, (toward, Override(stay))),
    ],
)
def test_honest_functions_are_certified_with_states_of_any_type(dtype, how):
    assert quick_audit(ledge(*how, dtype=dtype))["I"].status == "certified"


def wraps(s):
    return abs(s[..., 0] - s[..., 1]) <= 1


@pytest.mark.filterwarnings("ignore:overflow")  # of single numbers; arrays wrap around in silence
@pytest.mark.parametrize(
    ("how", "what"),
    [
        ((lambda s, a: wraps(s) & (a == 1), Override(stay)), VETO),
        ((wraps, Rewind(1)), VETO),
        ((near, Drive(lambda s: np.where(wraps(s), 0, 1), far)), GUIDE),
        ((near, Drive(back, until=lambda s: ~wraps(s) | (s[..., 0] == 0))), "until of 'I'"),
        ((toward, Override(lambda s, a: np.where(wraps(s), 0, 1))), "act of 'I'"),
        ((near, Place(lambda s, history, u: np.array([(s[0] - 5) % 6 % 4, s[1]]))), "reset of 'I'"),
    ],
)
def test_a_function_that_wraps_around_in_small_numbers_is_named(how, what):
    task = ledge(*how, dtype=np.uint8)
    assert "uint8" in told(task, what)
    assert not check_task(ledge(*how))


def test_the_veto_that_wraps_around_does_fail_in_play():
    env = InducedCMDP(ledge(lambda s, a: wraps(s) & (a == 1), Override(stay), dtype=np.uint8), "I")
    env.reset(seed=0)
    assert sum(env.step(1)[-1]["cost"] for _ in range(4)) == 1


def test_wrapping_around_in_states_that_random_play_does_not_meet_is_found_too():
    n = 250

    def long():
        source, action = (pairs.ravel() for pairs in np.indices((n, 2)))
        target = np.clip(source + 2 * action - 1, 0, n - 1)
        return replace(
            model(),
            states=np.column_stack([np.arange(n), np.full(n, n - 1)]),
            source=source,
            action=action,
            probability=np.ones(2 * n),
            target=target,
            reward=np.zeros(2 * n),
            terminated=np.zeros(2 * n, bool),
            start=np.eye(n)[1],
        )

    class Long(Ledge):
        observation_space = gymnasium.spaces.Discrete(n)

        def step(self, action):
            self.x = int(np.clip(self.x + 2 * int(action) - 1, 0, n - 1))
            return self.x, 0.0, False, False, {}

    task = ledge(
        lambda s, a: (abs(s[..., 0] - s[..., 1]) <= 1) & (a == 1),
        Override(stay),
        make_env=lambda **_: Long(),
        model=long,
        danger=lambda move: move.state[..., 0] == n - 1,
        read_state=lambda env: np.array([env.unwrapped.x, n - 1], np.uint8),
        horizon=n,
    )
    assert "uint8" in told(task, VETO)


def counted(fn, after):
    """Answers otherwise after so many calls."""
    calls = itertools.count()
    return lambda *about: fn(*about) ^ (next(calls) >= after)


def counted_out_of_sight(fn, after):
    calls = (n for n in itertools.count())
    return lambda *about: fn(*about) ^ (next(calls) >= after)


def cached(fn):
    """Remembers its first answer for every size of batch."""
    kept = {}
    return lambda *about: kept.setdefault(len(np.atleast_2d(about[0])), fn(*about))


def noisy(fn, share=0.02):
    rng = np.random.default_rng(0)
    return lambda *about: fn(*about) ^ (rng.random() < share)


def by_the_clock(fn):
    return lambda *about: fn(*about) ^ (time.perf_counter_ns() // 1000 % 2 == 0)


def later_by_the_clock(fn):
    made = time.time()
    return lambda *about: fn(*about) ^ (time.time() > made + 3600)


def by_neighbours(fn):
    return lambda *about: fn(*about) ^ (len(np.atleast_2d(about[0])) > 1 and bool((about[0][..., 0] == 1).all()))


SPOILED = {
    "counter": lambda fn: counted(fn, 300),
    "late counter": lambda fn: counted(fn, 10_000),
    "late counter out of sight": lambda fn: counted_out_of_sight(fn, 10_000),
    "cache": cached,
    "generator": noisy,
    "rare noise": lambda fn: noisy(fn, 0.001),
    "clock": by_the_clock,
    "later": later_by_the_clock,
    "neighbours": by_neighbours,
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda spoil: (spoil(toward), Override(stay)), VETO),
        (lambda spoil: (toward, Override(spoil(stay))), "act of 'I'"),
        (lambda spoil: (near, Drive(spoil(back), far)), GUIDE),
        (lambda spoil: (near, Drive(back, spoil(far))), "until of 'I'"),
        (lambda spoil: (spoil(near), Rewind(1)), VETO),
    ],
    ids=["trigger of an override", "act", "controller", "until", "trigger"],
)
def test_a_function_that_keeps_state_is_named(make, what, spoil):
    assert "the answer must follow from the state alone" in told(ledge(*make(spoil)), what)


@pytest.mark.parametrize("keep", [dict, functools.lru_cache, list])
def test_an_honest_memory_is_not_accused(keep):
    """What is kept from call to call changes nothing: a table made when first asked for, a cache, a log."""
    kept = keep() if keep is not functools.lru_cache else None

    @functools.lru_cache
    def looked_up(x):
        return x == EDGE - 1

    def trigger(s):
        if keep is list:
            kept.append(s.shape)
            return near(s)
        if keep is dict:
            return kept.setdefault("table", np.arange(EDGE + 1) == EDGE - 1)[s[..., 0].astype(int)]
        return np.reshape([looked_up(int(x)) for x in s[..., 0].ravel()], s.shape[:-1]).astype(bool)

    assert quick_audit(ledge(trigger, Rewind(1)))["I"].status == "certified"


class Watched(Ledge):
    """Tells a list how it moves."""

    def __init__(self, moves):
        self.moves = moves

    def step(self, action):
        self.moves.append(1)
        return super().step(action)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda odd: (lambda s: near(s) & (not odd()), Rewind(1)), "the triggers answer [False] in play"),
        (lambda odd: (lambda s, a: toward(s, a) & (not odd()), Override(stay)), "action 1 becomes 1 in play"),
        (lambda odd: (toward, Override(lambda s, a: np.where(odd(), a, back(s)))), "action 1 becomes 1 in play"),
        (lambda odd: (near, Drive(lambda s: np.where(odd(), 1, back(s)), far)), "the controller does 1 in play"),
        (lambda odd: (near, Drive(back, lambda s: s[..., 0] < 4 - odd())), "the drive goes on in play"),
        (lambda odd: (near, Place(lambda s, h, u: np.array([1 + odd(), EDGE]))), "the student is left in [2, 5]"),
    ],
)
def test_what_is_different_in_play_alone_is_found_there(make, message):
    """It changes with every step of any environment, and never between two questions."""
    moves = []

    def odd():
        return bool(len(moves) % 7 == 6)

    task = ledge(*make(odd), make_env=lambda **_: Watched(moves))
    found = [promise for promise in check_task(task) if promise.what == "intervention 'I'"]
    assert found and message in found[0].message and found[0].state is not None


def test_a_place_that_misses_by_less_than_simulators_round_is_found_where_states_are_whole_numbers():
    """One beside the state 5,000 is within a thousandth of it."""
    near_by, offset = model(), 5_000

    def beside(env, state):
        env.unwrapped.x = int(state[0]) - offset + 1
        return env.unwrapped.x

    task = ledge(
        lambda s: s[..., 0] == offset + EDGE - 1,
        Place(lambda s, history, u: np.array([offset + 1, EDGE])),
        model=lambda: replace(near_by, states=near_by.states + np.array([offset, 0])),
        read_state=lambda env: np.array([env.unwrapped.x + offset, EDGE]),
        danger=lambda move: move.state[..., 0] == offset + EDGE,
        place=beside,
    )
    assert quick_audit(task)["I"].status != "certified"


def test_an_answer_that_is_rounded_otherwise_on_jax_is_found():
    lake = get_task("frozen-lake", "quick")
    sr1 = lake.intervention("SR1")
    rounds = replace(sr1, trigger=lambda s: sr1.trigger(s) | (s[..., 0] * 0.1 > 0.3))  # of 3: in double precision alone
    found = check_task(replace(lake, interventions=(rounds, *lake.interventions[1:])))
    assert [str(promise) for promise in found] == [
        "the JAX environment: trigger 'rescues' of 'SR1' answers False in it, and True on the host, in state [3.]"
    ]


def test_a_place_between_whole_numbers_is_refused():
    task = ledge(near, Place(lambda s, history, u: s * 0.4))
    env = InducedCMDP(task, "I")
    env.reset(seed=0)
    env.step(1)
    env.step(1)
    with pytest.raises(TaskError, match=r"answered \[1.6, 2.0\] where states are int64: answer a state of that type"):
        env.step(1)


@pytest.mark.parametrize("reset", [Rewind(1), Drive(back, far)])
def test_a_function_that_changes_what_it_is_shown_is_named_and_changes_no_model(reset):
    def changing(s):
        answer = near(s)
        s[..., 0] = 0
        return answer

    assert told(ledge(changing, reset), VETO) == "changed what it was shown"


def test_a_state_that_read_state_cannot_tell_is_the_models_fault():
    """256 is 0 in small numbers, and nobody comes that far in three steps of play."""
    task = ledge(
        lambda s: s[..., 0] == 252 + EDGE - 1,
        Rewind(1),
        model=lambda: replace(model(), states=model().states + np.array([252, 0])),
        read_state=lambda env: np.array([env.unwrapped.x + 252, EDGE]).astype(np.uint8),
        danger=lambda move: move.state[..., 0] == 252 + EDGE,
        place=lambda env, state: put(env, state - np.uint8(252)),
        horizon=2,
    )
    assert "cannot hold" in told(task, "the model")


@pytest.mark.filterwarnings("ignore:overflow")
def test_certificates_hold_in_play_and_honest_ones_are_given():
    """A small part of `benchmarks/certificates.py`."""
    for number, way in enumerate([*WAYS, *[HONEST] * 3]):
        seen = judged(fragile_task(np.random.default_rng([2, number]), way), number, n_steps=1_000)
        assert not seen.contradicted and not seen.accused, (number, seen)


class Watch:
    def __init__(self):
        self.clock = time.time

    def late(self, s):
        return near(s) & (self.clock() < BEGUN + 1_000)


def late_by_default(s, clock=time.time):
    return near(s) & (clock() < BEGUN + 1_000)


BEGUN = time.time()
HOUR = time.localtime().tm_hour


@pytest.mark.parametrize(
    "trigger",
    [
        Watch().late,
        late_by_default,
        lambda s: near(s) & (time.clock_gettime(time.CLOCK_REALTIME) < BEGUN + 1_000),
        lambda s: near(s) & (time.strftime("%H") != f"{(HOUR + 5) % 24:02}"),
    ],
    ids=["kept by an object", "by default", "clock_gettime", "an hour of the day"],
)
def test_clocks_are_found_however_they_are_read(trigger):
    assert "later and True in one batch" in told(ledge(trigger, Rewind(1)), VETO)


def test_where_a_place_leads_is_asked_exactly_beside_a_large_number():
    far_up, calls = replace(model(), states=np.column_stack([np.arange(EDGE + 1.0), np.full(EDGE + 1, 5e4)])), [0]

    def sometimes(state, history, u):
        calls[0] += 1
        return np.array([1.0 if calls[0] % 500 else 2.0, 5e4])

    task = ledge(near, Place(sometimes), model=lambda: far_up, read_state=lambda env: np.array([env.unwrapped.x, 5e4]))
    assert "the answer must follow from the state alone" in told(task, "reset of 'I'")


def test_rewards_of_a_model_are_numbers_as_play_has_them():
    assert replace(model(), reward=np.zeros(2 * (EDGE + 1), np.uint8)).reward.dtype == float


def test_functions_are_asked_about_actions_as_models_number_them():
    class Bytes(Ledge):
        action_space = gymnasium.spaces.Discrete(2, dtype=np.uint8)

    task = ledge(lambda s, a: near(s) & (a - 1 == 0), Override(lambda s, a: 0 * a), make_env=lambda **_: Bytes())
    never_left = replace(task.interventions[0], trigger=lambda s, a: a - 1 < 0, reset=Override(lambda s, a: 0 * a + 1))
    assert quick_audit(task)["I"].status == "certified"
    env = InducedCMDP(replace(task, interventions=(never_left,)), "I")
    env.reset()
    assert env.step(0)[-1]["intervention"] == "I"


def test_a_function_may_answer_with_a_buffer_of_its_own():
    kept = np.zeros(100_000, bool)

    def buffered(s):
        answer = kept[: s[..., 0].size].reshape(s[..., 0].shape)
        np.equal(s[..., 0], EDGE - 1, out=answer)
        return answer

    assert quick_audit(ledge(buffered, Rewind(1)))["I"].status == "certified"


def test_environments_that_share_something_are_found():
    class Crumbling(Ledge):
        """A place that any environment of the process has left upwards gives way to the next one that comes."""

        trodden = set()  # noqa: RUF012 (the mistake)

        def reset(self, **how):
            self.trodden.clear()
            return super().reset(**how)

        def step(self, action):
            before = self.x
            answer = super().step(action)
            if any(x == self.x and who != id(self) for x, who in self.trodden):
                self.x = EDGE
            self.trodden.add((before, id(self)))
            return (self.x, *answer[1:])

    assert quick_audit(ledge(near, Rewind(1), make_env=lambda **_: Crumbling()))["I"].status != "certified"
