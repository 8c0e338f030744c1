"""Programs in LLVM's language, compiled for the processor that runs them: one environment after the other, on one core.

Needs llvmlite. LLVM rounds every operation as it is told, unless it is told that it need not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from cisr.kernels.program import ADDRESS, COMPARISONS, F32, F64, PRED, S32, Cell, Program, Register

NAME = "steps"
TYPES = {F32: "float", F64: "double", S32: "i32", PRED: "i1", ADDRESS: "ptr"}


def _intrinsic(name: str, n: int, kind: str = F32, result: str = F32) -> str:
    given = ", ".join(f"{TYPES[kind]} {{{k}}}" for k in range(1, n + 1))
    return f"{{0}} = call {TYPES[result]} @llvm.{name}({given})"


def _binary(instruction: str, kind: str) -> str:
    return f"{{0}} = {instruction} {TYPES[kind]} {{1}}, {{2}}"


class LlvmProgram(Program):
    templates: ClassVar = {
        **{(name, kind): _binary(f"f{name}", kind) for name in ("add", "sub", "mul", "div") for kind in (F32, F64)},
        ("min", F32): _intrinsic("minimum.f32", 2),
        ("max", F32): _intrinsic("maximum.f32", 2),
        ("neg", F32): "{0} = fneg float {1}",
        ("neg", F64): "{0} = fneg double {1}",
        ("abs", F32): _intrinsic("fabs.f32", 1),
        ("abs", F64): _intrinsic("fabs.f64", 1, F64, F64),
        ("fma", F32): _intrinsic("fma.f32", 3),
        ("fma", F64): _intrinsic("fma.f64", 3, F64, F64),
        ("sqrt", F32): _intrinsic("sqrt.f32", 1),
        ("round", F32): _intrinsic("roundeven.f32", 1),
        ("round", F64): _intrinsic("roundeven.f64", 1, F64, F64),
        **{(name, F32): _intrinsic(f"{name}.f32", 1) for name in ("floor", "ceil", "trunc")},
        ("trunc", F64): _intrinsic("trunc.f64", 1, F64, F64),
        **{
            (name, kind): _intrinsic(f"fptosi.sat.i32.{kind}", 1, kind, S32)
            for name in ("whole", "as s32")
            for kind in (F32, F64)
        },
        ("as f32", S32): "{0} = sitofp i32 {1} to float",
        ("as f64", S32): "{0} = sitofp i32 {1} to double",
        ("as f32", F64): "{0} = fptrunc double {1} to float",
        ("as f64", F32): "{0} = fpext float {1} to double",
        ("bits", F32): "{0} = bitcast float {1} to i32",
        ("of_bits", S32): "{0} = bitcast i32 {1} to float",
        **{(name, S32): _binary(name, S32) for name in ("add", "sub", "mul", "and", "or", "xor")},
        ("rem", S32): _binary("srem", S32),
        ("div", S32): _binary("sdiv", S32),
        ("min", S32): _intrinsic("smin.i32", 2, S32, S32),
        ("max", S32): _intrinsic("smax.i32", 2, S32, S32),
        ("neg", S32): "{0} = sub i32 0, {1}",
        ("abs", S32): "{0} = call i32 @llvm.abs.i32(i32 {1}, i1 false)",
        ("not", S32): "{0} = xor i32 {1}, -1",
        ("shift_left", S32): _binary("shl", S32),
        ("shift_right", S32): _binary("ashr", S32),
        **{(name, PRED): _binary(name, PRED) for name in ("and", "or", "xor")},
        ("not", PRED): "{0} = xor i1 {1}, true",
        ("select", F32): "{0} = select i1 {1}, float {2}, float {3}",
        ("select", F64): "{0} = select i1 {1}, double {2}, double {3}",
        ("select", S32): "{0} = select i1 {1}, i32 {2}, i32 {3}",
        **{(name, kind): _binary(f"fcmp o{name}", kind) for name in COMPARISONS for kind in (F32, F64)},
        **{("ne", kind): _binary("fcmp une", kind) for kind in (F32, F64)},  # what is no number differs from itself
        **{(name, S32): _binary(f"icmp s{name}", S32) for name in COMPARISONS},
        **{(name, S32): _binary(f"icmp {name}", S32) for name in ("eq", "ne")},
    }

    def __init__(self) -> None:
        super().__init__()
        self._n_registers = 0
        self._room: list[str] = []
        """For variables and tables; LLVM makes registers of most of it."""
        self._n_pointers = {False: 0, True: 0}

    def text(self) -> str:
        """All of it as a function of the results' addresses and of the given arrays'."""
        head = f"define void @{NAME}(ptr %results, ptr %given) {{\nentry:"
        used = {line.split("@llvm.")[1].split("(")[0] for line in self.lines if "@llvm." in line}
        declared = [f"declare {_SIGNATURES[name]}" for name in sorted(used)]
        return "\n".join([*declared, head, *self._room, *self.lines, "\tret void", "}", ""])

    def pointer(self, is_result: bool) -> Register:
        """The address of the next array, of results or of what is given."""
        number, self._n_pointers[is_result] = self._n_pointers[is_result], self._n_pointers[is_result] + 1
        where = "results" if is_result else "given"
        place = self.do(f"{{0}} = getelementptr ptr, ptr %{where}, i64 {number}", ADDRESS)
        return self.do("{0} = load ptr, ptr {1}", ADDRESS, place)

    def for_each(self, n: Register, body: Callable[[Register], None]) -> None:
        """For all of 0 … n − 1, one after the other."""

        def once(state: list[Any]) -> list[Any]:
            (number,) = state
            body(number)
            return [self.basic("add", number, np.int32(1))]

        self.repeat([np.dtype(np.int32)], [np.int32(0)], n, None, once)

    def constant(self, value: Any) -> str:
        if isinstance(value, np.bool_ | bool):
            return "true" if value else "false"
        if isinstance(value, np.integer | int):
            return str(int(value))
        return f"0x{np.float64(value).view(np.uint64):016X}"  # singles are written as doubles

    def new(self, kind: str, varies: bool = False) -> Register:
        self._n_registers += 1
        register = Register(f"%r{self._n_registers}", kind, varies)
        if varies:
            self._room.append(f"\t{register.name} = alloca {TYPES[kind]}")
        return register

    def read(self, variable: Register) -> str:
        return self.do(f"{{0}} = load {TYPES[variable.kind]}, ptr {variable.name}", variable.kind).name

    def copy(self, variable: Register) -> str:
        return self.operand(variable)

    def write(self, variable: Register, operand: str) -> None:
        self.say(f"store {TYPES[variable.kind]} {operand}, ptr {variable.name}")

    def load(self, cell: Cell) -> Register:
        at = self._at(cell)
        if cell.kind == PRED:  # a byte
            byte = self.do("{0} = load i8, ptr {1}", PRED, at)
            return self.do("{0} = icmp ne i8 {1}, 0", PRED, byte)
        return self.do(f"{{0}} = load {TYPES[cell.kind]}, ptr {{1}}", cell.kind, at)

    def store(self, cell: Cell, value: Any) -> None:
        at, operand = self._at(cell), self.operand(value)
        if cell.kind == PRED:
            byte = self.do("{0} = zext i1 {1} to i8", PRED, value)
            self.say(f"store i8 {byte.name}, ptr {at.name}")
        else:
            self.say(f"store {TYPES[cell.kind]} {operand}, ptr {at.name}")

    def _at(self, cell: Cell) -> Register:
        return self.do(f"{{0}} = getelementptr i8, ptr {{1}}, i64 {cell.offset}", ADDRESS, cell.at)

    def moved(self, at: Register, number: Any, stride: int) -> Register:
        wide = self.do("{0} = sext i32 {1} to i64", ADDRESS, number)
        offset = self.do(f"{{0}} = mul i64 {{1}}, {stride}", ADDRESS, wide)
        return self.do("{0} = getelementptr i8, ptr {1}, i64 {2}", ADDRESS, at, offset)

    def table(self, kind: str, n: int) -> Register:
        room = self.new(ADDRESS)
        self._room.append(f"\t{room.name} = alloca [{n} x {TYPES[kind]}]")
        return room

    def load_local(self, kind: str, at: Register, offset: int) -> Register:
        place, into = self._at(Cell(at, offset, kind)), self.new(kind)
        self.say(f"{into.name} = load {TYPES[kind]}, ptr {place.name}")
        return into

    def store_local(self, kind: str, at: Register, operand: str) -> None:
        self.say(f"store {TYPES[kind]} {operand}, ptr {at.name}")

    def label(self, name: str) -> None:
        if not self.lines or not self.lines[-1].lstrip().startswith("br "):
            self.jump(name)
        self.lines.append(f"{name}:")

    def jump(self, label: str) -> None:
        self.say(f"br label %{label}")

    def jump_if(self, operand: str, label: str, negated: bool = False) -> None:
        following = self.new_label()
        one, other = (following, label) if negated else (label, following)
        self.say(f"br i1 {operand}, label %{one}, label %{other}")
        self.lines.append(f"{following}:")


_SIGNATURES = {
    **{
        f"{name}.f32": f"float @llvm.{name}.f32(float)"
        for name in ("fabs", "sqrt", "roundeven", "floor", "ceil", "trunc")
    },
    **{f"{name}.f32": f"float @llvm.{name}.f32(float, float)" for name in ("minimum", "maximum")},
    "fma.f32": "float @llvm.fma.f32(float, float, float)",
    "fma.f64": "double @llvm.fma.f64(double, double, double)",
    **{f"{name}.f64": f"double @llvm.{name}.f64(double)" for name in ("fabs", "roundeven", "trunc")},
    "fptosi.sat.i32.f32": "i32 @llvm.fptosi.sat.i32.f32(float)",
    "fptosi.sat.i32.f64": "i32 @llvm.fptosi.sat.i32.f64(double)",
    **{f"{name}.i32": f"i32 @llvm.{name}.i32(i32, i32)" for name in ("smin", "smax")},
    "abs.i32": "i32 @llvm.abs.i32(i32, i1)",
}
