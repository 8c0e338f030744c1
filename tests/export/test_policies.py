"""Exported policies act as the student does: for numpy alone, and as ONNX, whatever the student sees and does."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from gymnasium import spaces

from cisr import ConfigError, Student, export_student
from cisr.export.numpy_policy import NumpyPolicy
from cisr.students import CNN, MLP, StudentConfig
from cisr.students.distributions import Gaussian
from cisr.students.networks import initialise
from cisr.students.spaces import acted_by
from cisr.training.spaces import observed

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
ARM = spaces.Dict(
    {
        "joints": spaces.Box(-5.0, 5.0, (2, 2), np.float32),
        "mode": spaces.Discrete(3, start=5),
        "wheels": spaces.Tuple([spaces.MultiDiscrete([2, 3], start=[1, 0]), spaces.MultiBinary(2)]),
    }
)
VECTOR = spaces.Box(-5.0, 5.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (9, 8, 2), np.uint8)
STRIDED = CNN(filters=(4, 3), kernel_size=(3, 2), strides=(2, 1), hidden=(6,))
TORQUES = spaces.Box(np.array([[-0.5, -1], [-np.inf, -0.25]]), np.array([[0.5, np.inf], [1, 0.25]]), dtype=np.float64)
KINDS = {
    "vector": (VECTOR, spaces.Discrete(4), MLP(hidden=(8, 7))),
    "separate value": (VECTOR, spaces.Discrete(4), MLP(hidden=(8,), activation="relu", separate_value=True)),
    "numbers from 3 on": (spaces.Discrete(6, start=3), spaces.Discrete(4, start=-1), MLP(hidden=(8,))),
    "image": (IMAGE, spaces.Discrete(3), STRIDED),
    "tanh image": (IMAGE, spaces.Discrete(3), CNN(filters=(4,), hidden=(6, 5), activation="tanh")),
    "flat image": (IMAGE, spaces.Discrete(3), MLP(hidden=(8,))),
    "real image": (spaces.Box(-1.0, 1.0, (6, 6, 1), np.float32), TORQUES, STRIDED),
    "torques": (VECTOR, TORQUES, MLP(hidden=(8,), separate_value=True)),
    "switches": (VECTOR, spaces.MultiBinary((2, 2)), MLP(hidden=(8,))),
    "choices": (spaces.MultiBinary(4), spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 7], [-2, 0]]), MLP()),
    "parts": (ARM, spaces.Box(-1.0, 1.0, (2,), np.float32), MLP(hidden=(8,))),
    "dials": (spaces.MultiDiscrete([4, 3], start=[0, 2]), spaces.Discrete(3), MLP(hidden=(8,))),
}


def student(kind, normalised=False, deterministic=False):
    """Of random weights and statistics, large enough that its actions differ and leave their bounds."""
    seen, done, network = KINDS[kind]
    observation, distribution = observed(seen), acted_by(done)
    n = distribution.n_outputs, distribution.n_log_std
    shapes = jax.eval_shape(lambda key: initialise(key, network, observation, *n), jax.random.key(0))
    rng = np.random.default_rng(1)
    params = {name: rng.normal(0, 0.7, spec.shape).astype(np.float32) for name, spec in shapes.items()}
    statistics = {}
    if normalised:
        mean, var = rng.normal(size=observation.shape), rng.uniform(0.01, 4, observation.shape)
        statistics = {"observation.mean": mean, "observation.var": var, "observation.count": np.array(9.0)}
    config = StudentConfig(network=network, normalize_observations=normalised, deterministic=deterministic)
    statistics = {name: array.astype(np.float32) for name, array in statistics.items()}
    return Student(config, observation, distribution, params, statistics)


def observations(kind, n=60):
    """As the environment shows them, and as the student sees them."""
    space = KINDS[kind][0]
    space.seed(2)
    shown = [space.sample() for _ in range(n)]
    flat = spaces.flatten if kind in ("parts", "dials") else lambda space, one: one
    return shown, np.stack([flat(space, one) for one in shown])


def numpy_policy(student, folder, space=None, **options):
    return NumpyPolicy(export_student(student, folder / "student.npz", space), **options)


def decided(student, outputs):
    """Whether the most likely action is so by more than rounding."""
    if isinstance(student.distribution, Gaussian):
        return np.full(len(outputs), True)
    counts = student.distribution.n_actions
    ends = np.cumsum([counts] if isinstance(counts, int) else counts)[:-1]
    gaps = [np.diff(np.sort(part, axis=-1)[:, -2:], axis=-1)[:, 0] for part in np.split(outputs, ends, axis=-1)]
    return np.min(gaps, axis=0) > 1e-4


NORMALISED = ["vector", "image", "torques", "parts"]
CASES = [*((kind, False) for kind in KINDS), *((kind, True) for kind in NORMALISED)]


@pytest.mark.parametrize(("kind", "normalised"), CASES)
def test_policies_for_numpy_and_onnx_act_as_the_student(kind, normalised, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    known = student(kind, normalised)
    shown, seen = observations(kind)
    said, wanted = known.outputs(seen), known.predict(seen, deterministic=True)
    sure = decided(known, said)
    assert sure.mean() > 0.9 and len(np.unique(wanted, axis=0)) > 1

    policy = numpy_policy(known, tmp_path, KINDS[kind][0])
    np.testing.assert_allclose(policy.outputs(seen), said, **CLOSE)
    acts = policy.predict(seen, deterministic=True)
    np.testing.assert_allclose(acts[sure], wanted[sure], **CLOSE)
    for k in np.flatnonzero(sure)[:10]:
        one = policy.predict(shown[k], deterministic=True)
        np.testing.assert_allclose(one, wanted[k], **CLOSE)
        assert KINDS[kind][1].contains(np.asarray(one, KINDS[kind][1].dtype))

    path = export_student(known, tmp_path / "student.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(uint8)": np.uint8}
    for n in (len(seen), 1):  # of any number
        found = dict(
            zip(
                [output.name for output in session.get_outputs()],
                session.run(None, {"observation": seen[:n].astype(types[given.type])}),
                strict=True,
            )
        )
        np.testing.assert_allclose(found["action"][sure[:n]], wanted[:n][sure[:n]], **CLOSE)
        if isinstance(known.distribution, Gaussian):
            drawn_from = np.concatenate([found["mean"], np.log(found["std"])], axis=-1)
            np.testing.assert_allclose(drawn_from, said[:n], **CLOSE)
        else:
            np.testing.assert_allclose(found["logits"], said[:n], **CLOSE)


@pytest.mark.parametrize("normalised", [False, True])
def test_an_image_of_bytes_is_the_same_image_whatever_type_of_whole_numbers_it_comes_in(normalised, tmp_path):
    known, (_, seen) = student("image", normalised), observations("image", 40)
    policy = numpy_policy(known, tmp_path, IMAGE)
    said, wanted = known.outputs(seen), known.predict(seen, deterministic=True)
    for kind in (np.int64, np.int32, np.uint16):
        np.testing.assert_array_equal(known.outputs(seen.astype(kind)), said)
        for actor in (known, policy):
            np.testing.assert_array_equal(actor.predict(seen.astype(kind), deterministic=True), wanted)
    for other in (seen.astype(np.float32), seen / 255, seen.astype(int) - 256, seen.astype(str)):
        for actor, error in ((known, ConfigError), (policy, ValueError)):
            with pytest.raises(error, match="sees bytes of images, "):
                actor.predict(other)


def test_what_is_no_observation_gets_one_line():
    numbers, vectors = student("numbers from 3 on"), student("vector")
    for wrong in (99, 2, 0.5, "x", None, [[1], [1, 2]]):
        with pytest.raises(ConfigError, match="An observation"):
            numbers.predict(wrong)
    for wrong in (99, ["x"] * 64, None, [[1], [1, 2]]):
        with pytest.raises(ConfigError, match="An observation"):
            vectors.predict(wrong)


@pytest.mark.parametrize("kind", ["vector", "choices", "torques"])
def test_actions_are_drawn_as_often_as_the_student_draws_them(kind, tmp_path):
    """Means and spreads of many draws at one observation, which end in the same places by chance alone."""
    known = student(kind)
    _, (seen, *_) = observations(kind)
    many = np.repeat(seen[None], 20_000, axis=0)
    ours, theirs = numpy_policy(known, tmp_path).predict(many), known.predict(many)
    assert ours.shape == theirs.shape
    for action in np.unique(theirs) if kind != "torques" else ():
        np.testing.assert_allclose((ours == action).mean(axis=0), (theirs == action).mean(axis=0), atol=0.02)
    np.testing.assert_allclose(ours.mean(axis=0), theirs.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(ours.std(axis=0), theirs.std(axis=0), atol=0.05)


def test_a_policy_acts_in_its_students_own_way_unless_told_otherwise(tmp_path):
    _, seen = observations("vector", 200)
    drawing = numpy_policy(student("vector"), tmp_path)
    greedy = numpy_policy(student("vector", deterministic=True), tmp_path)
    assert (drawing.predict(seen) != drawing.predict(seen, deterministic=True)).any()
    assert (greedy.predict(seen) == greedy.predict(seen)).all()
    again = [NumpyPolicy(tmp_path / "student.npz", seed=4).predict(seen, deterministic=False) for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_a_policy_needs_numpy_and_nothing_else(tmp_path):
    """It runs where nothing else is installed: neither JAX nor cisr."""
    known = student("vector", normalised=True)
    _, seen = observations("vector", 5)
    export_student(known, tmp_path / "student.npz")
    (tmp_path / "only").mkdir()
    installed = Path(np.__file__).parent.parent
    for part in installed.glob("numpy*"):
        (tmp_path / "only" / part.name).symlink_to(part)
    program = f"""
import sys
sys.path[:0] = [{str(tmp_path)!r}, {str(tmp_path / "only")!r}]
from numpy_policy import NumpyPolicy
policy = NumpyPolicy({str(tmp_path / "student.npz")!r})
print([policy.predict(one, deterministic=True) for one in {seen.tolist()!r}])
from importlib.util import find_spec
assert not any(find_spec(name) for name in ("jax", "cisr", "gymnasium", "torch"))
"""
    done = subprocess.run([sys.executable, "-ISs", "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == known.predict(seen, deterministic=True).tolist()


def test_what_is_no_policy_is_refused_and_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "other.npz", about=np.array(json.dumps({"format": "another"})))
    with pytest.raises(ValueError, match="is no policy for this program"):
        NumpyPolicy(tmp_path / "other.npz")
    np.savez(tmp_path / "evil.npz", about=np.array([print], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        NumpyPolicy(tmp_path / "evil.npz")


def test_an_observation_of_another_shape_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"shape \(4,\): this policy sees \(3,\)"):
        numpy_policy(student("vector"), tmp_path).predict(np.zeros(4))


def test_the_space_must_be_that_of_the_student(tmp_path):
    with pytest.raises(ConfigError, match="is not that of the student"):
        export_student(student("parts"), tmp_path / "student.npz", KINDS["dials"][0])
    assert not list(tmp_path.iterdir())


def test_a_file_is_of_a_known_kind_and_a_program_of_ones_own_is_not_replaced(tmp_path):
    with pytest.raises(ConfigError, match=r"ends in .npz or .onnx"):
        export_student(student("vector"), tmp_path / "student.pkl")
    own = tmp_path / "numpy_policy.py"
    own.write_text("mine = 1\n")
    with pytest.raises(ConfigError, match="is not ours"):
        export_student(student("vector"), tmp_path / "student.npz")
    assert own.read_text() == "mine = 1\n"
    assert not (tmp_path / "student.npz").exists()


def test_only_students_can_be_exported(tmp_path):
    with pytest.raises(ConfigError, match="The student to be exported is 3"):
        export_student(3, tmp_path / "student.npz")


def sb3_actor(task, student):
    """One that has learned nothing yet."""
    from cisr.training.sb3 import SB3Actor, new_learner
    from cisr.training.sb3_envs import Envs

    envs = Envs(task, student)
    return SB3Actor(new_learner(task, student, 1, envs), envs)


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN", "SAC", "TD3", "DDPG"])
def test_students_of_stable_baselines3_act_as_exported(algorithm, tmp_path):
    pytest.importorskip("stable_baselines3")
    onnxruntime = pytest.importorskip("onnxruntime")
    import sb3_tasks

    task = sb3_tasks.lake if algorithm in ("PPO", "DQN") else sb3_tasks.beam
    actor = sb3_actor(task, sb3_tasks.students[algorithm])
    space = task.make_env().observation_space
    space.seed(2)
    seen = np.stack([space.sample() for _ in range(50)])
    wanted = np.asarray(actor.model.predict(seen, deterministic=True)[0])
    policy = numpy_policy(actor, tmp_path)
    np.testing.assert_allclose(policy.predict(seen, deterministic=True), wanted, **CLOSE)
    session = onnxruntime.InferenceSession(
        export_student(actor, tmp_path / "student.onnx"), providers=["CPUExecutionProvider"]
    )
    np.testing.assert_allclose(session.run(["action"], {"observation": seen})[0], wanted, **CLOSE)
    many = np.repeat(seen[:1], 4_000, axis=0)
    drawn, theirs = policy.predict(many, deterministic=False), actor.predict(many, deterministic=False)
    if algorithm != "DQN":  # which explores for a whole batch at once
        np.testing.assert_allclose(drawn.mean(axis=0), theirs.mean(axis=0), atol=0.1)
        np.testing.assert_allclose(drawn.std(axis=0), theirs.std(axis=0), atol=0.1)
    else:
        assert (drawn != wanted[0]).mean() == pytest.approx(0.75 * actor.model.exploration_rate, abs=0.03)


@pytest.mark.parametrize(("name", "algorithm"), [("Labelled", "PPO"), ("Labelled", "DQN"), ("TwoHands", "A2C")])
def test_students_of_stable_baselines3_act_in_the_numbers_of_their_environment(name, algorithm, tmp_path):
    pytest.importorskip("stable_baselines3")
    import sb3_tasks

    from cisr import SB3Student

    kind = getattr(sb3_tasks, name)
    actor = sb3_actor(dataclasses.replace(sb3_tasks.beam, make_env=lambda **options: kind()), SB3Student(algorithm))
    space, actions = kind.observation_space, kind.action_space
    space.seed(2)
    parts = [space.sample() for _ in range(30)]
    seen = parts if actor.observation.shape == () else [spaces.flatten(space, part) for part in parts]
    policy = numpy_policy(actor, tmp_path, space)
    wanted = actor.predict(np.stack(seen), True)
    np.testing.assert_array_equal(policy.predict(np.stack(seen), deterministic=True), wanted)
    assert all(np.asarray(policy.predict(one), actions.dtype) in actions for one in seen)
    as_shown = [policy.predict(part, deterministic=True) for part in parts]
    np.testing.assert_array_equal(as_shown, wanted)


def test_students_of_stable_baselines3_with_other_networks_are_refused_in_a_line(tmp_path):
    pytest.importorskip("stable_baselines3")
    import sb3_tasks

    from cisr import SB3Student

    odd = SB3Student("PPO", settings={"n_steps": 32, "batch_size": 32, "use_sde": True})
    actor = sb3_actor(sb3_tasks.beam, odd)
    with pytest.raises(ConfigError, match=r"\(use_sde\): students whose policy is plain layers"):
        export_student(actor, tmp_path / "student.npz")

    class Seeing(sb3_tasks.TwoHands):
        observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)

    images = dataclasses.replace(sb3_tasks.beam, make_env=lambda **options: Seeing())
    with pytest.raises(ConfigError, match=r"channels first, \(3, 36, 36\), .* shows them, \(36, 36, 3\)"):
        export_student(sb3_actor(images, SB3Student("A2C")), tmp_path / "student.npz")
