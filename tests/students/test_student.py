"""A student on its own: it acts, is saved, and comes back as it was."""

from __future__ import annotations

import json
import os
import pickle
import random

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from cisr.core.errors import ConfigError
from cisr.students import CNN, MLP, StudentConfig
from cisr.students.distributions import Categorical, Categoricals, Gaussian
from cisr.students.networks import ObservationSpec, initialise
from cisr.students.normalisation import new_statistics
from cisr.students.student import Student

BOX = ObservationSpec(shape=(3,))


def student(observation=BOX, network=None, n_actions=4):
    """A student of random weights, large enough that its choices differ from state to state."""
    network = network or MLP(hidden=(8,))
    shapes = jax.eval_shape(lambda key: initialise(key, network, observation, n_actions), jax.random.key(0))
    rng = np.random.default_rng(1)
    params = {name: rng.normal(size=spec.shape).astype(np.float32) for name, spec in shapes.items()}
    return Student(StudentConfig(network=network), observation, Categorical(n_actions), params)


def batch(n=64):
    return np.random.default_rng(2).normal(size=(n, 3)).astype(np.float32)


def test_one_observation_gives_one_action_and_a_batch_gives_a_batch():
    one, many = student().predict(batch()[0]), student().predict(batch())
    assert isinstance(one, int)
    assert many.shape == (64,)
    assert set(many.tolist()) <= {0, 1, 2, 3}


def test_a_batch_of_one_is_a_batch():
    assert student().predict(batch(1)).shape == (1,)


def test_the_deterministic_action_is_the_same_alone_and_in_a_batch():
    actor = student()
    many = actor.predict(batch(), deterministic=True)
    assert [actor.predict(observation, deterministic=True) for observation in batch()] == many.tolist()
    assert len(set(many.tolist())) > 1


def test_a_student_acts_in_its_own_way_unless_told_otherwise():
    drawing = student()
    greedy = Student(
        StudentConfig(network=drawing.config.network, deterministic=True), BOX, Categorical(4), drawing.params
    )
    likely = greedy.predict(batch())
    np.testing.assert_array_equal(likely, drawing.predict(batch(), deterministic=True))
    assert not np.array_equal(likely, drawing.predict(batch()))
    assert not np.array_equal(likely, greedy.predict(batch(), deterministic=False))


def test_drawn_actions_follow_from_the_seed_and_the_number_of_the_call():
    zeros = {name: np.zeros(array.shape, np.float32) for name, array in student().params.items()}
    flat = Student(student().config, BOX, Categorical(4), zeros)
    twin = Student(flat.config, BOX, Categorical(4), flat.params)
    first, second = flat.predict(batch(), seed=5), flat.predict(batch(), seed=5)
    np.testing.assert_array_equal(twin.predict(batch(), seed=5), first)
    np.testing.assert_array_equal(twin.predict(batch(), seed=5), second)
    assert not np.array_equal(first, second)
    assert set(first.tolist()) == {0, 1, 2, 3}


def test_a_discrete_observation_is_a_number():
    actor = student(ObservationSpec(shape=(), n_values=6))
    many = actor.predict(np.arange(6), deterministic=True)
    assert actor.predict(3, deterministic=True) == many[3]


@pytest.mark.parametrize("shape", [(), (2,), (3, 2), (5, 4)])
def test_an_observation_of_another_shape_is_refused(shape):
    with pytest.raises(ConfigError, match=r"this student sees \(3,\)"):
        student().predict(np.zeros(shape))


@pytest.mark.parametrize(
    ("observation", "network", "seen"),
    [
        (BOX, MLP(hidden=(8, 4)), batch()),
        (ObservationSpec(shape=(), n_values=6), MLP(hidden=(8,), activation="relu"), np.arange(6)),
        (
            ObservationSpec(shape=(4, 4, 1)),
            CNN(filters=(2,), hidden=(4,)),
            np.random.default_rng(0).normal(size=(9, 4, 4, 1)).astype(np.float32),
        ),
    ],
)
def test_a_saved_student_comes_back_and_acts_the_same(observation, network, seen, tmp_path):
    path = tmp_path / "student.safetensors"
    actor = student(observation, network)
    actor.save(path)
    loaded = Student.load(path)
    assert (loaded.config, loaded.observation, loaded.distribution) == (actor.config, observation, Categorical(4))
    for deterministic in (True, False):
        for _ in range(3):
            np.testing.assert_array_equal(loaded.predict(seen, deterministic), actor.predict(seen, deterministic))


@pytest.mark.parametrize(
    ("distribution", "observation"),
    [
        (Gaussian((-1.0, -np.inf), (1.0, 2.0), (2,)), BOX),
        (Categoricals((2, 3), (0, 5), (2,)), BOX),
        (Categorical(3, start=-1), ObservationSpec((), n_values=4, start=2)),
        (Gaussian((0.0,) * 4, (1.0,) * 4, (2, 2)), ObservationSpec((4, 4, 1), image=True)),
    ],
)
def test_a_saved_student_of_any_spaces_comes_back_with_its_statistics(distribution, observation, tmp_path):
    config = StudentConfig(
        network=MLP(hidden=(8,), separate_value=True),
        normalize_observations=observation.n_values is None,
        normalize_rewards=True,
    )
    key = jax.random.key(0)
    params = initialise(key, config.network, observation, distribution.n_outputs, distribution.n_log_std)
    statistics = {name: array + 0.5 for name, array in new_statistics(config, observation).items()}
    actor = Student(config, observation, distribution, params, statistics)
    actor.save(tmp_path / "student.safetensors")
    loaded = Student.load(tmp_path / "student.safetensors")
    assert (loaded.config, loaded.observation, loaded.distribution) == (config, observation, distribution)
    assert loaded.statistics.keys() == statistics.keys()
    for name, array in statistics.items():
        np.testing.assert_array_equal(loaded.statistics[name], array)
    seen = np.full(observation.shape, 3, observation.dtype)
    np.testing.assert_array_equal(loaded.predict(seen, seed=4), actor.predict(seen, seed=4))


def test_statistics_that_settings_do_not_ask_for_are_refused():
    plain = student()
    with pytest.raises(ConfigError, match=r"statistics have float32 of shape \(\) as 'return.var', .* ask for nothing"):
        Student(plain.config, BOX, Categorical(4), plain.params, {"return.var": np.ones((), np.float32)})


def test_a_student_of_the_first_format_still_acts(tmp_path):
    actor = student()
    about = {
        "format": "cisr student 1",
        "config": json.dumps(actor.config.to_json()),
        "observation": json.dumps({"shape": [3], "n_values": None}),
        "n_actions": "4",
    }
    path = tmp_path / "student.safetensors"
    save_file({name: np.asarray(array) for name, array in actor.params.items()}, path, metadata=about)
    np.testing.assert_array_equal(Student.load(path).predict(batch(), True), actor.predict(batch(), True))


def test_loading_nonsense_is_a_clear_error(tmp_path):
    path = tmp_path / "student.safetensors"
    with pytest.raises(ConfigError, match="Cannot read a student from"):
        Student.load(path)
    path.write_bytes(b"this is not a student")
    with pytest.raises(ConfigError, match="Cannot read a student from"):
        Student.load(path)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="Cannot read a student from"):
        Student.load(path)
    with pytest.raises(ConfigError, match="Cannot read a student from"):
        Student.load(tmp_path)


def test_loading_the_weights_of_something_else_is_a_clear_error(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"layer.weight": np.zeros((2, 2), np.float32)}, path)
    with pytest.raises(ConfigError, match=r"is no saved student \(its format is None"):
        Student.load(path)


@pytest.mark.parametrize(
    "about",
    [
        {"format": "cisr student 1"},
        {"format": "cisr student 1", "config": "{}", "observation": "{}", "n_actions": "4"},
        {"format": "cisr student 1", "config": "no", "observation": "json", "n_actions": "four"},
        {"format": "cisr student 2", "config": "{}", "observation": "{}", "actions": "{}"},
    ],
)
def test_a_student_file_with_a_damaged_header_is_a_clear_error(about, tmp_path):
    path = tmp_path / "student.safetensors"
    save_file({"layer.weight": np.zeros((2, 2), np.float32)}, path, metadata=about)
    with pytest.raises(ConfigError, match="student"):
        Student.load(path)


def rewritten(path, rng):
    """A student's file with nonsense at one place of its header, of the JSON in it, or a bit flipped anywhere."""
    good = path.read_bytes()
    length = int.from_bytes(good[:8], "little")
    header, body = json.loads(good[8 : 8 + length]), good[8 + length :]
    about = header["__metadata__"]
    way = rng.choice(["header", "about", "inside", "flip", "cut"])
    if way == "flip":
        place = rng.randrange(len(good))
        return good[:place] + bytes([good[place] ^ 1 << rng.randrange(8)]) + good[place + 1 :]
    if way == "cut":
        return good[: rng.randrange(len(good))]
    if way == "header":
        other = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
        header[rng.choice(list(header))] = rng.choice([None, {}, [], 3, other])
    elif way == "about":
        about[rng.choice(list(about))] = rng.choice(["", "{}", "[]", "-1", "9" * 5000, "[" * 5000, "null", "NaN"])
    else:
        which = rng.choice(["config", "observation"])
        inside = json.loads(about[which])
        inside[rng.choice(list(inside))] = rng.choice([None, -1, 10**18, "x", [], {}, [10**9, 10**9], 1e999, True])
        about[which] = json.dumps(inside)
    written = json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + body


def test_a_student_file_from_anywhere_acts_or_gets_one_line(tmp_path):
    path, other = tmp_path / "student.safetensors", tmp_path / "other.safetensors"
    student().save(path)
    lines = []
    for seed in range(300):
        other.write_bytes(rewritten(path, random.Random(seed)))
        try:
            loaded = Student.load(other)
            loaded.predict(np.zeros(loaded.observation.shape, loaded.observation.dtype))
        except ConfigError as error:
            lines.append(str(error))
    assert 200 < len(lines) < 300 and not any("\n" in line for line in lines)


class Bomb:
    def __reduce__(self):
        return exec, ("raise AssertionError('code was run')",)


def test_a_student_file_runs_no_code_and_waits_for_no_pipe(tmp_path):
    (tmp_path / "bomb").write_bytes(pickle.dumps(Bomb()))
    np.save(tmp_path / "bomb.npy", np.array([Bomb()]), allow_pickle=True)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "bomb", tmp_path / "bomb.npy", tmp_path / "pipe", "/dev/zero", "\0", 5, None):
        with pytest.raises(ConfigError, match="Cannot read a student"):
            Student.load(path)


def test_weights_of_another_network_are_refused():
    actor = student()
    weights = {name: np.asarray(array) for name, array in actor.params.items()}
    for wrong in ({}, weights | {"more": np.zeros(1)}, weights | {"policy.bias": np.zeros(5, np.float32)}):
        with pytest.raises(ConfigError, match="A student's weights have"):
            Student(actor.config, BOX, Categorical(4), wrong)


def test_a_student_is_saved_as_a_whole_or_not_at_all(tmp_path):
    for path in (tmp_path, "/dev/full", tmp_path / "student" / "\0", 5):
        with pytest.raises(ConfigError, match="Cannot write"):
            student().save(path)
    student().save(tmp_path / "new" / "student.safetensors")
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["student.safetensors"]
