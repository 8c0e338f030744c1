"""Students in spaces of all kinds, from their first step to the file that they are saved in."""

from dataclasses import replace

import drift
import gymnasium
import jax
import numpy as np
import pytest
import tiny

from cisr import ConfigError, Fixed, InducedCMDP, Schedule, Store, audit, compare, load_student
from cisr.students import StudentConfig
from cisr.students.networks import ObservationSpec
from cisr.students.normalisation import new_statistics
from cisr.training import Batch, Checkpoint, Graduation, Progress, StudentSpec, TrainingSetup, compiled
from cisr.training import gymnasium as hosts

BACKENDS = {"gymnasium": hosts.train, "compiled": compiled.train}


def events(backend, checkpoint=None, config=drift.student):
    """Two students: one that switches, one that does not."""
    policies = (Schedule(("back", "none")), Fixed("back"))
    students = tuple(StudentSpec(name=str(k), policy=p, config=config, seed=k) for k, p in enumerate(policies))
    setup = TrainingSetup(task=drift.task, backend=backend)
    told = BACKENDS[backend](setup, Batch(name="batch", students=students), checkpoint)
    return [event for event in told if not isinstance(event, Progress)]


@pytest.fixture(scope="module", params=BACKENDS)
def taught(request):
    return request.param, events(request.param)


def test_statistics_are_carried_through_switches_and_checkpoints(taught):
    backend, (first, second, graduation) = taught
    assert isinstance(graduation, Graduation) and graduation.errors == (None, None)
    for unit, checkpoint in enumerate((first, second), start=1):
        assert isinstance(checkpoint, Checkpoint)
        # each observation that was acted on enters once, and so does what follows the last step of a best response
        met = drift.student.steps_per_unit * unit + (0 if backend == "compiled" else 2 * 2 * unit)
        np.testing.assert_allclose(checkpoint.weights["statistics/observation.count"], met, rtol=1e-4)
        np.testing.assert_allclose(
            checkpoint.weights["statistics/return.count"], drift.student.steps_per_unit * unit, rtol=1e-4
        )
    assert (second.weights["statistics/observation.mean"] > 50).all()  # what is seen lies around 100 and above
    assert first.records[0].log.mean_return < -200  # records tell the environment's rewards
    again = events(backend, first)
    jax.tree.map(np.testing.assert_array_equal, again[0].weights, second.weights)
    assert again[-1] == graduation


def test_deployment_moves_no_statistics_and_hands_in_those_of_the_policy(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        compare(drift.task, {"back": Fixed("back")}, n_students=1, store=store, execution=tiny.HERE)
        student = load_student(store, drift.task, "compare/back/000")
    assert student.statistics["observation.mean"].shape == (2,)
    assert student.statistics["return.var"] > drift.SCALE  # the environment's returns are far from 1
    action = student.predict(np.array([100.0, 100.0], np.float32), deterministic=False)
    assert action.shape == (2,) and drift.Drift().action_space.contains(action)


def test_numbers_cannot_be_normalised():
    config = replace(tiny.student, normalize_observations=True)
    with pytest.raises(ConfigError, match="nothing to normalise"):
        new_statistics(config, ObservationSpec((), n_values=4))


def test_attackers_find_their_way_through_boxes():
    """The trigger is wider than a step, so nobody gets past it; random, sticky and trained attackers all act."""
    report = audit(drift.task, budget=800, n_workers=0)
    (verdict,) = [v for v in report.verdicts if v.name == "back"]
    assert verdict.falsification is not None and not verdict.falsification.notes
    assert {attack.attacker for attack in verdict.falsification.attacks} == {"random", "sticky", "trained"}
    assert not verdict.falsification.refuted


class Parts(gymnasium.Env):
    """Shows several things at once and wants several at once."""

    observation_space = gymnasium.spaces.Dict(
        where=gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64),
        what=gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(3, start=1), gymnasium.spaces.MultiBinary(2))),
    )
    action_space = gymnasium.spaces.MultiDiscrete([2, 3], start=[0, 1])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def seen(self):
        return {"where": np.full(2, self.steps / 10), "what": (1 + self.steps % 3, np.array([0, 1], np.int8))}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        return self.seen(), float(action[1]), self.steps == 5, False, {}


def parts(**changes):
    config = StudentConfig(
        network=tiny.student.network, n_envs=2, n_steps=16, n_minibatches=2, n_epochs=1, rounds_per_unit=1
    )
    task = replace(
        drift.task,
        name="parts",
        make_env=Parts,
        jax_env=None,
        read_state=lambda env: np.array([env.unwrapped.steps]),
        danger=lambda move: move.state[..., 0] > 9,
        success=lambda move: move.terminated,
        interventions=(),
    )
    return task.with_training(student=replace(config, updates_per_round=2, **changes), n_units=1)


def test_observations_and_actions_of_several_parts_are_learned_from(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        compare(parts(), {"none": Fixed("none")}, n_students=1, store=store, execution=tiny.HERE)
        student = load_student(store, parts(), "compare/none/000")
    env = Parts()
    observation, _ = env.reset(seed=0)
    assert student.observation.shape == (7,)
    assert env.action_space.contains(student.predict(gymnasium.spaces.flatten(env.observation_space, observation)))


def test_the_induced_cmdp_shows_what_its_environment_shows():
    env, plain = InducedCMDP(parts(), "none"), Parts()
    seen, _ = env.reset(seed=0)
    expected, _ = plain.reset(seed=0)
    for _ in range(3):
        assert env.observation_space.contains(seen)
        np.testing.assert_array_equal(seen["where"], expected["where"].astype(np.float32))
        assert seen["what"][0] == expected["what"][0]
        seen, expected = env.step(np.array([1, 2]))[0], plain.step(np.array([1, 2]))[0]


def test_an_observation_of_several_parts_that_its_space_does_not_have_is_refused():
    class Lying(Parts):
        def seen(self):
            return {**super().seen(), "what": (7, np.array([0, 1], np.int8))}

    with pytest.raises(Exception, match=r"answered the observation .*the observation space is Dict"):
        InducedCMDP(replace(parts(), make_env=Lying), "none").reset(seed=0)
