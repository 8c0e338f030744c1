"""The lander's kernel, in this processor's code and in a GPU's, against the source that it is written from."""

import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ptx_machine import run_ptx

from cisr.kernels.steps import CpuKernel, GpuKernel
from cisr.tasks import get_task
from cisr.tasks.lunar_lander.jax_env import LanderJaxEnv
from cisr.tasks.lunar_lander.physics.by_numpy import by_numpy
from cisr.tasks.lunar_lander.physics.rows import begin_rows, step_rows
from cisr.tasks.lunar_lander.physics.world import N_NUMBERS, of_rows, pack, to_rows, unpack
from cisr.training.cohort import Cohort

pytest.importorskip("llvmlite", reason="kernels of a CPU need llvmlite")

N = 12


def single(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def step(shared, world, given):
    action, dispersion = given
    after, crashed, asleep = step_rows(world, action, dispersion)
    return after, (crashed, asleep)


DESCRIBED = step, (), single(N_NUMBERS), (single(), single(2))


class Interpreted(GpuKernel):
    def _try_out(self):
        pass


@pytest.fixture(scope="module")
def native():
    return CpuKernel(*DESCRIBED)


@pytest.fixture(scope="module")
def start():
    rng = np.random.default_rng(0)
    terrain, force = rng.random((12, N), np.float32), 2 * rng.random((2, N), np.float32) - 1
    with by_numpy():
        (begun,) = begin_rows(terrain, force)
    return begun


def lowered(rows, seed):
    """Landers put down to shortly above the ground, falling and turning."""
    rng = np.random.default_rng(seed)
    drop, spin, aside = rng.choice([0.5, 1.5, 3.0, 9.0], N), rng.normal(0, 0.5, N), rng.choice([0.0, 0.0, 4.0, -6.0], N)
    world = of_rows(rows)
    low = np.float32(world.legs.y.min(axis=0) - 3.3 - 0.3)

    def put(body):
        return body._replace(
            x=body.x + np.float32(aside),
            y=body.y - low,
            vx=body.vx * 0,
            vy=body.vy * 0 - np.float32(drop),
            spin=body.spin * 0 + np.float32(spin),
        )

    with by_numpy():
        return to_rows(world._replace(hull=put(world.hull), legs=put(world.legs)))


def flights(start, n_steps=60):
    """Worlds, actions and dispersions along flights that touch the ground, and what the source makes of them."""
    rng, now = np.random.default_rng(1), lowered(start, 2)
    with by_numpy():
        for _ in range(n_steps):
            action, dispersion = np.float32(rng.integers(0, 4, N)), 2 * rng.random((2, N), np.float32) - 1
            after = step_rows(now, action, dispersion)
            yield now, action, dispersion, after
            now = np.where(after[1] > 0, lowered(start, 3), after[0])


def test_steps_in_flight_at_impact_and_on_the_ground_are_those_of_the_source(native, start):
    met, apart, ends = [], [], []
    for now, action, dispersion, expected in flights(start):
        after, (crashed, asleep) = native((), now.T[None], (action[None, None], dispersion.T[None, None]))
        ours, theirs = of_rows(after[0].T), of_rows(expected[0])
        for mine, its in ((ours.hull, theirs.hull), (ours.legs, theirs.legs), (ours.joints, theirs.joints)):
            assert np.allclose(mine, its, atol=1e-4, rtol=1e-4)
        assert (crashed.ravel() == expected[1]).all() and (asleep.ravel() == expected[2]).all()
        met.append((theirs.contacts.id_1 >= 0).any(axis=(0, 1)))
        apart.append(np.abs(after[0].T - expected[0]).max(axis=0))
        ends.append(expected[1])
    assert 0.1 < np.mean(met) < 0.9  # in the air and on the ground
    assert np.median(apart) == 0  # what differs comes from how sines are rounded
    assert 0 < np.sum(ends) < N * 20


def test_a_lander_alone_is_the_same_to_the_last_bit_as_among_others(start):
    """Its iterations end as soon as they repeat themselves."""
    for k, (now, action, dispersion, expected) in enumerate(flights(start)):
        if k % 12 == 0:
            with by_numpy():
                for lander in range(N):
                    alone = step_rows(now[:, lander], action[lander], dispersion[:, lander])
                    for mine, its in zip(alone, expected, strict=True):
                        assert (mine == its[..., lander]).all()


def test_a_gpus_instructions_give_the_processors_numbers_to_the_last_bit(native, start):
    text = Interpreted(*DESCRIBED).text
    for k, (now, action, dispersion, _) in enumerate(flights(start)):
        if k in (0, 11, 30):
            after, ends = native((), now.T[None], (action[None, None], dispersion.T[None, None]))
            given = [np.array([N, N, 1], np.int32), now.T, action, dispersion.T]
            results = [np.zeros((N, N_NUMBERS), np.float32), np.zeros(N, np.float32), np.zeros(N, np.float32)]
            run_ptx(text, [np.ascontiguousarray(array) for array in given], results, N)
            assert (results[0] == after[0]).all()
            assert (results[1] == ends[0].ravel()).all() and (results[2] == ends[1].ravel()).all()


def test_who_does_not_begin_costs_nothing(start):
    with by_numpy():
        (nobody,) = begin_rows(np.full((12, 3), -1, np.float32), np.zeros((2, 3), np.float32))
    assert (nobody == 0).all()


def test_sensors_of_landers_that_do_not_begin_sense_nothing(start):
    env = LanderJaxEnv(sensor_variance=0.1)
    assert np.isfinite(env._shown(jnp.asarray(start.T), jnp.full((N, 2), -1.0)).sensed).all()


@pytest.mark.parametrize("kind", ["two-layer", "noisy", "explorer"])
def test_rollouts_and_deployments_of_all_students_are_kernels(kind, monkeypatch):
    """They are written and not compiled, which takes longer."""
    written = []
    monkeypatch.setattr("cisr.training.cohort.step_kernels", lambda what, *steps: written.extend(steps))
    task = get_task("lunar-lander", student=kind)
    assert Cohort(task, task.training.student.shape).kernels is None
    for described in written:
        text = Interpreted(*described).text
        if shutil.which("ptxas") and kind == "noisy":
            run = subprocess.run(["ptxas", "-arch=sm_80", "-o", "/dev/null", "-"], input=text, text=True, check=False)
            assert run.returncode == 0
    assert len(written) == 3


def test_a_world_is_rows_and_back():
    rows = np.arange(N_NUMBERS * 2, dtype=np.float32).reshape(N_NUMBERS, 2)
    assert (pack(of_rows(rows)) == rows.T).all() and (to_rows(unpack(rows.T)) == rows).all()
