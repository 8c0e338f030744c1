"""A step, and a beginning, of many landers as one kernel of a GPU each.

As plain XLA each of a step's 180 iterations would start its kernels anew, which is all that would take time. The
kernels are written from the same source as XLA's program (`ptx`), and XLA is handed their text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cisr.core.errors import described
from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics import ptx
from cisr.tasks.lunar_lander.physics.ptx import THREADS, Shapes
from cisr.tasks.lunar_lander.physics.rows import begin_rows, step_rows
from cisr.tasks.lunar_lander.physics.terrain import N_UNIFORMS
from cisr.tasks.lunar_lander.physics.world import N_NUMBERS

log = logging.getLogger(__name__)

STEP: tuple[Shapes, Shapes] = ((N_NUMBERS,), (), (2,)), ((N_NUMBERS,), (), ())
BEGIN: tuple[Shapes, Shapes] = ((N_UNIFORMS,), (2,)), ((N_NUMBERS,),)
"""What a lander gives to the kernel, and what it gets."""


def step_kernel(numbers: Array, action: Array, dispersion: Array) -> tuple[Array, ...]:
    """`step_rows` of landers that stand on the first axis: (B, n), (B,) and (B, 2)."""
    return _launch("step", step_rows, *STEP, numbers, action.astype(jnp.float32), dispersion)


def begin_kernel(terrain: Array, force: Array) -> tuple[Array, ...]:
    """`begin_rows` of landers that stand on the first axis: (B, 12) and (B, 2)."""
    return _launch("begin", begin_rows, *BEGIN, terrain, force)


@cache
def kernels_work() -> bool:
    """Whether JAX's default device is a GPU that runs them: both are run once, because a driver reads them no earlier.
    Where it does not, that is said once."""
    if jax.default_backend() != "gpu":
        return False
    try:
        for kernel, (ins, _) in ((begin_kernel, BEGIN), (step_kernel, STEP)):
            program = jax.jit(kernel).lower(*(_like(1, *shape) for shape in ins)).compile()
            jax.block_until_ready(program(*(np.zeros((1, *shape), np.float32) for shape in ins)))  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever XLA, the driver or another maker's GPU complain about
        log.warning("The lander's kernels cannot be built, so it runs as plain XLA, far slower: %s", described(error))
        return False
    return True


def _launch(name: str, function: Callable[..., Any], ins: Shapes, outs: Shapes, *arrays: Array) -> tuple[Array, ...]:
    n = len(arrays[0])
    call = jax.ffi.ffi_call("__gpu$xla.gpu.ptx", [_like(n, *shape) for shape in outs])
    return tuple(
        call(
            *arrays,
            name=name,
            kernel_type="ptx",
            kernel_data=_text(name, function, ins, outs)(n),
            **{f"{what}_{axis}": 1 for what in ("grid", "block") for axis in "yz"},
            grid_x=-(-n // THREADS),
            block_x=THREADS,
            shared_mem_bytes=0,
            output_indices=tuple(range(len(ins), len(ins) + len(outs))),
        )
    )


@cache
def _text(name: str, function: Callable[..., Any], ins: Shapes, outs: Shapes) -> Callable[[int], str]:
    return ptx.kernel(name, function, ins, outs)


def _like(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
