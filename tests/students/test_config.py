"""Student settings: what may be given, which of them a program is compiled for, and populations."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.students import CNN, MLP, Population, StudentConfig, explorer
from cisr.students.config import Hyperparameters

COUNTS = ["n_envs", "n_steps", "n_minibatches", "n_epochs", "rounds_per_unit", "updates_per_round", "n_candidates"]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("number", [0, -1, 2.5])
def test_counts_are_at_least_one(name, number):
    with pytest.raises(ConfigError, match=f"student's {name} is {number}"):
        StudentConfig(**{name: number})


@pytest.mark.parametrize("name", Hyperparameters._fields)
@pytest.mark.parametrize("number", [-0.1, float("nan"), float("inf")])
def test_hyperparameters_are_finite_and_not_negative(name, number):
    with pytest.raises(ConfigError, match=f"student's {name} is {number}"):
        StudentConfig(**{name: number})


def test_a_rollout_must_split_into_minibatches():
    with pytest.raises(ConfigError, match="2 environments × 5 steps do not split into 4 minibatches"):
        StudentConfig(n_envs=2, n_steps=5, n_minibatches=4)


@pytest.mark.parametrize("hidden", [(), (0,), (4, -1)])
@pytest.mark.parametrize("network", [MLP, CNN])
def test_layers_have_at_least_one_unit(network, hidden):
    with pytest.raises(ConfigError, match="Hidden layers are"):
        network(hidden=hidden)


def test_filters_kernels_and_activations_are_checked():
    with pytest.raises(ConfigError, match="Filters are"):
        CNN(filters=())
    with pytest.raises(ConfigError, match="kernel size is 0"):
        CNN(kernel_size=0)
    with pytest.raises(ConfigError, match="activation is 'gelu'"):
        MLP(activation="gelu")


def test_a_unit_is_rounds_of_updates_of_rollouts():
    config = StudentConfig(n_envs=4, n_steps=128, rounds_per_unit=2, updates_per_round=9)
    assert config.steps_per_unit == 9_216


def test_students_who_differ_in_hyperparameters_share_a_shape():
    one, other = StudentConfig(learning_rate=1e-3, gamma=0.9), StudentConfig(learning_rate=2e-3, multiplier_bound=7.0)
    assert one.shape == other.shape
    assert hash(one.shape) == hash(other.shape)


@pytest.mark.parametrize(
    "change",
    [
        {"n_envs": 8},
        {"n_epochs": 3},
        {"network": MLP(hidden=(8,))},
        {"bootstrap_time_limit": True},
        {"deterministic": True},
        {"n_candidates": 4},
    ],
)
def test_students_who_differ_in_anything_else_do_not(change):
    assert StudentConfig(**change).shape != StudentConfig().shape


def test_an_unclipped_value_shares_the_shape_of_a_clipped_one():
    assert StudentConfig(clip_range_vf=None).shape == StudentConfig(clip_range_vf=0.2).shape
    assert StudentConfig(clip_range_vf=None).hyperparameters().clip_range_vf == float("inf")


def test_hyperparameters_come_in_the_order_of_their_record():
    config = StudentConfig(**{name: float(k + 1) for k, name in enumerate(Hyperparameters._fields)})
    assert config.hyperparameters() == tuple(float(k + 1) for k in range(len(Hyperparameters._fields)))


def test_the_learning_rate_falls_by_equal_steps_to_the_last_one():
    falling = StudentConfig(learning_rate=0.5, last_learning_rate=0.1)
    assert [falling.hyperparameters(unit, 5).learning_rate for unit in range(1, 6)] == pytest.approx(
        [0.5, 0.4, 0.3, 0.2, 0.1]
    )
    assert falling.hyperparameters(1, 1).learning_rate == 0.5
    assert StudentConfig(learning_rate=0.5).hyperparameters(5, 5).learning_rate == 0.5
    assert falling.shape == StudentConfig().shape


@pytest.mark.parametrize("last", [-0.1, 0.2, float("nan"), float("inf")])
def test_a_last_learning_rate_out_of_range_is_refused_in_one_line(last):
    with pytest.raises(ConfigError, match=r"^A student's last_learning_rate is .*: give 0 to its learning_rate"):
        StudentConfig(learning_rate=0.1, last_learning_rate=last)


@pytest.mark.parametrize(
    "config",
    [
        StudentConfig(),
        StudentConfig(learning_rate=1e-3, last_learning_rate=1e-4),
        StudentConfig(network=CNN(filters=(4, 8), hidden=(16, 8), activation="tanh"), learning_rate=1 / 3),
        StudentConfig(network=MLP(hidden=(5,), activation="relu"), bootstrap_time_limit=True, clip_range_vf=0.1),
    ],
)
def test_a_config_comes_back_from_json_as_it_was(config):
    assert StudentConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_a_record_from_before_candidates_is_read_as_a_student_with_one():
    record = StudentConfig(learning_rate=0.5).to_json()
    del record["deterministic"], record["n_candidates"]
    assert StudentConfig.from_json(record) == StudentConfig(learning_rate=0.5, deterministic=False, n_candidates=1)


def test_greedy_is_a_yes_or_a_no():
    with pytest.raises(ConfigError, match="student's deterministic is 1: give True or False"):
        StudentConfig(deterministic=1)


def test_an_explorer_differs_in_four_settings_and_in_what_it_is_told():
    base = StudentConfig(clip_range_vf=0.2, ent_coef=0.01, learning_rate=2e-3)
    ours = explorer(base)
    assert ours == dataclasses.replace(base, deterministic=True, n_candidates=4, clip_range_vf=None, ent_coef=0.05)
    assert explorer(ours) == ours
    assert explorer(StudentConfig(ent_coef=0.1)).ent_coef == 0.1  # it explores enough already
    assert explorer(base, clip_range_vf=0.2, ent_coef=0.001) == dataclasses.replace(
        base, deterministic=True, n_candidates=4, ent_coef=0.001
    )


POPULATION = Population(
    base=StudentConfig(),
    vary={"learning_rate": (5e-4, 2e-3), "network": [MLP(), MLP(hidden=(8,))], "n_epochs": [4, 9]},
)


def test_a_population_draws_within_its_ranges_and_from_all_its_options():
    drawn = [POPULATION.draw(np.random.default_rng(k)) for k in range(50)]
    rates = [config.learning_rate for config in drawn]
    assert 5e-4 <= min(rates) < 8e-4
    assert 1.7e-3 < max(rates) <= 2e-3
    assert {config.network for config in drawn} == {MLP(), MLP(hidden=(8,))}
    assert {config.n_epochs for config in drawn} == {4, 9}


def test_a_range_over_a_whole_number_draws_whole_numbers_up_to_both_ends():
    population = Population(base=StudentConfig(), vary={"n_epochs": (4, 6)})
    drawn = [population.draw(np.random.default_rng(k)).n_epochs for k in range(40)]
    assert set(drawn) == {4, 5, 6}
    assert all(isinstance(number, int) for number in drawn)


def test_what_is_not_varied_stays_that_of_the_base():
    drawn = POPULATION.draw(np.random.default_rng(0))
    same = {"learning_rate": 1e-3, "network": MLP(), "n_epochs": 9}
    assert dataclasses.replace(drawn, **same) == POPULATION.base


def test_the_same_generator_draws_the_same_student_whatever_the_order_of_the_fields():
    turned = Population(base=POPULATION.base, vary=dict(reversed(POPULATION.vary.items())))
    for k in range(5):
        drawn = POPULATION.draw(np.random.default_rng(k))
        assert drawn == POPULATION.draw(np.random.default_rng(k)) == turned.draw(np.random.default_rng(k))


@pytest.mark.parametrize(
    ("vary", "complaint"),
    [
        ({"learning_rat": (0.0, 1.0)}, "varies 'learning_rat'"),
        ({"learning_rate": []}, "no option for 'learning_rate'"),
        ({"learning_rate": (2.0, 1.0)}, r"draws 'learning_rate' from \(2.0, 1.0\)"),
        ({"learning_rate": (1.0, 2.0, 3.0)}, "draws 'learning_rate' from"),
    ],
)
def test_a_population_that_makes_no_sense_is_refused(vary, complaint):
    with pytest.raises(ConfigError, match=complaint):
        Population(base=StudentConfig(), vary=vary)


def test_settings_that_came_later_are_written_down_only_where_they_are_set():
    """So that students of earlier stores are still the same students."""
    plain = StudentConfig().to_json()
    assert "normalize_rewards" not in plain and "separate_value" not in plain["network"]
    robot = StudentConfig(network=CNN(strides=(2, 1)), normalize_observations=True)
    assert StudentConfig.from_json(json.loads(json.dumps(robot.to_json()))) == robot


@pytest.mark.parametrize("sizes", [(3,), (3, 3, 3), (3, 0), 0])
def test_kernels_and_strides_are_one_for_all_convolutions_or_one_for_each(sizes):
    for name in ("kernel_size", "strides"):
        with pytest.raises(ConfigError):
            CNN(filters=(8, 8), **{name: sizes})
