"""Students of Stable-Baselines3: taught as ours are, and stopped and resumed to the last bit."""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest
import tiny
from kills import ENVIRONMENT
from stores import cells, units_on_disk

pytest.importorskip("stable_baselines3")

import sb3_tasks
from sb3_tasks import students

from cisr import (
    ConfigError,
    Drive,
    Fixed,
    Intervention,
    SB3Student,
    Schedule,
    Store,
    StoreError,
    Study,
    compare,
    get_task,
    load_student,
)
from cisr.cli import main
from cisr.students.sb3_learner import steps_of_round
from cisr.training import Batch, Checkpoint, Graduation, StudentSpec
from cisr.training.sb3 import SB3Backend, train
from cisr.training.setup import make_setup
from cisr.training.watch import NO_WATCH

SWITCHING = {"PPO": ("SR1", "SR1", "HR"), "DQN": ("SR1", "SR1", "HR"), "SAC": ("back", "back", "end")}


def batch_of(name, policy=None):
    policy = policy or Schedule(SWITCHING.get(name, ("back", "back", "end")))
    return Batch(name="b", students=(StudentSpec(name="b", policy=policy, config=students[name], seed=7),))


def task_of(name):
    return sb3_tasks.lake if name in ("PPO", "DQN") else sb3_tasks.beam


def setup_of(name):
    return make_setup(task_of(name).with_training(student=students[name]))


def taught(name, checkpoint=None):
    events = list(train(setup_of(name), batch_of(name), checkpoint))
    kept = [event for event in events if isinstance(event, Checkpoint)]
    (graduation,) = [event for event in events if isinstance(event, Graduation)]
    return kept, graduation


@pytest.mark.parametrize("name", ["PPO", "DQN", "SAC", "A2C", "TD3", "DDPG"])
def test_whoever_goes_on_from_a_checkpoint_ends_up_the_same_to_the_last_bit(name):
    """Weights, optimisers, replay buffers and counters, after a switch of the intervention too."""
    whole, graduation = taught(name)
    assert graduation.errors == (None,)
    assert len(whole) == 3
    for begun in whole[:-1]:
        rest, again = taught(name, begun)
        assert again == graduation
        for before, after in zip(whole[begun.unit :], rest, strict=True):
            assert before.records == after.records
            assert sorted(before.weights) == sorted(after.weights)
            for key, array in before.weights.items():
                np.testing.assert_array_equal(array, after.weights[key], err_msg=key)


def test_random_numbers_of_the_caller_are_left_alone():
    np.random.seed(3)
    random.seed(3)
    expected = (np.random.RandomState(3).rand(), random.Random(3).random())
    taught("DQN")
    assert (np.random.rand(), random.random()) == expected


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_at_a_switch_networks_stay_and_the_replay_buffer_and_optimisers_start_afresh(name):
    (first, second, third), _ = taught(name)
    sizes = [len(checkpoint.weights["buffer/costs"][0]) for checkpoint in (first, second, third)]
    assert sizes[1] == 2 * sizes[0] and sizes[2] == sizes[0]


def test_a_replay_buffer_is_paid_by_the_multipliers_of_now():
    backend = SB3Backend(setup_of("DQN"), batch_of("DQN"), NO_WATCH)
    learners = backend._new()
    *_, (learners, _) = iter_to_end(backend._train(1, learners, [sb3_tasks.lake.intervention("SR1")]))
    buffer = learners.learner.model.replay_buffer
    weights = np.array([0.0, 3.0])
    buffer.charge(weights)
    n = buffer.n_kept
    np.testing.assert_allclose(buffer.rewards[:n], buffer.raw_rewards[:n] - 3.0 * buffer.costs[:n, :, 1], atol=1e-6)
    assert (buffer.costs[:n, :, 1] != 0).any()


def iter_to_end(generator):
    """Events, and at last what the generator returns."""
    while True:
        try:
            yield next(generator)
        except StopIteration as end:
            yield end.value
            return


def test_multipliers_move_and_training_failures_are_counted():
    comparison = compare(
        sb3_tasks.lake,
        {"SR1": Fixed("SR1"), "none": Fixed("none")},
        student=students["PPO"],
        n_students=1,
        execution=tiny.HERE,
    )
    safe, alone = (comparison.transcripts[label][0] for label in ("SR1", "none"))
    assert (safe.training_failures, alone.rescues) == (0, 0)
    assert safe.rescues > 0 and alone.training_failures > 0
    assert safe.units[0].multipliers != safe.units[1].multipliers
    assert safe.units[0].steps == 128


def test_a_study_over_students_of_another_library_is_kept_and_its_students_act(tmp_path):
    path = tmp_path / "s.sqlite"
    result = Study(sb3_tasks.lake, student=students["DQN"], store=path, execution=tiny.HERE).run()
    assert not result.unfinished
    with Store(path, read_only=True) as store:
        assert (store.settings()["backend"], store.settings()["student"]) == ("sb3", "sb3:DQN")
        student = load_student(store, sb3_tasks.DQN, "study/000/00")
    observation, _ = sb3_tasks.DQN.make_env().reset(seed=0)
    assert student.predict(observation) == student.predict(observation) in range(4)
    with pytest.raises(StoreError, match="was made with"):
        Study(sb3_tasks.lake, student=students["PPO"], store=path, execution=tiny.HERE).run()


def test_an_environment_that_breaks_ends_its_student_with_its_error():
    task = dataclasses.replace(tiny.explosive, training=sb3_tasks.PPO.training)
    events = list(train(make_setup(task), batch_of("PPO"), None))
    assert "the simulator lost its licence" in events[-1].errors[0].message


@pytest.mark.parametrize(
    ("name", "kind"), [("PPO", sb3_tasks.Labelled), ("DQN", sb3_tasks.Labelled), ("PPO", sb3_tasks.TwoHands)]
)
def test_students_see_and_act_in_every_space_that_ours_do(name, kind, tmp_path):
    task = dataclasses.replace(sb3_tasks.beam, make_env=lambda **options: kind())
    task = task.with_training(n_units=1, student=students[name])
    store = tmp_path / "a.sqlite"
    comparison = compare(task, {"back": Fixed("back")}, n_students=1, store=store, execution=tiny.HERE)
    assert comparison.transcripts["back"][0].error is None
    space, actor = kind.observation_space, comparison.student("back")
    seen = gymnasium.spaces.flatten(space, space.sample()) if kind is sb3_tasks.Labelled else np.array(space.sample())
    assert actor.predict(seen) in kind.action_space
    assert len(actor.predict(np.stack([seen, seen]))) == 2
    if seen.shape:
        with pytest.raises(ConfigError, match="this student sees"):
            actor.predict(np.zeros((2, 9)))


def test_driven_steps_of_episodes_that_are_cut_off_count():
    drive = Intervention(
        name="back", trigger=lambda s: abs(s[..., 0]) > 0.3, reset=Drive(lambda s: -np.sign(s[..., :1])), tau=0.1
    )
    task = dataclasses.replace(sb3_tasks.beam, interventions=(drive,), horizon=50)
    task = task.with_training(
        n_units=1, student=dataclasses.replace(students["PPO"], settings=sb3_tasks.settings["PPO"])
    )
    (unit,) = compare(task, {"back": Fixed("back")}, n_students=1, execution=tiny.HERE).transcripts["back"][0].units
    assert unit.driven >= unit.rescues > 0


def test_a_learner_that_breaks_ends_its_student_with_its_error():
    student = dataclasses.replace(students["PPO"], settings={**students["PPO"].settings, "learning_rate": 1e30})
    batch = Batch(name="b", students=(StudentSpec(name="b", policy=Fixed("SR1"), config=student, seed=7),))
    events = list(train(make_setup(sb3_tasks.lake.with_training(student=student)), batch, None))
    assert "Student 'b': while it learned in unit 1: ValueError: Expected parameter" in events[-1].errors[0].message


def test_settings_that_make_no_student_get_one_line():
    with pytest.raises(ConfigError, match="give MlpPolicy or CnnPolicy"):
        SB3Student("PPO", policy="MultiInputPolicy")
    with pytest.raises(ConfigError, match="give one of A2C, DDPG, DQN, PPO, SAC, TD3"):
        SB3Student("PP0")
    with pytest.raises(ConfigError, match="cisr gives that itself"):
        SB3Student("PPO", settings={"seed": 3})
    with pytest.raises(ConfigError, match="are no JSON"):
        SB3Student("PPO", settings={"learning_rate": lambda progress: progress})
    for student, said in (
        (SB3Student("PPO", settings={"learning_rat": 1e-3}), "learning_rat"),
        (SB3Student("SAC"), "SAC students act in Box spaces alone, those of A2C and PPO in all"),
        (SB3Student("DQN", settings={"n_steps": 3}), "n_steps=3"),
        (SB3Student("PPO", settings={"policy_kwargs": {"activation_fn": "sin"}}), "give one of relu, tanh"),
        (SB3Student("PPO", settings={"policy_kwargs": [64, 64]}), "cannot be made"),
        (SB3Student("DQN", settings={"buffer_size": "large"}), "cannot be made"),
    ):
        with pytest.raises(ConfigError, match=said):
            compare(sb3_tasks.lake, {"SR1": Fixed("SR1")}, student=student, n_students=1, execution=tiny.HERE)


def test_weights_that_are_not_of_this_student_get_one_line():
    (first, *_), _ = taught("DQN")
    for key, array in (("policy/q_net.q_net.0.weight", np.zeros((1, 3))), ("count/buffer", np.array([[10**6, 0]]))):
        with pytest.raises(StoreError, match="none of a DQN student"):
            taught("DQN", first._replace(weights={**first.weights, key: array}))


def test_the_command_line_names_students_of_other_libraries():
    task = get_task("frozen-lake", "quick", "sb3:PPO")
    assert task.training.student == SB3Student.like(get_task("frozen-lake", "quick").training.student, "PPO")
    assert task.training.student.steps_per_unit == 9216
    with pytest.raises(ConfigError, match="give one of A2C"):
        get_task("frozen-lake", "quick", "sb3:TRPO")


@pytest.mark.parametrize("name", ["PPO", "DQN", "SAC"])
def test_a_student_killed_at_a_random_moment_gives_the_same_store(name, tmp_path):
    def words(store):
        return [
            *("compare", f"sb3_tasks:{name}", SWITCHING[name][0], "none", "--students", "1", "--workers", "0"),
            *("--store", str(tmp_path / store)),
        ]

    def run_here(store):
        """Only who is killed needs a process of its own, which takes seconds to begin with."""
        with pytest.raises(SystemExit) as end:
            main(words(store))
        assert not end.value.code

    moments = random.Random(name)
    running = subprocess.Popen(
        [sys.executable, "-m", "cisr", *words("killed")],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wanted = moments.randrange(1, 5)
    while units_on_disk(tmp_path / "killed") < wanted and running.poll() is None:
        time.sleep(0.02)
    time.sleep(moments.random() * 0.3)
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    run_here("killed")
    run_here("calm")
    assert cells(tmp_path / "killed") == cells(tmp_path / "calm")


@pytest.mark.parametrize(
    ("student", "steps"),
    [
        (SB3Student("DQN", settings={"train_freq": 100}, steps_per_round=64), 100),
        (SB3Student("DQN", steps_per_round=65, n_envs=2), 72),
        (SB3Student("PPO", settings={"n_steps": 32}, steps_per_round=65, n_envs=2), 128),
        (SB3Student("SAC", settings={"train_freq": [7, "episode"]}, steps_per_round=64), 64 + 7 * 40),
    ],
)
def test_buffers_and_schedules_are_made_for_the_steps_that_a_round_really_takes(student, steps):
    assert steps_of_round(student, longest=40) == steps
