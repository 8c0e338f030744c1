"""A loop over the steps of many environments as one kernel: each thread has one environment, from the first step to the
last.

As plain XLA every operation of a step starts a kernel of its own, and every step waits for the slowest environment; for
small environments that is all that takes time. The kernel is written from the same source (`apart`, `ptx`), and XLA is
handed its text.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.core.errors import described
from cisr.core.libraries import installed
from cisr.kernels import ptx
from cisr.kernels.apart import CannotSayError, TakenApart, in_shape, taken_apart
from cisr.kernels.llvm import LlvmProgram
from cisr.kernels.program import BYTES, S32, Cell, Program, Register, kind_of_dtype
from cisr.kernels.ptx import PtxProgram
from cisr.system.compilation import cache_folder

log = logging.getLogger(__name__)

WARP, WARPS_AT_ONCE = 32, 3
"""Threads that go together, and how many such groups a processor has instructions for at once: more of them, each at
another place of a long program, wait for these (measured on an H200)."""
USUAL_PROCESSORS = 132
"""Of a GPU that does not tell."""

Step = Callable[[Any, Any, Any], tuple[Any, Any]]
"""step(shared, state, given) -> (state, result), of one environment"""


class Leaf(NamedTuple):
    """An array that each environment has."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def kind(self) -> str:
        return kind_of_dtype(self.dtype)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        if self.kind not in BYTES:
            raise CannotSayError(f"arrays of {self.kind}")
        return self.size * BYTES[self.kind]


class StepKernel(ABC):
    """Steps of S students in E environments each. What an environment's `shared`, `state` and `given` are is told by
    example, in arrays or shapes; `CannotSayError` where the step cannot be written as a kernel."""

    on_host: ClassVar[bool]
    """Whether it is called with NumPy's arrays, and not within a program of JAX's."""

    def __init__(self, step: Step, shared: Any, state: Any, given: Any) -> None:
        traced = taken_apart(step, shared, state, given)
        self._structure = traced.structure
        self.ins = tuple(_leaves(jax.tree.leaves(tree)) for tree in (shared, state, given))
        results = _leaves(traced.results)
        n = len(self.ins[1])
        self.outs = results[:n], results[n:]
        if self.outs[0] != self.ins[1]:
            raise CannotSayError("a state whose arrays change their shapes or types")
        self.text = _written(self._language(), traced, self.ins, self.outs)

    def __call__(self, shared: Any, start: Any, given: Any) -> tuple[Any, Any]:
        """Arrays of `shared` are (S, ...), of `start` (S, E, ...), of `given` (S, T, E, ...); returns states after the
        last step (S, E, ...) and results of all steps (S, T, E, ...)."""
        trees = [jax.tree.leaves(tree) for tree in (shared, start, given)]
        s, t, e = trees[2][0].shape[:3]
        arrays = [
            self._as_array(array, leaf)
            for leaves, each in zip(self.ins, trees, strict=True)
            for leaf, array in zip(leaves, each, strict=True)
            if leaf.size
        ]
        ended, made = jax.tree.unflatten(self._structure, self._launch((s, t, e), t, arrays))
        return ended, made

    def _shapes(self, sizes: tuple[int, int, int]) -> list[Leaf]:
        """Of all results."""
        s, t, e = sizes
        return [
            Leaf((*axes, *leaf.shape), leaf.dtype)
            for axes, leaves in zip(((s, e), (s, t, e)), self.outs, strict=True)
            for leaf in leaves
        ]

    @abstractmethod
    def _language(self) -> PtxProgram | LlvmProgram: ...
    @abstractmethod
    def _as_array(self, array: Any, leaf: Leaf) -> Any: ...
    @abstractmethod
    def _launch(self, sizes: tuple[int, int, int], n_steps: int, arrays: Sequence[Any]) -> list[Any]: ...


class GpuKernel(StepKernel):
    """One thread for each environment; XLA is handed the text."""

    on_host = False

    def __init__(self, step: Step, shared: Any, state: Any, given: Any) -> None:
        super().__init__(step, shared, state, given)
        self._try_out()

    def _language(self) -> PtxProgram:
        return PtxProgram()

    def _as_array(self, array: Any, leaf: Leaf) -> Any:
        return jnp.asarray(array, leaf.dtype).reshape(-1, *leaf.shape)

    def _try_out(self) -> None:
        """Have the driver read it, which it does no earlier than it must: it is launched for no step at all."""
        examples = [np.zeros((1, *leaf.shape), leaf.dtype) for leaves in self.ins for leaf in leaves if leaf.size]
        launch = jax.jit(lambda *arrays: self._launch((1, 1, 1), 0, arrays)).lower(*examples).compile()
        jax.block_until_ready(launch(*examples))  # type: ignore[no-untyped-call]

    def _launch(self, sizes: tuple[int, int, int], n_steps: int, arrays: Sequence[Any]) -> list[Any]:
        s, _, e = sizes
        n, per_block = s * e, threads_per_block(s * e)
        shapes = [jax.ShapeDtypeStruct(*leaf) for leaf in self._shapes(sizes)]  # type: ignore[no-untyped-call]
        made = [shape for shape in shapes if math.prod(shape.shape)]
        n_in = 1 + len(arrays)
        call = jax.ffi.ffi_call("__gpu$xla.gpu.ptx", made)
        results = iter(
            call(
                np.array([n, e, n_steps], np.int32),
                *arrays,
                name=ptx.NAME,
                kernel_type="ptx",
                kernel_data=self.text,
                **{f"{what}_{axis}": 1 for what in ("grid", "block") for axis in "yz"},
                grid_x=-(-n // per_block),
                block_x=per_block,
                shared_mem_bytes=0,
                output_indices=tuple(range(n_in, n_in + len(made))),
            )
        )
        return [next(results) if math.prod(shape.shape) else jnp.zeros(shape.shape, shape.dtype) for shape in shapes]


class CpuKernel(StepKernel):
    """One environment after the other, in code of this processor."""

    on_host = True

    def __init__(self, step: Step, shared: Any, state: Any, given: Any) -> None:
        from cisr.kernels.native import compiled  # brings in llvmlite

        super().__init__(step, shared, state, given)
        self._native = compiled(self.text, cache_folder("kernels"))

    def _language(self) -> LlvmProgram:
        return LlvmProgram()

    def _as_array(self, array: Any, leaf: Leaf) -> Any:
        return np.ascontiguousarray(np.asarray(array, leaf.dtype).reshape(-1, *leaf.shape))

    def _launch(self, sizes: tuple[int, int, int], n_steps: int, arrays: Sequence[Any]) -> list[Any]:
        s, _, e = sizes
        results = [np.zeros(*leaf) for leaf in self._shapes(sizes)]
        self._native([r for r in results if r.size], [np.array([s * e, e, n_steps], np.int32), *arrays])
        return results


Described = tuple[Step, Any, Any, Any]
"""A step, and by example what it is given."""


def step_kernels(what: str, *steps: Described) -> list[StepKernel] | None:
    """Kernels of these steps for JAX's device; None where it has none, or where one of them cannot be written, which is
    said."""
    device = jax.default_backend()
    if device == "cpu":
        kind: type[StepKernel] = CpuKernel
        if not installed("llvmlite"):
            return None
    elif device == "gpu":
        kind = GpuKernel
    else:
        return None
    try:
        return [kind(*step) for step in steps]
    except Exception as error:  # whatever XLA, LLVM, the driver or another maker's GPU complain about
        reason = str(error) if isinstance(error, CannotSayError) else described(error)
        level = logging.WARNING if device == "gpu" else logging.INFO
        log.log(level, "%s cannot be one kernel here, and runs as plain XLA, slower: %s.", what, reason.rstrip("."))
        return None


def threads_per_block(n: int) -> int:
    """Each block is a warp, in which threads wait for each other: as few to a warp as there is room for."""
    processors = getattr(jax.devices()[0], "core_count", USUAL_PROCESSORS)
    return min(-(-n // (processors * WARPS_AT_ONCE)), WARP)


def _leaves(arrays: Sequence[Any]) -> list[Leaf]:
    return [Leaf(tuple(jnp.shape(array)), np.dtype(jax.dtypes.result_type(array))) for array in arrays]


Tables = Sequence[Sequence[Leaf]]


def _written(program: PtxProgram | LlvmProgram, traced: TakenApart, ins: Tables, outs: Tables) -> str:
    """The kernel's text. Its first argument are sizes: environments in all, environments of a student, steps."""

    def pointers(leaves: Sequence[Leaf], is_result: bool) -> list[Register | None]:
        return [program.pointer(is_result) if leaf.size else None for leaf in leaves]

    sizes = program.pointer(is_result=False)
    n, n_envs, n_steps = (program.load(Cell(sizes, BYTES[S32] * k, S32)) for k in range(3))
    shared, start, given = (pointers(leaves, False) for leaves in ins)
    ended, made = (pointers(leaves, True) for leaves in outs)
    dtypes = [leaf.dtype for leaf in ins[1] for _ in range(leaf.size)]

    def fly(number: Register) -> None:
        """One environment, through all its steps."""
        student = program.basic("div", number, n_envs)
        row = program.basic("mul", program.basic("mul", student, n_steps), n_envs)
        row = program.basic("add", row, program.basic("rem", number, n_envs))
        known = _cells(program, shared, ins[0], student)
        state = [cell for cells in _cells(program, start, ins[1], number) for cell in cells.ravel()]

        def once(before: list[Any]) -> list[Any]:
            *numbers, at = before
            left = iter(numbers)
            each = [in_shape([next(left) for _ in range(leaf.size)], leaf.shape) for leaf in ins[1]]
            results = traced.on(program, [*known, *each, *_cells(program, given, ins[2], at)])
            _store(program, _cells(program, made, outs[1], at), results[len(each) :])
            after = [value for values in results[: len(each)] for value in values.ravel()]
            return [*after, program.basic("add", at, n_envs)]

        *end, _ = program.repeat([*dtypes, np.dtype(np.int32)], [*state, row], n_steps, None, once)
        left = iter(end)
        each = [in_shape([next(left) for _ in range(leaf.size)], leaf.shape) for leaf in outs[0]]
        _store(program, _cells(program, ended, outs[0], number), each)

    program.for_each(n, fly)
    return program.text()


def _cells(program: Program, bases: Sequence[Register | None], leaves: Sequence[Leaf], row: Register) -> list[Any]:
    """The numbers of a row of each array."""
    found = []
    for base, leaf in zip(bases, leaves, strict=True):
        at = None if base is None else program.moved(base, row, leaf.bytes)
        each = [] if at is None else [Cell(at, k * BYTES[leaf.kind], leaf.kind) for k in range(leaf.size)]
        found.append(in_shape(each, leaf.shape))
    return found


def _store(program: Program, cells: Sequence[Any], values: Sequence[Any]) -> None:
    for into, each in zip(cells, values, strict=True):
        for cell, value in zip(into.ravel(), each.ravel(), strict=True):
            program.store(cell, value)
