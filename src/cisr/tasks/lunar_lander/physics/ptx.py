"""What was traced as a kernel in PTX, the assembly language of NVIDIA's GPUs: one thread has one lander.

Threads loop on their own, each until its lander is done. Sums and products are rounded one by one, as Box2D does: PTX
fuses none that name their rounding. What the physics has no use for is refused while the kernel is written, with two
exceptions: the lesser of two is a number where one of them is none, and remainders are those of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cisr.tasks.lunar_lander.physics.lanes import Body, Objects, in_shape, taken_apart

F32, S32, PRED = "f32", "s32", "pred"
ADDRESS = "b64"
HEADER = ".version 7.0\n.target sm_60\n.address_size 64\n"
THREADS = 32
"""Of a block: a warp, so that few landers are spread over many processors."""
TWO_OVER_PI = 0.636619772367581
HALF_PI = (1.5707960128784180, 3.1391647326017846e-07, 5.390302529957765e-15)
"""π/2 as a sum, of which the first ones have few digits: their multiples are exact."""
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


class Register(NamedTuple):
    """A variable of the program."""

    name: str
    kind: str


def _kind(dtype: Any) -> str:
    return {"float32": F32, "bool": PRED, "int32": S32}[np.dtype(dtype).name]


def _kind_of(value: Any) -> str:
    return value.kind if isinstance(value, Register) else _kind(value.dtype)


class Program:
    """Instructions as they come; a `Machine`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._counts = dict.fromkeys((F32, S32, PRED, ADDRESS), 0)
        self._labels = 0

    def new(self, kind: str) -> Register:
        self._counts[kind] += 1
        return Register(f"%{kind}_{self._counts[kind]}", kind)

    def say(self, line: str) -> None:
        self.lines.append(f"\t{line};")

    def do(self, instruction: str, kind: str, *values: Any) -> Register:
        """The result of an instruction, in a new variable."""
        into = self.new(kind)
        self.say(f"{instruction} {into.name}, {', '.join(map(self.operand, values))}")
        return into

    def declarations(self) -> list[str]:
        return [f"\t.reg .{kind} %{kind}_<{count + 1}>;" for kind, count in self._counts.items()]

    def operand(self, value: Any) -> str:
        if isinstance(value, Register):
            return value.name
        if isinstance(value, np.bool_ | bool):  # there are no constants of this kind
            return self.do("setp.ne.s32", PRED, np.int32(value), np.int32(0)).name
        if isinstance(value, np.integer):
            return str(int(value))
        return f"0f{np.float32(value).view(np.uint32):08X}"

    def operate(self, equation: Any, values: list[Any]) -> Any:
        name = equation.primitive.name
        kind = _kind(equation.outvars[0].aval.dtype)
        if name in _COMPARISONS:
            return self._compare(name, values)
        if name in _SPECIAL:
            return _SPECIAL[name](self, equation, values)
        return self.do(_INSTRUCTIONS[name, kind], kind, *values)

    def _compare(self, name: str, values: list[Any]) -> Register:
        kind = _kind_of(values[0])
        if kind == PRED:
            assert name in ("eq", "ne"), f"{name} of truths"
            differ = self.do("xor.pred", PRED, *values)
            return differ if name == "ne" else self.do("not.pred", PRED, differ)
        test = "neu" if name == "ne" and kind == F32 else name  # what is no number differs from itself
        return self.do(f"setp.{test}.{kind}", PRED, *values)

    def select(self, kind: str, condition: Any, other: Any, one: Any) -> Register:
        if kind != PRED:
            return self.do(f"selp.{kind}", kind, one, other, condition)
        taken = self.do("and.pred", PRED, condition, one)
        left = self.do("and.pred", PRED, self.do("not.pred", PRED, condition), other)
        return self.do("or.pred", PRED, taken, left)

    def convert(self, value: Any, kind: str) -> Any:
        was = _kind_of(value)
        if was == kind:
            return value
        if was == PRED:
            one, zero = (np.float32(1), np.float32(0)) if kind == F32 else (np.int32(1), np.int32(0))
            return self.select(kind, value, zero, one)
        if kind == PRED:
            return self._compare("ne", [value, np.float32(0) if was == F32 else np.int32(0)])
        return self.do("cvt.rn.f32.s32" if kind == F32 else "cvt.rzi.s32.f32", kind, value)

    def sine(self, x: Any, shift: int) -> Register:
        """Of x + shift·π/2: the part beyond the nearest multiple of π/2, and a polynomial for it."""
        turns = self.do("cvt.rni.f32.f32", F32, self.do("mul.rn.f32", F32, x, np.float32(TWO_OVER_PI)))
        rest = x
        for part in HALF_PI:
            rest = self.do("fma.rn.f32", F32, turns, np.float32(-part), rest)
        quarter = self.do("add.s32", S32, self.do("cvt.rzi.s32.f32", S32, turns), np.int32(shift))
        square = self.do("mul.rn.f32", F32, rest, rest)
        odd = self._polynomial(SINE, square)
        odd = self.do("fma.rn.f32", F32, self.do("mul.rn.f32", F32, odd, square), rest, rest)
        even = self._polynomial(COSINE, square)
        even = self.do("mul.rn.f32", F32, even, self.do("mul.rn.f32", F32, square, square))
        even = self.do("fma.rn.f32", F32, np.float32(-0.5), square, even)
        even = self.do("add.rn.f32", F32, even, np.float32(1))
        swapped, negative = (
            self._compare("ne", [self.do("and.b32", S32, quarter, np.int32(bit)), np.int32(0)]) for bit in (1, 2)
        )
        value = self.select(F32, swapped, odd, even)
        return self.select(F32, negative, value, self.do("neg.f32", F32, value))

    def _polynomial(self, coefficients: Sequence[float], x: Register) -> Register:
        highest, second, *others = map(np.float32, coefficients)
        value = self.do("fma.rn.f32", F32, highest, x, second)
        for coefficient in others:
            value = self.do("fma.rn.f32", F32, value, x, coefficient)
        return value

    def repeat(
        self, dtypes: list[Any], start: list[Any], times: int | None, test: Body | None, body: Body
    ) -> list[Any]:
        state = self._variables(dtypes)
        self._assign(state, start)
        top, end = self._label(), self._label()
        count = self.do("mov.s32", S32, np.int32(0)) if times is not None else None
        self.lines.append(f"{top}:")
        going = self.do("setp.lt.s32", PRED, count, np.int32(times or 0)) if test is None else test(list(state))[0]
        self.say(f"@!{self.operand(going)} bra {end}")
        self._assign(state, body(list(state)))
        if count is not None:
            self.say(f"add.s32 {count.name}, {count.name}, 1")
        self.say(f"bra {top}")
        self.lines.append(f"{end}:")
        return list(state)

    def choose(self, dtypes: list[Any], number: Any, branches: Sequence[Callable[[], list[Any]]]) -> list[Any]:
        result = self._variables(dtypes)
        other, end = self._label(), self._label()
        taken = self._compare("ne", [number, np.int32(0)])
        self.say(f"@!{taken.name} bra {other}")
        self._assign(result, branches[1]())
        self.say(f"bra {end}")
        self.lines.append(f"{other}:")
        self._assign(result, branches[0]())
        self.lines.append(f"{end}:")
        return list(result)

    def _variables(self, dtypes: list[Any]) -> list[Register]:
        return [self.new(_kind(dtype)) for dtype in dtypes]

    def _assign(self, variables: list[Register], values: list[Any]) -> None:
        """All at once: a value may be another of the variables."""
        held = [
            self.do(f"mov.{into.kind}", into.kind, value) if isinstance(value, Register) else value
            for into, value in zip(variables, values, strict=True)
        ]
        for into, value in zip(variables, held, strict=True):
            self.say(f"mov.{into.kind} {into.name}, {self.operand(value)}")

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_INSTRUCTIONS = {
    **{(name, F32): f"{name}.rn.f32" for name in ("add", "sub", "mul", "div", "sqrt")},
    **{(name, F32): f"{name}.f32" for name in ("neg", "abs", "min", "max")},
    **{(f"reduce_{name}", F32): f"{name}.f32" for name in ("min", "max")},
    **{(name, S32): f"{name}.s32" for name in ("add", "sub", "min", "max")},
    **{(name, PRED): f"{name}.pred" for name in ("and", "or", "xor", "not")},
    **{(f"reduce_{name}", PRED): f"{name}.pred" for name in ("and", "or")},
    ("floor", F32): "cvt.rmi.f32.f32",
}


def _remainder(program: Program, equation: Any, values: list[Any]) -> Register:
    """Of whole numbers, as which floats are used here."""
    if _kind_of(values[0]) == S32:
        return program.do("rem.s32", S32, *values)
    a, b = values
    times = program.do("cvt.rzi.f32.f32", F32, program.do("div.rn.f32", F32, a, b))
    return program.do("sub.rn.f32", F32, a, program.do("mul.rn.f32", F32, times, b))


def _round(program: Program, equation: Any, values: list[Any]) -> Register:
    assert equation.params["rounding_method"].name == "TO_NEAREST_EVEN"
    return program.do("cvt.rni.f32.f32", F32, *values)


_SPECIAL: dict[str, Callable[[Program, Any, list[Any]], Any]] = {
    "convert_element_type": lambda p, e, v: p.convert(v[0], _kind(e.params["new_dtype"])),
    "cos": lambda p, e, v: p.sine(v[0], 1),
    "rem": _remainder,
    "round": _round,
    "select_n": lambda p, e, v: p.select(_kind(e.outvars[0].aval.dtype), *v),
    "sin": lambda p, e, v: p.sine(v[0], 0),
}

Shapes = tuple[tuple[int, ...], ...]


def kernel(name: str, function: Callable[..., Any], ins: Shapes, outs: Shapes) -> Callable[[int], str]:
    """A function of single-precision arrays (*shape, B) as a kernel over arrays (B, *shape); its text for so many
    landers."""
    program = Program()
    pointers = [f"p{k}" for k in range(len(ins) + len(outs))]
    lander = _number_of_the_thread(program)
    arguments = [_read(program, p, s, lander) for p, s in zip(pointers, ins, strict=False)]
    results = taken_apart(function, *ins)(program, *arguments)
    for pointer, shape, result in zip(pointers[len(ins) :], outs, results, strict=True):
        assert result.shape == shape and all(_kind_of(value) == F32 for value in result.ravel())
        at = _address(program, pointer, shape, lander)
        for k, value in enumerate(result.ravel()):
            program.say(f"st.global.f32 [{at.name}+{4 * k}], {program.operand(value)}")
    parameters = ",\n".join(f"\t.param .u64 {p}" for p in pointers)
    head = f"{HEADER}\n.visible .entry {name}(\n{parameters}\n)\n{{"
    text = "\n".join([head, *program.declarations(), *program.lines, "\tret;", "}", ""])
    return lambda n_landers: text.replace(_N_LANDERS, str(n_landers))


_N_LANDERS = "N_LANDERS"


def _number_of_the_thread(program: Program) -> Register:
    block, thread = (program.do("mov.u32", S32, Register(f"%{name}.x", S32)) for name in ("ctaid", "tid"))
    lander = program.do("mad.lo.s32", S32, block, np.int32(THREADS), thread)
    beyond = program.new(PRED)
    program.say(f"setp.ge.s32 {beyond.name}, {lander.name}, {_N_LANDERS}")
    program.say(f"@{beyond.name} ret")
    return lander


def _address(program: Program, pointer: str, shape: tuple[int, ...], lander: Register) -> Register:
    """Where the numbers of the thread's lander begin."""
    base = program.do("ld.param.u64", ADDRESS, Register(f"[{pointer}]", ADDRESS))
    base = program.do("cvta.to.global.u64", ADDRESS, base)
    offset = program.do("mul.wide.s32", ADDRESS, lander, np.int32(4 * int(np.prod(shape))))
    return program.do("add.s64", ADDRESS, base, offset)


def _read(program: Program, pointer: str, shape: tuple[int, ...], lander: Register) -> Objects:
    at = _address(program, pointer, shape, lander)
    numbers = [
        program.do("ld.global.f32", F32, Register(f"[{at.name}+{4 * k}]", F32)) for k in range(int(np.prod(shape)))
    ]
    return in_shape(numbers, shape)
