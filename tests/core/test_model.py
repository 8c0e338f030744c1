"""Where finite transition models come from, and what is refused."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from cisr import ConfigError, Task, get_task
from cisr.cmdp.finite import model_of
from cisr.core.model import FiniteModel

LAKE = get_task("frozen-lake")


def never(move):
    return np.zeros(np.shape(move.reward), bool)


def plain(make_env, **changes):
    fields = {"name": "plain", "danger": never, "success": never, "interventions": (), "horizon": 10}
    return Task(make_env=make_env, **(fields | changes))


def chain(**changes):
    """Two states; the only action moves on, and stays in the second."""
    fields = {
        "states": np.arange(2)[:, None],
        "n_actions": 1,
        "source": np.array([0, 1]),
        "action": np.array([0, 0]),
        "probability": np.array([1.0, 1.0]),
        "target": np.array([1, 1]),
        "reward": np.zeros(2),
        "terminated": np.array([False, True]),
        "start": np.array([1.0, 0.0]),
    }
    return FiniteModel(**(fields | changes))


def test_the_lakes_own_model_is_gymnasiums_table_exactly():
    own, table = model_of(LAKE), model_of(replace(LAKE, model=None))
    for name in ("states", "source", "action", "probability", "target", "reward", "terminated", "start"):
        mine, theirs = getattr(own, name), getattr(table, name)
        assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs), name
    assert own.n_actions == table.n_actions == 4
    assert table.time_limit == LAKE.horizon


def test_a_toy_text_environment_shows_its_model():
    model = model_of(plain(lambda: gymnasium.make("CliffWalking-v1")))
    assert (model.n_states, model.n_actions, model.time_limit) == (48, 4, None)
    assert model.reward.min() == -100
    assert np.flatnonzero(model.start).tolist() == [36]


def test_an_environment_without_a_table_has_no_model():
    assert model_of(plain(lambda: gymnasium.make("CartPole-v1"))) is None


def test_a_wrapper_that_may_change_moves_or_rewards_hides_the_table():
    def doubled():
        return gymnasium.wrappers.TransformReward(gymnasium.make("CliffWalking-v1"), lambda reward: 2 * reward)

    assert model_of(plain(doubled)) is None


def test_a_state_vector_of_the_users_own_needs_a_model_of_its_own():
    assert model_of(plain(lambda: gymnasium.make("CliffWalking-v1"), read_state=lambda env: np.zeros(2))) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probability": np.array([0.5, 1.0])}, r"In state \[0\] the probabilities of action 0 add up to 0.5"),
        ({"probability": np.array([1.0, 0.0])}, "probability 0 or less: leave them out"),
        ({"target": np.array([1, 2])}, "whole numbers from 0 to 1"),
        ({"source": np.array([0.0, 1.0])}, "whole numbers from 0 to 1"),
        ({"start": np.array([0.5, 0.0])}, "add up to 0.5"),
        ({"states": np.zeros((2, 1))}, "of which 1 differ"),
        ({"reward": np.array([0.0, np.nan])}, "not finite"),
        ({"reward": np.zeros(3)}, "flat arrays of one length"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        chain(**changes)


def test_an_action_that_a_state_lacks_is_named():
    with pytest.raises(ConfigError, match=r"In state \[1\] the probabilities of action 0 add up to 0"):
        chain(
            **{
                name: getattr(chain(), name)[:1]
                for name in ("source", "action", "probability", "target", "reward", "terminated")
            }
        )
