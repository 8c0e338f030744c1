"""Array code over many landers, taken apart into operations on the numbers of a single one.

The physics is written with axes for legs and edges before that of the landers, (2, 2, B). A thread of a GPU has one
lander and knows single numbers alone. So the code is traced once, and what was traced is done again with an array of
objects (2, 2) in place of each array (2, 2, B): stacking, slicing and turning over become nothing at all, and an
operation becomes four of them on single numbers, which a `Machine` carries out. What is asked of all landers together
("is anybody still active?") is asked of the one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

TRACED = 97
"""Landers that a trace is made for: no other axis has this size."""

Objects = np.ndarray
"""An array of objects, each of them a number of the lander."""
Body = Callable[[list[Any]], list[Any]]


class Machine(Protocol):
    """What carries out operations on single numbers; what these are is its own matter. Constants are NumPy's."""

    def operate(self, equation: Any, values: list[Any]) -> Any:
        """What an operation of JAX makes of these values."""

    def repeat(
        self, dtypes: list[Any], start: list[Any], times: int | None, test: Body | None, body: Body
    ) -> list[Any]:
        """The state after so many times, or for as long as the test holds before each."""

    def choose(self, dtypes: list[Any], number: Any, branches: Sequence[Callable[[], list[Any]]]) -> list[Any]:
        """What the branch of this number, 0 or 1, comes to."""


def taken_apart(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[..., list[Objects]]:
    """A function of single-precision arrays (*shape, B) as one of a machine and objects (*shape)."""
    traced = jax.make_jaxpr(function)(*(jnp.zeros((*shape, TRACED), jnp.float32) for shape in shapes))
    return lambda machine, *arguments: _Evaluation(machine).of(traced, list(arguments))


def apart(value: Any) -> Objects:
    """A small constant, number by number."""
    value = np.asarray(value)
    return in_shape([value[index] for index in np.ndindex(value.shape)], value.shape)


def in_shape(values: Sequence[Any], shape: tuple[int, ...]) -> Objects:
    objects = np.empty(shape, object)
    for index, value in zip(np.ndindex(shape), values, strict=True):
        objects[index] = value
    return objects


def _before(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes before that of the landers, where there is one."""
    return shape[:-1] if shape and shape[-1] == TRACED else shape


def _each(function: Callable[..., Any], *given: Objects) -> Objects:
    together = np.broadcast_arrays(*given, subok=False)
    shape = together[0].shape
    return in_shape([function(*(values[index] for values in together)) for index in np.ndindex(shape)], shape)


class _Evaluation:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._rules: dict[str, Callable[[Any, list[Objects]], list[Objects]]] = {
            "broadcast_in_dim": _broadcast,
            "concatenate": lambda e, given: [np.concatenate(given, axis=e.params["dimension"])],
            "cond": self._cond,
            "copy": lambda e, given: given,
            "jit": lambda e, given: self.of(e.params["jaxpr"], given),
            "optimization_barrier": lambda e, given: given,
            "reduce_and": self._reduce,
            "reduce_max": self._reduce,
            "reduce_min": self._reduce,
            "reduce_or": self._reduce,
            "reshape": _reshaped,
            "rev": lambda e, given: [np.flip(given[0], axis=e.params["dimensions"])],
            "scan": self._scan,
            "slice": _sliced,
            "squeeze": _reshaped,
            "stack": lambda e, given: [np.stack(given, axis=e.params["axis"])],
            "unstack": _unstacked,
            "while": self._while,
        }

    def of(self, closed: Any, arguments: list[Objects]) -> list[Objects]:
        known: dict[Any, Objects] = {}

        def read(atom: Any) -> Objects:
            return apart(np.asarray(atom.val, atom.aval.dtype)) if hasattr(atom, "val") else known[atom]

        known.update(zip(closed.jaxpr.constvars, map(apart, closed.consts), strict=True))
        known.update(zip(closed.jaxpr.invars, arguments, strict=True))
        for equation in closed.jaxpr.eqns:
            rule = self._rules.get(equation.primitive.name, self._elementwise)
            known.update(zip(equation.outvars, rule(equation, [read(a) for a in equation.invars]), strict=True))
        return [read(atom) for atom in closed.jaxpr.outvars]

    def _elementwise(self, equation: Any, given: list[Objects]) -> list[Objects]:
        return [_each(lambda *values: self._machine.operate(equation, list(values)), *given)]

    def _reduce(self, equation: Any, given: list[Objects]) -> list[Objects]:
        """Along small axes, number by number; all landers are the one."""
        axes = [axis for axis in equation.params["axes"] if axis < given[0].ndim]
        kept = _before(equation.outvars[0].aval.shape)
        first, *others = np.moveaxis(given[0], axes, range(len(axes))).reshape(-1, 1, *kept)
        for other in others:
            first = _each(lambda a, b: self._machine.operate(equation, [a, b]), first, other)
        return [first.reshape(kept)]

    def _while(self, equation: Any, given: list[Objects]) -> list[Objects]:
        parameters = equation.params
        n_test, n_body = parameters["cond_nconsts"], parameters["body_nconsts"]
        for_test, for_body, start = given[:n_test], given[n_test : n_test + n_body], given[n_test + n_body :]
        flat = _Flat(equation.outvars)

        def test(state: list[Any]) -> list[Any]:
            return [self.of(parameters["cond_jaxpr"], [*for_test, *flat.back(state)])[0].item()]

        def once(state: list[Any]) -> list[Any]:
            return flat.flat(self.of(parameters["body_jaxpr"], [*for_body, *flat.back(state)]))

        return flat.back(self._machine.repeat(flat.dtypes, flat.flat(start), None, test, once))

    def _scan(self, equation: Any, given: list[Objects]) -> list[Objects]:
        """A loop of so many times; nothing is read or written on the way."""
        n_consts = len(given) - len(equation.outvars)
        flat = _Flat(equation.outvars)

        def once(state: list[Any]) -> list[Any]:
            return flat.flat(self.of(equation.params["jaxpr"], [*given[:n_consts], *flat.back(state)]))

        times = equation.params["length"]
        return flat.back(self._machine.repeat(flat.dtypes, flat.flat(given[n_consts:]), times, None, once))

    def _cond(self, equation: Any, given: list[Objects]) -> list[Objects]:
        number, *operands = given
        flat = _Flat(equation.outvars)
        branches = [partial(self._branch, flat, branch, operands) for branch in equation.params["branches"]]
        return flat.back(self._machine.choose(flat.dtypes, number.item(), branches))

    def _branch(self, flat: _Flat, branch: Any, operands: list[Objects]) -> list[Any]:
        return flat.flat(self.of(branch, operands))


class _Flat:
    """Objects as one list, for loops and choices, and back."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._shapes = [_before(v.aval.shape) for v in variables]
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        self.dtypes = [v.aval.dtype for v, size in zip(variables, sizes, strict=True) for _ in range(size)]

    def flat(self, values: Sequence[Objects]) -> list[Any]:
        return [value for objects in values for value in objects.ravel()]

    def back(self, values: Sequence[Any]) -> list[Objects]:
        left = iter(values)
        return [in_shape([next(left) for _ in np.ndindex(shape)], shape) for shape in self._shapes]


def _broadcast(equation: Any, given: list[Objects]) -> list[Objects]:
    shape, values = _before(equation.params["shape"]), given[0]
    spread = [1] * len(shape)
    for size, place in zip(values.shape, equation.params["broadcast_dimensions"], strict=False):
        spread[place] = size  # the last place is that of the landers
    return [np.broadcast_to(values.reshape(spread), shape)]


def _reshaped(equation: Any, given: list[Objects]) -> list[Objects]:
    return [given[0].reshape(_before(equation.outvars[0].aval.shape))]


def _sliced(equation: Any, given: list[Objects]) -> list[Objects]:
    values, parameters = given[0], equation.params
    strides = parameters["strides"] or [1] * len(parameters["start_indices"])
    cuts = zip(parameters["start_indices"], parameters["limit_indices"], strides, strict=True)
    return [values[tuple(slice(*cut) for cut in cuts)[: values.ndim]]]


def _unstacked(equation: Any, given: list[Objects]) -> list[Objects]:
    rows = np.moveaxis(given[0], equation.params["axis"], 0)
    return [rows[k : k + 1].reshape(rows.shape[1:]) for k in range(len(rows))]
