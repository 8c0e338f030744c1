"""Loops over steps as kernels: in this processor's code, and in a GPU's run instruction by instruction, against JAX."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ptx_machine import run_ptx

from cisr.kernels import steps as kernels
from cisr.kernels.apart import CannotSayError
from cisr.kernels.steps import CpuKernel, GpuKernel, step_kernels, threads_per_block

pytest.importorskip("llvmlite", reason="kernels of a CPU need llvmlite")

S, T, E = 3, 5, 2


class Interpreted(GpuKernel):
    """A GPU's kernel without a GPU."""

    def _try_out(self):
        pass

    def _as_array(self, array, leaf):
        return np.ascontiguousarray(np.asarray(array, leaf.dtype).reshape(-1, *leaf.shape))

    def _launch(self, sizes, n_steps, arrays):
        s, _, e = sizes
        results = [np.zeros(*leaf) for leaf in self._shapes(sizes)]
        given = [np.array([s * e, e, n_steps], np.int32), *arrays]
        run_ptx(self.text, given, [r for r in results if r.size], s * e)
        return results


def by_jax(step, shared, start, given):
    """The same by JAX's own loop, for each student and environment."""

    def one(shared, start, given):
        return jax.lax.scan(lambda state, x: step(shared, state, x), start, given)

    return jax.vmap(jax.vmap(one, (None, 0, 1), (0, 1)))(shared, start, given)


def example(tree, axes):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[axes:], leaf.dtype), tree)


def all_ways(step, shared, start, given):
    """JAX's result, the processor's and the GPU's."""
    described = step, example(shared, 1), example(start, 2), example(given, 3)
    yield by_jax(step, shared, start, given)
    for kind in (CpuKernel, Interpreted):
        yield kind(*described)(shared, start, given)


def numbers(*shape, seed=0, spread=1.0):
    return np.random.default_rng(seed).normal(0, spread, shape).astype(np.float32)


def check(step, shared, start, given, tolerance=1e-6):
    expected, *others = all_ways(step, shared, start, given)
    for found in others:
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            assert np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    cpu, gpu = others
    for a, b in zip(jax.tree.leaves(cpu), jax.tree.leaves(gpu), strict=True):
        assert np.array_equal(a, b, equal_nan=True)  # to the last bit
        assert np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0]))


def once(function, *columns, tolerance=1e-6):
    """A function of single numbers, at one step of each environment."""

    def step(shared, state, given):
        return state, function(*given)

    given = tuple(np.broadcast_to(column, (1, 1, len(column))) for column in columns)
    check(step, (), (), given, tolerance)


def test_states_go_on_and_results_are_kept_of_every_step_environment_and_student():
    def step(shared, state, given):
        total, count, flag = state
        total = total * shared["keep"] + given[0].sum() + jnp.where(flag, 1.0, 0.0)
        flag = (given[1] > 2) ^ flag
        return (total, count + given[1], flag), (total, count, flag, given[0][::-1])

    shared = {"keep": numbers(S)}
    start = numbers(S, E), np.arange(S * E, dtype=np.int32).reshape(S, E), np.array([[True, False]] * S)
    given = numbers(S, T, E, 3), np.random.default_rng(1).integers(0, 5, (S, T, E)).astype(np.int32)
    check(step, shared, start, given)


def test_networks_are_products_of_matrices_whatever_their_size():
    def step(shared, state, seen):
        hidden = jnp.tanh(seen @ shared["w"] + shared["b"])
        hidden = jax.nn.relu(hidden @ shared["v"])
        return state, (hidden @ shared["u"], jax.nn.log_softmax(hidden @ shared["u"]), jnp.argmax(hidden))

    shared = {"w": numbers(S, 4, 20), "b": numbers(S, 20), "v": numbers(S, 20, 12), "u": numbers(S, 12, 3)}
    check(step, shared, (), numbers(S, T, E, 4), tolerance=1e-5)


def test_loops_and_choices_are_each_environments_own():
    def step(shared, state, x):
        def halve(now):
            return now[0] / 2, now[1] + 1

        left, times = jax.lax.while_loop(lambda now: now[0] > 1, halve, (x, jnp.float32(0)))
        left, times = jax.lax.fori_loop(0, 3, lambda _, ab: (ab[1], ab[0]), (left, times))
        same = jax.lax.cond(times > 0.7, lambda: (left, times), lambda: (times, times))
        picked = jax.lax.switch(times.astype(jnp.int32), [lambda: x, lambda: -x, lambda: 2 * x, lambda: 3 * x])
        return state + same[0], (same, picked)

    check(step, (), numbers(1, 1), np.array([1, 2, 40, 3, 0.1], np.float32).reshape(1, 5, 1))


HALVES = (0.5, 1.5, -0.5)
FUNCTIONS = {
    "sin": (jnp.sin, np.sin, np.linspace(-20, 20, 401)),
    "cos": (jnp.cos, np.cos, np.linspace(-20, 20, 401)),
    "exp": (jnp.exp, np.exp, np.linspace(-87, 88.5, 401)),
    "exp2": (jnp.exp2, np.exp2, np.linspace(-126, 127.5, 401)),
    "tanh": (jnp.tanh, np.tanh, np.concatenate([np.linspace(-10, 10, 401), [1e-30, -1e-7]])),
    "log": (jnp.log, np.log, np.geomspace(1e-38, 1e38, 401)),
    "log1p": (jnp.log1p, np.log1p, np.concatenate([np.geomspace(1e-30, 1e38, 401), np.linspace(-0.99, 1, 101)])),
    "log2": (jnp.log2, np.log2, np.geomspace(1e-38, 1e38, 401)),
    **{f"to the {y}": (lambda x, y=y: x**y, lambda x, y=y: x**y, np.geomspace(1e-20, 1e20, 201)) for y in HALVES},
    "logistic": (jax.nn.sigmoid, lambda x: 1 / (1 + np.exp(-x)), np.linspace(-80, 20, 401)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_right_to_the_last_digits(name):
    function, exact, x = FUNCTIONS[name]
    x = x.astype(np.float32)
    described = lambda shared, state, x: (state, function(x)), (), (), jax.ShapeDtypeStruct((), jnp.float32)
    expected = exact(x.astype(float))
    found, again = (kind(*described)((), (), x.reshape(1, 1, -1))[1].ravel() for kind in (CpuKernel, Interpreted))
    assert np.array_equal(found, again)
    least = 1e-7 if name in ("sin", "cos", "log", "log2") else 0  # near their zeros digits are absolute
    assert (abs(found - expected) <= 3e-7 * abs(expected) + least).all()


def test_what_rounds_rounds_as_jax_does():
    x = np.concatenate([np.linspace(-5, 5, 41), [1e-30, 3e9]]).astype(np.float32)
    once(lambda x: (jnp.sqrt(x), jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.sign(x), jnp.square(x), x**3, x**-2), x)


def test_a_power_of_a_third_is_refused():
    with pytest.raises(CannotSayError, match=r"powers of 0\.3333"):
        CpuKernel(lambda shared, state, x: (state, x ** (1 / 3)), (), (), jax.ShapeDtypeStruct((), jnp.float32))


def test_powers_of_two_are_exact():
    exponents = np.arange(-126, 128, dtype=np.float32).reshape(1, 1, -1)
    kernel = CpuKernel(lambda shared, state, x: (state, 2**x), (), (), jax.ShapeDtypeStruct((), jnp.float32))
    assert (kernel((), (), exponents)[1] == np.ldexp(np.float32(1), exponents.astype(int))).all()


def test_what_is_no_number_and_what_is_infinite_stay_so():
    odd = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e-30, 3e38])
    once(lambda x: (x**0.5, x**-0.5, x**2.5, x**-1.5), odd[:-2])
    once(lambda x: (jnp.exp(x), jnp.log(x), jnp.tanh(x), jnp.log1p(x), jnp.sqrt(x), jnp.isnan(x)), odd)
    once(lambda x: (jnp.isfinite(x), jnp.minimum(x, 1), jnp.maximum(1, x), jnp.clip(x, -1, 1), x == x, x != x), odd)
    once(lambda x: jnp.where(jnp.isfinite(x), x, 0).astype(jnp.int32), odd[:-1])


def test_remainders_have_the_sign_that_they_should():
    a = np.float32([7, -7, 7.5, -7.5, 0, 6.2831855, 1e6, -0.1, 0.3, 6])
    b = np.float32([3, 3, -3, 2.5, 3, 3.1415927, 0.7, 0.1, 0.1, 3])
    once(lambda a, b: (jax.lax.rem(a, b), a % b), a, b, tolerance=1e-5)
    whole = np.int32([7, -7, 0, 9, -9])
    once(lambda n: (jax.lax.rem(n, jnp.int32(4)), n % 4, abs(n), -n, n * n, jnp.minimum(n, 3)), whole)


def test_remainders_are_exact_however_far_apart_the_two_are():
    a = np.float32([5, -5, 1e8, 1e7, 1e10, 1e20, 3e38, -6, np.inf, 5, np.nan, 1e-40, -3e38, 7])
    b = np.float32([np.inf, np.inf, 0.7, 0.1, 0.7, 3, 1e-3, 3, 2, 0, 1, 3e-42, 1e-45, -np.inf])
    kinds = [kind(*remainder_of(a, b)) for kind in (CpuKernel, Interpreted)]
    for kernel in kinds:
        found = kernel((), (), (a.reshape(1, 1, -1), b.reshape(1, 1, -1)))[1].ravel()
        with np.errstate(invalid="ignore"):
            expected = np.fmod(a, b)
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.array_equal(np.signbit(found[:-1]), np.signbit(expected[:-1]))


def remainder_of(a, b):
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    return (lambda shared, state, given: (state, jax.lax.rem(*given))), (), (), (shape, shape)


def test_whole_numbers_divide_as_in_jax_by_zero_too():
    least = -(2**31)
    a = np.int32([7, -7, 7, 0, least, least, least, 5, -5, 2**31 - 1])
    b = np.int32([0, 0, -1, 0, -1, 0, 7, 3, 3, -1])
    once(lambda a, b: (jax.lax.div(a, b), jax.lax.rem(a, b)), a, b)
    once(lambda a: (jax.lax.div(a, jnp.int32(0)), jax.lax.div(a, jnp.int32(-1)), jax.lax.rem(a, jnp.int32(-3))), a)
    once(lambda a: (-a, abs(a), ~a, a ^ jnp.int32(5), a + a, a * a), a)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 40, -1])
def test_bits_shifted_out_are_gone(n):
    whole = np.int32([7, -7, 1, 0])
    once(lambda a: (jax.lax.shift_left(a, jnp.int32(n)), a + jax.lax.shift_left(a, jnp.int32(n))), whole)
    once(lambda a: jnp.where(a > 5, jax.lax.shift_left(a, jnp.int32(n)), a), whole)


def test_what_is_no_number_is_the_extreme():
    rows = np.float32(
        [[1, np.nan, 3], [3, 1, np.nan], [np.nan, np.nan, 1], [1, 3, 3], [np.inf, 1, np.nan], [-0.0, 0, 0]]
    )
    check(lambda shared, state, x: (state, (jnp.argmax(x), jnp.argmin(x))), (), (), rows.reshape(1, 1, *rows.shape))


def test_what_a_choice_asks_may_be_asked_again():
    branches = [lambda v: v, lambda v: -v, lambda v: v * v, lambda v: v + 1]

    def step(shared, state, n):
        first = jax.lax.switch(n, branches, state)
        again = jax.lax.switch(n, branches, first)
        return again, (first, jax.lax.clamp(0, n, 3) != 1, jnp.where(jax.lax.clamp(0, n, 3) != 2, 1, 2))

    check(step, (), numbers(1, 1), np.int32([0, 2, 0, 1, 3, 0, 2, 0, 7, -4]).reshape(1, -1, 1))


def test_rows_may_be_of_truths_and_of_constants_that_differ_in_their_sign_alone():
    shared = {"w": numbers(S, 3, 8)}

    def step(shared, state, x):
        row = x @ shared["w"]
        signs = np.float32([0.0, -0.0] * 4)
        return state, (row > 0, (row > 0).any(), (row > 0).sum(), row / signs)

    check(step, shared, (), numbers(S, T, E, 3))


def test_rows_may_be_of_doubles():
    shared = {"w": numbers(S, 3, 8)}

    def step(shared, state, x):
        with jax.enable_x64(True):
            return state, ((x @ shared["w"]).astype(jnp.float64) * 2)[::-1].astype(jnp.float32)

    check(step, shared, (), numbers(S, T, E, 3), tolerance=1e-5)


def test_constants_are_converted_as_jax_does():
    odd, whole = (
        np.float32([np.inf, -np.inf, np.nan, 3e9, -3e9, 2.9, -2.9, 0, 2**31, -(2**31), 2**32]),
        np.int32([1, -3]),
    )
    once(lambda n: jnp.array(odd).astype(jnp.int32) * n, whole)
    once(lambda n: jnp.array(odd).astype(jnp.uint32).astype(jnp.int32) + n, whole)
    once(lambda n: (jnp.array([2**31 - 1]) + jnp.int32(1)) * jnp.array([2]) + n, whole)


def test_rows_that_are_used_again_and_again_are_computed_once():
    shared = {"w": numbers(S, 3, 8) / 4}

    def step(shared, state, x):
        row = jax.nn.sigmoid(x @ shared["w"])
        for _ in range(30):
            row = row * (1 - row) * 2
        return state, row

    check(step, shared, (), numbers(S, T, E, 3), tolerance=1e-5)


def test_sines_of_angles_without_digits_are_no_numbers():
    x = np.float32([2.1e9, -2.1e9, 2.2e9, 1e10, -1e18, 3e38, np.inf, np.nan])
    described = (
        lambda shared, state, x: (state, (jnp.sin(x), jnp.cos(x))),
        (),
        (),
        jax.ShapeDtypeStruct((), jnp.float32),
    )
    for kind in (CpuKernel, Interpreted):
        for found, exact in zip(kind(*described)((), (), x.reshape(1, 1, -1))[1], (np.sin, np.cos), strict=True):
            assert abs(found.ravel()[:2] - exact(x[:2].astype(float))).max() < 1e-6
            assert np.isnan(found.ravel()[2:]).all()


def test_truths_are_compared_and_counted():
    x = numbers(6)

    def step(shared, state, x):
        p, q = x > 0, x > 0.5
        verdicts = jnp.stack([p, q, p & q, p | q, ~p])
        return state, (verdicts.any(), verdicts.all(), p < q, p >= q, p == q, jnp.argmax(verdicts), verdicts.sum())

    check(step, (), (), x.reshape(1, -1, 1))


def test_arrays_may_be_empty_and_states_too():
    def step(shared, state, given):
        return state, given[0] * 2

    check(step, (), (np.zeros((S, E, 0), np.float32),), (numbers(S, T, E), numbers(S, T, E, 0)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.astype(jnp.float16).astype(jnp.float32),
        lambda x: jax.lax.round(x),
        lambda x: jnp.arctan2(x, x),
        lambda x: x**x,
        lambda x: jnp.cumsum(jnp.stack([x, x])),
        lambda x: jnp.arange(10_000.0)[3] * x + (np.arange(10_000, dtype=np.float32) * x).sum(),
        lambda x: jax.random.uniform(jax.random.key(0)) + x,
        lambda x: jax.lax.scan(lambda c, y: (c + y, c), x, jnp.ones(3))[1],
        lambda x: jnp.stack([x, x])[x.astype(jnp.int32)],
        lambda x: (jnp.float32(3).astype(jnp.bfloat16) * jnp.bfloat16(0.1)).astype(jnp.float32) + x,
        lambda x: jnp.dot(*[x.astype(jnp.int32)[None]] * 2, preferred_element_type=jnp.float32),
        lambda x: jax.lax.shift_left(jnp.int32(1), x.astype(jnp.int32)),
        lambda x: jax.vmap(lambda y: jax.lax.while_loop(lambda z: z > 1, lambda z: z / 2, y))(jnp.stack([x, 2 * x])),
    ],
    ids=[
        "half",
        "round",
        "arctan2",
        "power",
        "cumsum",
        "constants",
        "random",
        "scan",
        "index",
        "bfloat",
        "whole product",
        "shift",
        "loops",
    ],
)
def test_what_a_kernel_cannot_say_is_refused_while_it_is_written(wrong):
    with pytest.raises(CannotSayError):
        CpuKernel(lambda shared, state, x: (state, wrong(x)), (), (), jax.ShapeDtypeStruct((), jnp.float32))


def test_where_no_kernel_can_be_written_there_is_none_and_that_is_said(caplog):
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    fine = (lambda shared, state, x: (state, x + 1), (), (), shape)
    wrong = (lambda shared, state, x: (state, jnp.arctan2(x, x)), (), (), shape)
    with caplog.at_level(logging.INFO, logger="cisr"):
        assert step_kernels("Task 'a'", fine) is not None
        assert step_kernels("Task 'b'", fine, wrong) is None
    assert [record.message for record in caplog.records] == [
        "Task 'b' cannot be one kernel here, and runs as plain XLA, slower: 'atan2' of f32."
    ]


def test_on_a_gpu_that_cannot_run_them_plain_xla_does_and_a_warning_says_so(monkeypatch, caplog):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with caplog.at_level(logging.WARNING):
        assert step_kernels("Task 'a'", (lambda a, b, x: (b, x), (), (), jax.ShapeDtypeStruct((), jnp.float32))) is None
    (record,) = caplog.records
    assert record.levelname == "WARNING" and record.message.startswith("Task 'a' cannot be one kernel here")


def test_other_devices_and_processors_without_llvmlite_have_none(monkeypatch):
    step = (lambda a, b, x: (b, x), (), (), jax.ShapeDtypeStruct((), jnp.float32))
    monkeypatch.setattr(kernels, "installed", lambda name: False)
    assert step_kernels("Task 'a'", step) is None
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert step_kernels("Task 'a'", step) is None


def test_what_was_compiled_is_kept_and_damage_or_a_full_disk_do_no_harm(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "cache_folder", lambda what: tmp_path / what)
    described = (lambda shared, state, x: (state, x + 1), (), (), jax.ShapeDtypeStruct((), jnp.float32))
    x = numbers(1, 2, 1)

    def works():
        return (CpuKernel(*described)((), (), x)[1] == x + 1).all()

    assert works()
    (kept,) = (tmp_path / "kernels").iterdir()
    code = kept.read_bytes()
    assert works() and kept.read_bytes() == code
    kept.write_bytes(code[: len(code) // 2])
    assert works() and kept.read_bytes() == code
    kept.write_bytes(b"")
    assert works()
    monkeypatch.setattr(kernels, "cache_folder", lambda what: kept / what)  # no folder can be made there
    assert works()


def test_few_environments_are_spread_over_all_processors_of_a_gpu():
    assert [threads_per_block(n) for n in (1, 396, 397, 1440, 100_000)] == [1, 1, 2, 4, 32]


def test_xla_is_handed_a_kernel_for_as_many_environments_as_there_are():
    kernel = object.__new__(GpuKernel)
    monkey = Interpreted(lambda shared, state, x: (state, x + 1), (), (), jax.ShapeDtypeStruct((), jnp.float32))
    kernel.__dict__.update(monkey.__dict__)
    program = jax.jit(lambda x: kernel((), (), x)).trace(jnp.zeros((70, 5, 6))).lower(lowering_platforms=("cuda",))
    text = program.as_text()
    assert "__gpu$xla.gpu.ptx" in text and "grid_x = 210 " in text and "block_x = 2 " in text
