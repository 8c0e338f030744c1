"""Operations on single numbers as a program, whatever language it is written in: what all languages share.

A language says how an instruction is spelled (`templates`: the result is {0}, what it is made of {1}, {2}, …), how
memory is read and written, and how jumps and variables go. Sums and products are rounded one by one; only products of
matrices are told to fuse them.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cisr.kernels import functions
from cisr.kernels.apart import Body, CannotSayError

F32, F64, S32, PRED, ADDRESS = "f32", "f64", "s32", "pred", "address"
BYTES = {F32: 4, F64: 8, S32: 4, PRED: 1}
WORD = 32
"""Bits of a whole number."""
MOST_POWER = 64
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclass(frozen=True, eq=False)
class Register:
    """The result of an instruction, or a variable, which changes."""

    name: str
    kind: str
    varies: bool = False


@dataclass(frozen=True, eq=False)
class Cell:
    """A number in memory that nobody changes; it is read where it is used."""

    at: Register
    offset: int
    kind: str


def kind_of_dtype(dtype: Any) -> str:
    kind = {"float32": F32, "float64": F64, "bool": PRED, "int32": S32}.get(np.dtype(dtype).name)
    if kind is None:
        raise CannotSayError(f"numbers of type {np.dtype(dtype).name}")
    return kind


def kind_of(value: Any) -> str:
    return value.kind if isinstance(value, Register | Cell) else kind_of_dtype(value.dtype)


class Program(ABC):
    """Instructions as they come; a `Machine`."""

    templates: ClassVar[Mapping[tuple[str, str], str]]
    """By what is done and the kind of number that it is done to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._n_registers = self._n_labels = 0
        self._done: list[dict[tuple[str, ...], Register]] = [{}]
        """What has been computed in this block and in those around it: nothing is computed twice."""

    @abstractmethod
    def constant(self, value: Any) -> str: ...
    @abstractmethod
    def new(self, kind: str, varies: bool = False) -> Register: ...
    @abstractmethod
    def read(self, variable: Register) -> str: ...
    @abstractmethod
    def copy(self, variable: Register) -> str:
        """What it is now, also when it is written."""

    @abstractmethod
    def write(self, variable: Register, operand: str) -> None: ...
    @abstractmethod
    def load(self, cell: Cell) -> Register: ...
    @abstractmethod
    def store(self, cell: Cell, value: Any) -> None: ...
    @abstractmethod
    def moved(self, at: Register, number: Any, stride: int) -> Register:
        """The address so many strides of bytes further on."""

    @abstractmethod
    def table(self, kind: str, n: int) -> Register:
        """The address of room for so many numbers, which are no truths."""

    @abstractmethod
    def load_local(self, kind: str, at: Register, offset: int) -> Register: ...
    @abstractmethod
    def store_local(self, kind: str, at: Register, operand: str) -> None: ...
    @abstractmethod
    def label(self, name: str) -> None: ...
    @abstractmethod
    def jump(self, label: str) -> None: ...
    @abstractmethod
    def jump_if(self, operand: str, label: str, negated: bool = False) -> None: ...

    def say(self, line: str) -> None:
        self.lines.append(f"\t{line}")

    def do(self, template: str, kind: str, *values: Any) -> Register:
        """The result of an instruction."""
        operands = [self.operand(value) for value in values]
        key = (template, *operands)
        for block in self._done:
            if key in block:
                return block[key]
        into = self._done[-1][key] = self.new(kind)
        self.say(template.format(into.name, *operands))
        return into

    def operand(self, value: Any) -> str:
        if isinstance(value, Register):
            return self.read(value) if value.varies else value.name
        if isinstance(value, Cell):
            return self.load(value).name
        return self.constant(value)

    def operate(self, equation: Any, values: list[Any]) -> Any:
        name, parameters = equation.primitive.name, equation.params
        dtype = equation.outvars[0].aval.dtype
        if name in _OF_CONSTANTS and _are_constants(dtype, values):
            with np.errstate(all="ignore"):
                return _as_constant(_OF_CONSTANTS[name](*values), dtype)
        kinds = {kind_of(value) for value in values}
        match name:
            case "clamp":
                return functions.clamp(self.basic, *values)
            case "convert_element_type":
                return self.convert(values[0], parameters["new_dtype"])
            case "select_n" if len(values) == 3:
                condition, other, one = values
                return self.select(self.convert(condition, np.bool_), one, other)
            case "round" if parameters["rounding_method"].name == "TO_NEAREST_EVEN":
                return self.basic("round", *values)
            case "integer_pow" if kinds == {F32}:
                return functions.whole_power(self.basic, values[0], parameters["y"])
            case "pow" if kinds == {F32} and isinstance(values[0], np.generic) and values[0] == 2:
                return functions.exponential(self.basic, values[1], base=2)
            case "pow" if kinds == {F32} and isinstance(values[1], np.floating) and abs(values[1]) < MOST_POWER:
                if not (exponent := float(values[1])) * 2 == round(exponent * 2):
                    raise CannotSayError(f"powers of {exponent:g}")
                return functions.half_power(self.basic, values[0], exponent)
            case "rem" if kinds == {F32}:
                return functions.remainder(self.basic, *values)
            case "rem" if kinds == {S32}:
                return functions.whole_remainder(self.basic, *values)
            case "div" if kinds == {S32}:
                return functions.whole_quotient(self.basic, *values)
            case "shift_left" if kinds == {S32} and isinstance(values[1], np.integer):
                return self.basic(name, *values) if 0 <= values[1] < WORD else np.int32(0)
            case "select_n" | "round" | "integer_pow" | "pow" | "shift_left":
                raise CannotSayError(f"'{name}' of this kind")
            case _ if name in functions.FUNCTIONS and kinds == {F32}:
                return functions.FUNCTIONS[name](self.basic, *values)
            case _ if name in functions.OF_DOUBLES and kinds == {F64}:
                return functions.OF_DOUBLES[name](self.basic, *values)
        return self.basic(name, *values)

    def basic(self, name: str, *values: Any) -> Any:
        if name in _SPECIAL:
            return _SPECIAL[name](self, *values)
        kinds = {kind_of(value) for value in values}
        if kinds == {PRED} and name in COMPARISONS:
            return self._compare_truths(name, *values)
        kind = kinds.pop() if len(kinds) == 1 else "numbers of several kinds"
        template = self.templates.get((name, kind))
        if template is None:
            raise CannotSayError(f"'{name}' of {kind}")
        return self.do(template, PRED if name in COMPARISONS else _RESULTS.get(name, kind), *values)

    def _compare_truths(self, name: str, a: Any, b: Any) -> Any:
        if name in ("eq", "ne"):
            differ = self.basic("xor", a, b)
            return differ if name == "ne" else self.basic("not", differ)
        if name in ("lt", "ge"):
            less = self.basic("and", self.basic("not", a), b)
            return less if name == "lt" else self.basic("not", less)
        return self._compare_truths({"gt": "lt", "le": "ge"}[name], b, a)

    def select(self, condition: Any, one: Any, other: Any) -> Any:
        kind = kind_of(one)
        if kind != PRED:
            return self.do(self.templates["select", kind], kind, condition, one, other)
        left = self.basic("and", self.basic("not", condition), other)
        return self.basic("or", self.basic("and", condition, one), left)

    def convert(self, value: Any, dtype: Any) -> Any:
        kind, was = kind_of_dtype(dtype), kind_of(value)
        if was == kind:
            return value
        number = _NUMBERS[kind if was == PRED else was]
        if was == PRED:
            return self.select(value, number(1), number(0))
        if kind == PRED:
            return self.basic("ne", value, number(0))
        if (was, kind) == (F64, S32):  # a GPU makes the least number of what is none
            value = self.select(self.basic("eq", value, value), value, number(0))
        return self.do(self.templates[f"as {kind}", was], kind, value)

    def shift(self, name: str, value: Any, n: int) -> Register:
        return self.do(self.templates[name, S32], S32, value, np.int32(n))

    def row(self, values: Sequence[Any]) -> Callable[[Any], Any] | None:
        """Values as a function of their index, where they stand in memory one after the other."""
        first = values[0]
        if not all(isinstance(v, Cell) and (v.at, v.kind) == (first.at, first.kind) for v in values):
            return None
        stride = values[1].offset - first.offset
        if any(v.offset != first.offset + k * stride for k, v in enumerate(values)):
            return None
        return lambda number: Cell(self.moved(first.at, number, stride), first.offset, first.kind)

    def tabulate(self, n: int, dtype: Any, function: Callable[[Any], Any]) -> list[Any]:
        """The values of a function of 0 … n − 1, in a loop: its instructions stand there once."""
        if dtype == np.bool_:  # registers of truths are not to be had in memory
            numbers = self.tabulate(n, np.dtype(np.int32), lambda number: self.convert(function(number), np.int32))
            return [self.convert(number, np.bool_) for number in numbers]
        kind = kind_of_dtype(dtype)
        table = self.table(kind, n)

        def once(state: list[Any]) -> list[Any]:
            (number,) = state
            value = self.operand(function(number))
            self.store_local(kind, self.moved(table, number, BYTES[kind]), value)
            return [self.basic("add", number, np.int32(1))]

        self.repeat([np.dtype(np.int32)], [np.int32(0)], np.int32(n), None, once)
        return [self.load_local(kind, table, BYTES[kind] * k) for k in range(n)]

    def repeat(
        self, dtypes: list[Any], start: list[Any], times: Any | None, test: Body | None, body: Body
    ) -> list[Any]:
        state = [self.new(kind_of_dtype(dtype), varies=True) for dtype in dtypes]
        self._assign(state, start)
        count = self.new(S32, varies=True)
        if test is None:
            self.write(count, self.constant(np.int32(0)))
        top, end = self.new_label(), self.new_label()
        self.label(top)
        with self._block():
            going = self.basic("lt", count, times) if test is None else test(list(state))[0]
            self.jump_if(self.operand(going), end, negated=True)
            self._assign(state, body(list(state)))
            if test is None:
                self.write(count, self.operand(self.basic("add", count, np.int32(1))))
        self.jump(top)
        self.label(end)
        return list(state)

    def choose(self, dtypes: list[Any], number: Any, branches: Sequence[Callable[[], list[Any]]]) -> list[Any]:
        end = self.new_label()
        if len(branches) == 2:
            tests = [self.convert(number, np.bool_)]
        else:
            tests = [self.basic("ne", number, np.int32(k)) for k in range(len(branches) - 1)]
        elsewhere = [self.operand(test) for test in tests]  # before any jump: it may be asked for again anywhere
        ways = [self._aside(branch) for branch in branches]
        results = [
            first if all(other is first for other in others) else self.new(kind_of_dtype(dtype), varies=True)
            for dtype, (first, *others) in zip(dtypes, zip(*(values for _, values in ways), strict=True), strict=True)
        ]
        for k, (lines, values) in enumerate(ways):
            following = self.new_label()
            if k < len(ways) - 1:
                self.jump_if(elsewhere[k], following)
            self.lines += lines
            with self._block():
                self._assign(results, values)
            self.jump(end)
            if k < len(ways) - 1:
                self.label(following)
        self.label(end)
        return results

    def _aside(self, branch: Callable[[], list[Any]]) -> tuple[list[str], list[Any]]:
        """The instructions of a branch, and what it comes to."""
        lines, self.lines = self.lines, []
        with self._block():
            values = branch()
        lines, self.lines = self.lines, lines
        return lines, values

    @contextmanager
    def _block(self) -> Iterator[None]:
        """What is computed within may not be, or may be again."""
        self._done.append({})
        yield
        self._done.pop()

    def _assign(self, variables: Sequence[Register], values: Sequence[Any]) -> None:
        """All at once: a value may be another of the variables. One that keeps its own is left alone."""
        changed = [(into, value) for into, value in zip(variables, values, strict=True) if value is not into]
        overwritten = {into.name for into, _ in changed}
        held = [
            self.copy(value) if isinstance(value, Register) and value.name in overwritten else self.operand(value)
            for _, value in changed
        ]
        for (into, _), operand in zip(changed, held, strict=True):
            self.write(into, operand)

    def new_label(self) -> str:
        self._n_labels += 1
        return f"L{self._n_labels}"


def _are_constants(dtype: Any, values: Sequence[Any]) -> bool:
    """Of NumPy's own types: others' round in their own ways."""
    kinds = (dtype.type, *map(type, values))
    return all(issubclass(kind, np.number | np.bool_) for kind in kinds)


def _as_constant(value: Any, dtype: Any) -> Any:
    """As JAX converts numbers: those beyond the range become its ends, and what is no number 0."""
    if np.issubdtype(dtype, np.integer) and isinstance(value, np.floating):
        ends = np.iinfo(dtype)
        if not np.isfinite(value):
            value = 0 if np.isnan(value) else ends.max if value > 0 else ends.min
        value = min(max(int(value), ends.min), ends.max)
    return dtype.type(value)


_OF_CONSTANTS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "and": operator.and_,
    "convert_element_type": lambda x: x,
    "eq": operator.eq,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "mul": operator.mul,
    "ne": operator.ne,
    "or": operator.or_,
    "select_n": lambda number, *cases: cases[int(number)],
    "sub": operator.sub,
}

_NUMBERS: dict[str, Any] = {F32: np.float32, F64: np.float64, S32: np.int32}
_RESULTS = {"bits": S32, "of_bits": F32, "whole": S32}
"""Kinds of results, where they are not those of what they are made of."""
_SPECIAL: dict[str, Callable[..., Any]] = {
    "convert": Program.convert,
    "select": Program.select,
    "shift_left": lambda program, value, n: program.shift("shift_left", value, n),
    "shift_right": lambda program, value, n: program.shift("shift_right", value, n),
}
