"""The lander's kernels, run instruction by instruction, against the source that they are written from, run by NumPy."""

import logging
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ptx_machine import run_ptx

from cisr.tasks.lunar_lander.jax_env import LanderJaxEnv
from cisr.tasks.lunar_lander.physics import kernel, ptx
from cisr.tasks.lunar_lander.physics.by_numpy import by_numpy
from cisr.tasks.lunar_lander.physics.kernel import BEGIN, STEP, step_kernel
from cisr.tasks.lunar_lander.physics.ptx import THREADS
from cisr.tasks.lunar_lander.physics.rows import begin_rows, by_rows, step_rows
from cisr.tasks.lunar_lander.physics.world import N_NUMBERS, of_rows, pack, unpack


@pytest.fixture(scope="module")
def step_text():
    return ptx.kernel("step", step_rows, *STEP)


@pytest.fixture(scope="module")
def begin_text():
    return ptx.kernel("begin", begin_rows, *BEGIN)


def beginnings(n):
    rng = np.random.default_rng(0)
    return rng.random((n, 12), np.float32), 2 * rng.random((n, 2), np.float32) - 1


def by_kernel(text, *arrays, outs):
    n = len(arrays[0])
    return run_ptx(text(n), list(arrays), [(n, *shape) for shape in outs], THREADS)


def lowered(numbers, drop, spin):
    """Landers put down to shortly above the pad, falling and turning."""
    world = unpack(numbers)
    low = world.legs.y.min(axis=0) - 3.3 - 0.3

    def put(body):
        return body._replace(y=body.y - low, vx=body.vx * 0, vy=body.vy * 0 - drop, spin=body.spin * 0 + spin)

    return pack(world._replace(hull=put(world.hull), legs=put(world.legs)))


def test_who_begins_begins_as_in_the_source_and_who_does_not_costs_nothing(begin_text):
    terrain, force = beginnings(3)
    terrain[1] = -1
    with by_numpy():
        (expected,) = by_rows(begin_rows)(terrain, force)
    (begun,) = by_kernel(begin_text, terrain, force, outs=BEGIN[1])
    assert (begun[1] == 0).all()
    assert np.allclose(begun[[0, 2]], expected[[0, 2]], atol=1e-5)
    with by_numpy():
        (nobody,) = by_rows(begin_rows)(terrain[1:2], force[1:2])
    assert (nobody == 0).all()


def test_steps_in_flight_at_impact_and_on_the_ground_are_those_of_the_source(step_text):
    n, rng = 4, np.random.default_rng(1)
    drop, spin = np.float32([0.5, 1.5, 3.0, 9.0]), np.float32([0.3, -0.5, 0.1, -3.0])
    met, apart, ends = [], [], []
    with by_numpy():
        (start,) = by_rows(begin_rows)(*beginnings(n))
        now = lowered(start, drop, spin)
        for k in range(20):
            action, dispersion = np.float32(rng.integers(0, 4, n)), 2 * rng.random((n, 2), np.float32) - 1
            expected = by_rows(step_rows)(now, action, dispersion)
            if k in (0, 5, 12, 19):
                after = by_kernel(step_text, now, action, dispersion, outs=STEP[1])
                ours, theirs = unpack(after[0]), unpack(expected[0])
                for mine, its in ((ours.hull, theirs.hull), (ours.legs, theirs.legs), (ours.joints, theirs.joints)):
                    assert np.allclose(mine, its, atol=1e-4, rtol=1e-4)
                assert (after[1] == expected[1]).all() and (after[2] == expected[2]).all()
                met.append((theirs.contacts.id_1 >= 0).any(axis=(0, 1)))
                assert expected[0].dtype == np.float32
                apart.append(np.abs(after[0] - expected[0]).max(axis=-1))
            ends.append(expected[1])
            now = np.where(expected[1][:, None] > 0, lowered(start, drop, spin), expected[0])
    assert 0.2 < np.mean(met) < 1  # in the air and on the ground
    assert np.median(apart) == 0  # what differs comes from how sines are rounded
    assert np.any(ends)


def test_sines_are_right_to_the_last_digits():
    def both(angle):
        return jnp.sin(angle), jnp.cos(angle)

    angles = np.linspace(-20, 20, 400, dtype=np.float32)
    sine, cosine = by_kernel(ptx.kernel("sines", both, ((),), ((), ())), angles, outs=((), ()))
    assert np.abs(sine - np.sin(angles.astype(float))).max() < 1.2e-7
    assert np.abs(cosine - np.cos(angles.astype(float))).max() < 1.2e-7


def test_loops_and_choices_are_each_threads_own():
    def halve(x):
        def once(state):
            return state[0] / 2, state[1] + 1

        left, times = jax.lax.while_loop(lambda s: (s[0] > 1).any(), once, (x, jnp.zeros_like(x)))
        swapped = jax.lax.fori_loop(0, 3, lambda _, ab: (ab[1], ab[0]), (left, times))
        return jax.lax.cond((times > 2).any(), lambda: swapped, lambda: (left, times))

    counts = by_kernel(ptx.kernel("halve", halve, ((),), ((), ())), np.float32([1, 2, 40]), outs=((), ()))
    assert counts[0].tolist() == [1, 1, 6] and counts[1].tolist() == [0, 1, 0.625]


def test_what_a_kernel_cannot_say_is_refused_while_it_is_written():
    for wrong in (
        lambda x: (x.astype(jnp.float16).astype(jnp.float32),),
        lambda x: (jnp.where((x > 0) < (x > 1), x, 0),),
        lambda x: (jax.lax.round(x),),
        lambda x: (x > 0,),
        lambda x: (x + np.ones(x.shape, np.float32),),
    ):
        with pytest.raises((KeyError, AssertionError)):
            ptx.kernel("wrong", wrong, ((),), ((),))


def test_sensors_of_landers_that_do_not_begin_sense_nothing():
    env = LanderJaxEnv(sensor_variance=0.1)
    with by_numpy():
        (start,) = by_rows(begin_rows)(*beginnings(1))
    assert np.isfinite(env._shown(jnp.asarray(start), jnp.full((1, 2), -1.0)).sensed).all()


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="there is no ptxas, which assembles kernels")
def test_the_kernels_assemble(step_text, begin_text, tmp_path):
    for text in (step_text, begin_text):
        (tmp_path / "kernel.ptx").write_text(text(64))
        subprocess.run(["ptxas", "-arch=sm_90", "kernel.ptx", "-o", "kernel.cubin"], cwd=tmp_path, check=True)


def test_xla_is_handed_a_kernel_for_as_many_landers_as_there_are():
    arrays = jnp.zeros((70, N_NUMBERS)), jnp.zeros(70, jnp.int32), jnp.zeros((70, 2))
    program = jax.jit(step_kernel).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    assert "__gpu$xla.gpu.ptx" in program and "grid_x = 3 " in program and ", 70;" in program


def test_where_kernels_cannot_be_built_that_is_said_once_and_plain_xla_flies(monkeypatch, caplog):
    assert not kernel.kernels_work()  # nothing to say where there is no GPU
    kernel.kernels_work.cache_clear()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    try:
        with caplog.at_level(logging.WARNING):
            assert not kernel.kernels_work() and not kernel.kernels_work()
    finally:
        kernel.kernels_work.cache_clear()
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "The lander's kernels cannot be built, so it runs as plain XLA, far slower"
    ]


def test_a_world_is_rows_and_back():
    rows = np.arange(N_NUMBERS * 2, dtype=np.float32).reshape(N_NUMBERS, 2)
    assert (pack(of_rows(rows)) == rows.T).all()
