"""Array code of one environment, taken apart into operations on single numbers.

A thread of a GPU has one environment and knows single numbers alone. So the code is traced once, and what was traced is
done again with an array of objects, each standing for one number, in place of each array: stacking, slicing and turning
over become nothing at all, and an operation on (2, 3) becomes six of them on single numbers, which a `Machine` carries
out. Whatever it was not taught is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

Objects = np.ndarray
"""An array of objects, each of them a number of the environment."""
Body = Callable[[list[Any]], list[Any]]

MOST_CONSTANTS = 4_096
"""Numbers of an array that is written into the program as it stands."""


class CannotSayError(Exception):
    """The code does something that no program of single numbers can say, or none that we know how to write."""


class Machine(Protocol):
    """What carries out operations on single numbers; what these are is its own matter. Constants are NumPy's."""

    def operate(self, equation: Any, values: list[Any]) -> Any:
        """What an operation of JAX makes of these values."""

    def basic(self, name: str, *values: Any) -> Any:
        """One of the operations that others are made of, by JAX's name for it or by one of `functions`."""

    def repeat(
        self, dtypes: list[Any], start: list[Any], times: Any | None, test: Body | None, body: Body
    ) -> list[Any]:
        """The state after so many times, or for as long as the test holds before each."""

    def choose(self, dtypes: list[Any], number: Any, branches: Sequence[Callable[[], list[Any]]]) -> list[Any]:
        """What the branch of this number comes to, which is one of theirs."""

    def tabulate(self, n: int, dtype: Any, function: Callable[[Any], Any]) -> list[Any]:
        """The values of a function of 0 … n − 1, in a loop."""

    def row(self, values: Sequence[Any]) -> Callable[[Any], Any] | None:
        """Values as a function of their index, where they stand in memory one after the other."""


class Rolled(NamedTuple):
    """A row of numbers, each of them computed alike and none of them yet: that is done in a loop when one is needed.

    Layers of networks are such rows. Their instructions, written out for each number, would be most of a program.
    """

    shape: tuple[int, ...]
    dtype: Any
    at: Callable[[Any], Any]
    """What the number of this index is; a value of the machine's for one of its own. It is made once."""


Values = Objects | Rolled
FEWEST_ROLLED = 8
"""Numbers of a row that is worth a loop."""


class TakenApart(NamedTuple):
    """A function as it was traced."""

    closed: Any
    structure: Any
    """Of its result."""

    def on(self, machine: Machine, arguments: Sequence[Objects]) -> list[Objects]:
        """The leaves of its result, from those of its arguments."""
        return _Evaluation(machine).all_of(self.closed, arguments)

    @property
    def results(self) -> list[Any]:
        """Shapes and types of the leaves of its result."""
        return list(self.closed.out_avals)


def taken_apart(function: Callable[..., Any], *arguments: Any) -> TakenApart:
    """The function of arguments like these, trees of arrays or of shapes and types."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    return TakenApart(closed, jax.tree.structure(shapes))


def in_shape(values: Sequence[Any], shape: tuple[int, ...]) -> Objects:
    objects = np.empty(shape, object)
    for index, value in zip(np.ndindex(shape), values, strict=True):
        objects[index] = value
    return objects


def _constant(value: Any, dtype: Any) -> Objects:
    array = np.asarray(value, dtype)
    if array.size > MOST_CONSTANTS:
        raise CannotSayError(f"it holds {array.size} constants, {MOST_CONSTANTS} at most can be written down")
    return in_shape([array[index] for index in np.ndindex(array.shape)], array.shape)


def _same_constant(one: Any, other: Any) -> bool:
    """To the last bit: a zero has a sign."""
    return isinstance(one, np.generic) and isinstance(other, np.generic) and one.tobytes() == other.tobytes()


def _each(function: Callable[..., Any], *given: Objects) -> Objects:
    together = np.broadcast_arrays(*given, subok=False)
    shape = together[0].shape
    return in_shape([function(*(values[index] for values in together)) for index in np.ndindex(shape)], shape)


Rule = Callable[[Any, list[Objects]], list[Objects]]


class _Evaluation:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._rules: dict[str, Rule] = {
            **_REARRANGING,
            **dict.fromkeys(("argmax", "argmin"), self._extreme),
            **dict.fromkeys(("reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_sum"), self._reduce),
            "cond": self._cond,
            "dot_general": self._product,
            "scan": self._scan,
            "while": self._while,
        }

    def all_of(self, closed: Any, arguments: Sequence[Values]) -> list[Objects]:
        """What a function that was traced comes to."""
        return [self._written_out(values) for values in self._of(closed, arguments)]

    def _of(self, closed: Any, arguments: Sequence[Values]) -> list[Values]:
        """The same; rows may be rolled up."""
        known: dict[Any, Values] = {}

        def read(atom: Any) -> Values:
            return _constant(atom.val, atom.aval.dtype) if hasattr(atom, "val") else known[atom]

        def read_out(atom: Any) -> Objects:
            values = self._written_out(read(atom))
            if not hasattr(atom, "val"):
                known[atom] = values
            return values

        constants = (_constant(c, v.aval.dtype) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True))
        known.update(zip(closed.jaxpr.constvars, constants, strict=True))
        known.update(zip(closed.jaxpr.invars, arguments, strict=True))
        for equation in closed.jaxpr.eqns:
            name = equation.primitive.name
            results: Sequence[Values] | None
            if name in _CALLS:
                results = self._of(equation.params[_CALLS[name]], [read(atom) for atom in equation.invars])
            else:
                results = self._rolled(equation, [read(atom) for atom in equation.invars])
            if results is None:
                rule = self._rules.get(name, self._elementwise)
                results = rule(equation, [read_out(atom) for atom in equation.invars])
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in closed.jaxpr.outvars]

    def _written_out(self, values: Values) -> Objects:
        if isinstance(values, Rolled):
            numbers = self._machine.tabulate(math.prod(values.shape), values.dtype, values.at)
            return in_shape(numbers, values.shape)
        return values

    def _rolled(self, equation: Any, given: list[Values]) -> list[Values] | None:
        """What is made of rows that are rolled up, as long as it is such a row, too."""
        name = equation.primitive.name
        rows = [values for values in given if isinstance(values, Rolled)]
        if not rows or (name in self._rules and name not in _KEEPING):
            return None
        shape, dtype = equation.outvars[0].aval.shape, equation.outvars[0].aval.dtype
        if any(math.prod(row.shape) != math.prod(shape) for row in rows):
            return None
        if name in _KEEPING:
            return [rows[0]._replace(shape=shape)]
        at = [values.at if isinstance(values, Rolled) else self._row(values) for values in given]
        if None in at:
            return None
        return [Rolled(shape, dtype, cache(lambda k: self._machine.operate(equation, [of(k) for of in at if of])))]

    def _row(self, values: Objects) -> Callable[[Any], Any] | None:
        """Numbers as a function of their index: where all are one, or stand in memory one after the other."""
        first, *others = values.ravel()
        if all(other is first or _same_constant(other, first) for other in others):
            return lambda k: first
        return self._machine.row([first, *others])

    def _elementwise(self, equation: Any, given: list[Objects]) -> list[Objects]:
        results = equation.outvars
        if len(results) != 1 or np.broadcast_shapes(*(v.shape for v in given)) != results[0].aval.shape:
            raise CannotSayError(f"'{equation.primitive.name}'")
        return [_each(lambda *values: self._machine.operate(equation, list(values)), *given)]

    def _reduce(self, equation: Any, given: list[Objects]) -> list[Objects]:
        """One after the other."""
        name = equation.primitive.name.removeprefix("reduce_").replace("sum", "add")
        axes, shape = equation.params["axes"], equation.outvars[0].aval.shape
        n = math.prod(given[0].shape[axis] for axis in axes)
        rows = _rows(np.moveaxis(given[0], axes, range(len(axes))).reshape(n, *shape), 0)
        if not rows:
            raise CannotSayError(f"'{equation.primitive.name}' of nothing")
        total, *others = rows
        for row in others:
            total = _each(partial(self._machine.basic, name), total, row)
        return [total]

    def _extreme(self, equation: Any, given: list[Objects]) -> list[Objects]:
        """Where the greatest or the least is; the first of several."""
        strictly, otherwise = ("gt", "le") if equation.primitive.name == "argmax" else ("lt", "ge")
        (axis,), shape = equation.params["axes"], equation.outvars[0].aval.shape
        best, *others = _rows(given[0], axis)
        dtype, basic = equation.params["index_dtype"], self._machine.basic
        is_float = np.issubdtype(equation.invars[0].aval.dtype, np.floating)

        def better(one: Any, other: Any) -> Any:
            """Than all before; what is no number is better than any, and as good as another of its kind."""
            if not is_float:
                return basic(strictly, one, other)
            return basic("and", basic("not", basic(otherwise, one, other)), basic("eq", other, other))

        place = in_shape([dtype.type(0)] * math.prod(shape), shape)
        for k, row in enumerate(others, 1):
            wins = _each(better, row, best)
            best = _each(partial(basic, "select"), wins, row, best)
            place = _each(partial(basic, "select"), wins, in_shape([dtype.type(k)], ()), place)
        return [place]

    def _product(self, equation: Any, given: list[Objects]) -> list[Any]:
        (left_axes, right_axes), batched = equation.params["dimension_numbers"]
        if any(batched) or {v.aval.dtype for v in (*equation.invars, *equation.outvars)} != {np.dtype(np.float32)}:
            raise CannotSayError("a product of stacks of matrices, or of other numbers than single ones")
        left, right = (
            np.moveaxis(values, axes, range(len(axes))).reshape(math.prod(values.shape[a] for a in axes), -1)
            for values, axes in zip(given, (left_axes, right_axes), strict=True)
        )
        shape, columns = equation.outvars[0].aval.shape, right.shape[1]
        rows = [self._row(row) for row in right]
        if left.shape[1] == 1 and columns >= FEWEST_ROLLED and None not in rows:
            dot = cache(lambda k: self._dot(left[:, 0], [of(k) for of in rows if of]))
            return [Rolled(shape, np.dtype(np.float32), dot)]
        sums = (self._dot(a, b) for a in left.T for b in right.T)
        return [in_shape(list(sums), shape)]

    def _dot(self, left: Any, right: Any) -> Any:
        total = self._machine.basic("mul", left[0], right[0])
        for a, b in zip(left[1:], right[1:], strict=True):
            total = self._machine.basic("fma", a, b, total)
        return total

    def _while(self, equation: Any, given: list[Objects]) -> list[Objects]:
        parameters = equation.params
        n_test, n_body = parameters["cond_nconsts"], parameters["body_nconsts"]
        for_test, for_body, start = given[:n_test], given[n_test : n_test + n_body], given[n_test + n_body :]
        flat = _Flat(equation.outvars)

        def test(state: list[Any]) -> list[Any]:
            verdicts = self.all_of(parameters["cond_jaxpr"], [*for_test, *flat.back(state)])[0]
            if verdicts.shape:
                raise CannotSayError("loops side by side, each with an end of its own")
            return [verdicts.item()]

        def once(state: list[Any]) -> list[Any]:
            return flat.flat(self.all_of(parameters["body_jaxpr"], [*for_body, *flat.back(state)]))

        return flat.back(self._machine.repeat(flat.dtypes, flat.flat(start), None, test, once))

    def _scan(self, equation: Any, given: list[Objects]) -> list[Objects]:
        """A loop of so many times; nothing is read or written on the way."""
        inner = equation.params["jaxpr"]
        if not (
            [v.aval.shape for v in equation.invars] == [a.shape for a in inner.in_avals]
            and [v.aval.shape for v in equation.outvars] == [a.shape for a in inner.out_avals]
        ):
            raise CannotSayError("a loop within a step that goes along arrays")
        n_consts = len(given) - len(equation.outvars)
        flat = _Flat(equation.outvars)

        def once(state: list[Any]) -> list[Any]:
            return flat.flat(self.all_of(inner, [*given[:n_consts], *flat.back(state)]))

        times = np.int32(equation.params["length"])
        return flat.back(self._machine.repeat(flat.dtypes, flat.flat(given[n_consts:]), times, None, once))

    def _cond(self, equation: Any, given: list[Objects]) -> list[Objects]:
        number, *operands = given
        flat = _Flat(equation.outvars)
        branches = [partial(self._branch, flat, branch, operands) for branch in equation.params["branches"]]
        return flat.back(self._machine.choose(flat.dtypes, number.item(), branches))

    def _branch(self, flat: _Flat, branch: Any, operands: list[Objects]) -> list[Any]:
        return flat.flat(self.all_of(branch, operands))


class _Flat:
    """Objects as one list, for loops and choices, and back."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._shapes = [v.aval.shape for v in variables]
        self.dtypes = [v.aval.dtype for v in variables for _ in range(math.prod(v.aval.shape))]

    def flat(self, values: Sequence[Objects]) -> list[Any]:
        return [value for objects in values for value in objects.ravel()]

    def back(self, values: Sequence[Any]) -> list[Objects]:
        left: Iterator[Any] = iter(values)
        return [in_shape([next(left) for _ in np.ndindex(shape)], shape) for shape in self._shapes]


def _broadcast(equation: Any, given: list[Objects]) -> list[Objects]:
    shape, values = equation.params["shape"], given[0]
    spread = [1] * len(shape)
    for size, place in zip(values.shape, equation.params["broadcast_dimensions"], strict=True):
        spread[place] = size
    return [np.broadcast_to(values.reshape(spread), shape)]


def _iota(equation: Any, given: list[Objects]) -> list[Objects]:
    shape, axis = equation.params["shape"], equation.params["dimension"]
    numbers = np.arange(shape[axis], dtype=equation.params["dtype"])
    return [
        _constant(np.broadcast_to(np.expand_dims(numbers, [k for k in range(len(shape)) if k != axis]), shape), None)
    ]


def _reshaped(equation: Any, given: list[Objects]) -> list[Objects]:
    return [given[0].reshape(equation.outvars[0].aval.shape)]


def _same(equation: Any, given: list[Objects]) -> list[Objects]:
    return given


def _sliced(equation: Any, given: list[Objects]) -> list[Objects]:
    parameters = equation.params
    strides = parameters["strides"] or [1] * len(parameters["start_indices"])
    cuts = zip(parameters["start_indices"], parameters["limit_indices"], strides, strict=True)
    return [given[0][tuple(slice(*cut) for cut in cuts)]]


def _split(equation: Any, given: list[Objects]) -> list[Objects]:
    sizes, axis = equation.params["sizes"], equation.params["axis"]
    return np.split(given[0], np.cumsum(sizes)[:-1].tolist(), axis=axis)


def _rows(values: Objects, axis: int) -> list[Objects]:
    """Along an axis."""
    rows = np.moveaxis(values, axis, 0)
    return [rows[k : k + 1].reshape(rows.shape[1:]) for k in range(len(rows))]


_REARRANGING: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda e, given: [np.concatenate(given, axis=e.params["dimension"])],
    "iota": _iota,
    "reshape": _reshaped,
    "rev": lambda e, given: [np.flip(given[0], axis=e.params["dimensions"])],
    "slice": _sliced,
    "split": _split,
    "squeeze": _reshaped,
    "stack": lambda e, given: [np.stack(given, axis=e.params["axis"])],
    "transpose": lambda e, given: [np.transpose(given[0], e.params["permutation"])],
    "unstack": lambda e, given: _rows(given[0], e.params["axis"]),
    **dict.fromkeys(("copy", "copy_p", "optimization_barrier", "stop_gradient"), _same),
}
_KEEPING = ("broadcast_in_dim", "copy", "copy_p", "reshape", "squeeze", "stop_gradient")
"""What leaves the order of as many numbers as it is."""
_CALLS = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vmap_call": "call"}
"""Functions within functions, each with the parameter that has it."""
