"""What environments answer is checked before anything is learned from it, and so are a task's own functions."""

import dataclasses
import sys

import gymnasium
import numpy as np
import pytest
import tiny

from cisr import (
    MLP,
    ConfigError,
    Fixed,
    Intervention,
    NobodyFinished,
    Place,
    Rewind,
    StudentConfig,
    Task,
    ToStart,
    Training,
)
from cisr import compare as compare_curricula
from cisr.cmdp.preflight import check_state_functions
from cisr.cmdp.wrapper import InducedCMDP
from cisr.core.errors import AnswerError, TaskError

STUDENT = StudentConfig(
    network=MLP(hidden=(4,)), n_envs=2, n_steps=8, n_minibatches=2, n_epochs=1, rounds_per_unit=1,
    updates_per_round=1,
)  # fmt: skip
GOOD = (np.zeros(2, np.float32), 0.0, False, False, {})


class Corridor(gymnasium.Env):
    """Counts steps; from the fifth on its answers are replaced by what the test wants."""

    observation_space = gymnasium.spaces.Box(-99.0, 99.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    answer: tuple = GOOD

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.x += 1
        return self.answer if self.x >= 5 else GOOD


def place(env, state):
    env.unwrapped.x = int(state[0])
    return np.zeros(2, np.float32)


def corridor(env=Corridor, **changes):
    fields = {
        "name": "corridor",
        "make_env": lambda **options: env(),
        "danger": lambda move: move.state[..., 0] > 99,
        "success": lambda move: move.terminated,
        "interventions": (Intervention(name="back", trigger=lambda s: s[..., 0] > 7, reset=Rewind(), tau=0.1),),
        "horizon": 20,
        "read_state": lambda env: np.array([env.unwrapped.x]),
        "place": place,
        "training": Training(n_units=1, deployment_steps=20, student=STUDENT),
    }
    return Task(**(fields | changes))


def answering(**changes):
    """An environment whose answers are those of a good one but for one part."""
    names = ("observation", "reward", "terminated", "truncated", "info")
    answer = tuple(changes.get(name, good) for name, good in zip(names, GOOD, strict=True))
    return type("Answering", (Corridor,), {"answer": answer})


WRONG = {
    "another shape": ({"observation": np.zeros(3, np.float32)}, r"observation float32 of shape \(3,\).*Box"),
    "no observation": ({"observation": None}, r"observation object of shape \(\)"),
    "words": ({"observation": np.array(["a", "b"])}, "observation <U1"),
    "complex numbers": ({"observation": np.zeros(2, complex)}, "observation complex128"),
    "nan": ({"observation": np.array([0.0, np.nan], np.float32)}, "observation that is not finite"),
    "infinity": ({"observation": np.array([np.inf, 0.0], np.float32)}, "observation that is not finite"),
    "no reward": ({"reward": None}, "paid the reward None"),
    "rewards": ({"reward": np.zeros(1)}, r"paid the reward array\(\[0.\]\)"),
    "a reward of nan": ({"reward": float("nan")}, "a reward of nan"),
    "a reward that no other can be added to": ({"reward": 1e308}, r"a reward of 1e\+308: give finite numbers from -1e"),
    "terminated is a number": ({"terminated": 1}, "terminated = 1: it must be True or False"),
    "truncated is nothing": ({"truncated": None}, "truncated = None"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_ends_its_student_and_names_the_step_of_the_environment(wrong):
    changes, says = WRONG[wrong]
    with pytest.raises(NobodyFinished, match=f"at a step: The environment's step .*{says}"):
        compare_curricula(corridor(answering(**changes)), {"back": Fixed("back")}, n_students=1, execution=tiny.HERE)


@pytest.mark.parametrize(
    "fine",
    [
        {"observation": np.zeros(2)},  # double precision
        {"observation": [0.0, 0.0]},
        {"reward": np.float32(1)},
        {"reward": 1},
        {"reward": np.array(1.0)},
        {"terminated": np.True_},
    ],
)
def test_answers_that_mean_the_same_are_taken(fine):
    (row,) = compare_curricula(
        corridor(answering(**fine)), {"back": Fixed("back")}, n_students=1, execution=tiny.HERE
    ).rows
    assert row.finished == 1


@pytest.mark.parametrize("number", [-1, 5, 1.5, None, np.zeros(1, int)])
def test_numbers_outside_of_a_discrete_space_are_no_observations(number):
    class Numbers(Corridor):
        observation_space = gymnasium.spaces.Discrete(5)
        answer = (number, 0.0, False, False, {})

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return self.answer

    env = InducedCMDP(corridor(Numbers, place=lambda env, state: 0), "back")
    env.reset(seed=0)
    with pytest.raises(AnswerError, match=r"observation space is Discrete\(5\)"):
        env.step(0)


def test_a_step_of_four_answers_is_told_what_five_are_wanted():
    class Old(Corridor):
        def step(self, action):
            return np.zeros(2, np.float32), 0.0, False, {}

    with pytest.raises(NobodyFinished, match="step answered 4 values: it must answer observation, reward, terminated"):
        compare_curricula(corridor(Old), {"back": Fixed("back")}, n_students=1, execution=tiny.HERE)


def test_failures_of_a_students_other_environments_count_in_the_step_in_which_one_breaks():
    """Two environments for each student: the first fails at its sixth step, in which the second one breaks."""

    class Twins(Corridor):
        def reset(self, *, seed=None, options=None):
            self.first = seed is None or seed % 2 == 0
            return super().reset(seed=seed)

        def step(self, action):
            self.x += 1
            if self.x == 6 and not self.first:
                raise RuntimeError("broke")
            return GOOD

    task = corridor(Twins, danger=lambda move: move.state[..., 0] >= 6, interventions=corridor().interventions)
    from cisr.cmdp.gymnasium import InducedCMDPs

    broken = []
    row = InducedCMDPs(
        task, task.intervention("none"), [Twins(), Twins()], lambda k, *_: (broken.append(k), row.leave_out(0))
    )
    row.seed([0, 1])
    failed = [row.step(np.array([0, 0])).failed.tolist() for _ in range(6)]
    assert broken == [1]
    assert failed == [[False, False]] * 5 + [[True, True]]  # the one that broke stood in danger too


@pytest.mark.parametrize(
    ("reward", "says"),
    [
        (lambda t: t.move.state, r"The reward of task 'corridor' answered int64 of shape \(2, 1\)"),
        (lambda t: np.float64(0), r"answered float64 of shape \(\)"),
        (lambda t: t.move.nothing, "The reward of task 'corridor' raised AttributeError"),
    ],
)
def test_a_reward_of_the_wrong_shape_is_the_tasks_fault(reward, says):
    with pytest.raises(TaskError, match=says):
        compare_curricula(corridor(reward=reward), {"back": Fixed("back")}, n_students=1, execution=tiny.HERE)


@pytest.mark.parametrize(("paid", "said"), [(np.nan, "nan"), (-1e308, r"-1e\+308")])
def test_a_reward_that_is_not_finite_or_too_large_to_add_up_ends_its_student(paid, said):
    task = corridor(reward=lambda t: np.where(t.move.state[..., 0] > 3, paid, 0.0))
    with pytest.raises(NobodyFinished, match=f"The reward of task 'corridor' paid {said}"):
        compare_curricula(task, {"back": Fixed("back")}, n_students=1, execution=tiny.HERE)


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_too_little_memory_in_an_environment_stops_the_run_and_nobody_has_failed(tmp_path, error):
    class Hungry(Corridor):
        def step(self, action):
            if self.x > 9:
                raise error
            return super().step(action)

    from cisr import CisrError, Store

    task = corridor(Hungry)
    with pytest.raises(CisrError, match=r"^Out of memory with 1 student"):
        compare_curricula(task, {"none": Fixed("none")}, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    with Store(tmp_path / "s") as store:
        assert [t.error for t in store.transcripts()] == [None]


@pytest.mark.parametrize("where", ["step", "reset", "make_env"])
def test_an_environment_that_leaves_the_program_has_an_error_like_any_other(where):
    class Leaving(Corridor):
        def step(self, action):
            return sys.exit(0) if where == "step" else super().step(action)

        def reset(self, **options):
            return sys.exit(0) if where == "reset" else super().reset(**options)

    task = corridor(Leaving, **({"make_env": lambda **_: sys.exit(0)} if where == "make_env" else {}))
    with pytest.raises(NobodyFinished, match="SystemExit: 0"):
        compare_curricula(task, {"back": Fixed("back")}, n_students=1, execution=tiny.HERE)


# Before training


def test_tabular_defaults_are_refused_where_the_environment_keeps_no_state_there():
    class Stateless(Corridor):
        pass

    fields = {field.name: getattr(corridor(Stateless), field.name) for field in dataclasses.fields(Task)}
    bare = Task(**{k: v for k, v in fields.items() if k not in ("read_state", "place")})
    with pytest.raises(TaskError, match=r"its read_state raised AttributeError.*Give a function of the environment"):
        compare_curricula(bare, {"back": Fixed("back")}, n_students=1, execution=tiny.HERE)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"read_state": lambda env: None}, "read_state answered None"),
        ({"read_state": lambda env: env.unwrapped.x}, r"read_state answered int64 of shape \(\)"),
        ({"read_state": lambda env: ["far"]}, "read_state answered <U3"),
        ({"place": lambda env, state: None}, "its place, .* answered None"),
        ({"place": lambda env, state: np.zeros(2, np.float32)}, "its place, .* left it where it was"),
        ({"place": lambda env, state: np.zeros(5, np.float32)}, r"place answered the observation float64|float32"),
        ({"place": lambda env: None}, "its place, .* raised TypeError"),
    ],
)
def test_functions_that_answer_nothing_or_do_nothing_are_refused_before_training(changes, says):
    with pytest.raises(TaskError, match=says):
        compare_curricula(corridor(**changes), {"back": Fixed("back")}, n_students=1, execution=tiny.HERE)


def test_nobody_asks_for_a_place_where_nobody_is_placed():
    start = Intervention(name="start", trigger=lambda s: s[..., 0] > 7, reset=ToStart(), tau=0.1)
    check_state_functions(corridor(interventions=(start,), place=lambda env, state: None))


def test_built_in_tasks_pass(request):
    import tiny

    check_state_functions(tiny.task)
    pytest.importorskip("Box2D")
    check_state_functions(tiny.lander)


@pytest.mark.parametrize("reset", ["Rewind", Rewind, None, lambda state, history, u: state])
def test_a_reset_that_is_none_of_ours_is_refused_when_the_intervention_is_made(reset):
    with pytest.raises(ConfigError, match=r"give Rewind\(steps\), ToStart\(\), Place\(function\), Drive\(contr"):
        Intervention(name="x", trigger=lambda s: s[..., 0] > 0, reset=reset, tau=0.0)


def test_a_place_answers_a_state_of_the_same_shape():
    wrong = Intervention(name="back", trigger=lambda s: s[..., 0] > 2, reset=Place(lambda s, h, u: s[:0]), tau=0.1)
    with pytest.raises(TaskError, match=r"reset of 'back' answered shape \(0,\)"):
        compare_curricula(corridor(interventions=(wrong,)), {"back": Fixed("back")}, n_students=1, execution=tiny.HERE)
