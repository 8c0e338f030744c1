"""Programs in PTX, the assembly language of NVIDIA's GPUs: a thread has one environment, and loops on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from cisr.kernels.program import ADDRESS, BYTES, COMPARISONS, F32, F64, PRED, S32, Cell, Program, Register

HEADER = ".version 7.0\n.target sm_80\n.address_size 64\n"
NAME = "steps"
TYPES = {F32: "f32", F64: "f64", S32: "s32", PRED: "pred", ADDRESS: "b64"}


def _spelled(instruction: str, n: int) -> str:
    """With its result and n operands."""
    return f"{instruction} {', '.join(f'{{{k}}}' for k in range(n + 1))};"


FLOATS = (F32, F64)


class PtxProgram(Program):
    templates: ClassVar = {
        **{(name, kind): _spelled(f"{name}.rn.{kind}", 2) for name in ("add", "sub", "mul", "div") for kind in FLOATS},
        **{(name, F32): _spelled(f"{name}.NaN.f32", 2) for name in ("min", "max")},
        **{(name, kind): _spelled(f"{name}.{kind}", 1) for name in ("neg", "abs") for kind in FLOATS},
        **{("fma", kind): _spelled(f"fma.rn.{kind}", 3) for kind in FLOATS},
        ("sqrt", F32): _spelled("sqrt.rn.f32", 1),
        ("floor", F32): _spelled("cvt.rmi.f32.f32", 1),
        ("ceil", F32): _spelled("cvt.rpi.f32.f32", 1),
        **{("round", kind): _spelled(f"cvt.rni.{kind}.{kind}", 1) for kind in FLOATS},
        **{("trunc", kind): _spelled(f"cvt.rzi.{kind}.{kind}", 1) for kind in FLOATS},
        **{(name, kind): _spelled(f"cvt.rzi.s32.{kind}", 1) for name in ("whole", "as s32") for kind in FLOATS},
        ("as f32", S32): _spelled("cvt.rn.f32.s32", 1),
        ("as f64", S32): _spelled("cvt.rn.f64.s32", 1),
        ("as f32", F64): _spelled("cvt.rn.f32.f64", 1),
        ("as f64", F32): _spelled("cvt.f64.f32", 1),
        ("bits", F32): _spelled("mov.b32", 1),
        ("of_bits", S32): _spelled("mov.b32", 1),
        **{(name, S32): _spelled(f"{name}.s32", 2) for name in ("add", "sub", "min", "max", "rem", "div")},
        **{(name, S32): _spelled(f"{name}.s32", 1) for name in ("neg", "abs")},
        ("mul", S32): _spelled("mul.lo.s32", 2),
        ("shift_left", S32): _spelled("shl.b32", 2),
        ("shift_right", S32): _spelled("shr.s32", 2),
        **{(name, S32): _spelled(f"{name}.b32", 2) for name in ("and", "or", "xor")},
        ("not", S32): _spelled("not.b32", 1),
        **{(name, PRED): _spelled(f"{name}.pred", 2) for name in ("and", "or", "xor")},
        ("not", PRED): _spelled("not.pred", 1),
        **{("select", kind): f"selp.{kind} {{0}}, {{2}}, {{3}}, {{1}};" for kind in (*FLOATS, S32)},
        **{(name, kind): _spelled(f"setp.{name}.{kind}", 2) for name in COMPARISONS for kind in (*FLOATS, S32)},
        **{("ne", kind): _spelled(f"setp.neu.{kind}", 2) for kind in FLOATS},  # what is no number differs from itself
    }

    def __init__(self) -> None:
        super().__init__()
        self._counts = dict.fromkeys(TYPES, 0)
        self._tables: list[str] = []
        self._parameters: list[str] = []

    def text(self) -> str:
        """All of it as a kernel that takes pointers."""
        taken = ",\n".join(f"\t.param .u64 {parameter}" for parameter in self._parameters)
        variables = [f"\t.reg .{TYPES[kind]} %{kind}_<{count + 1}>;" for kind, count in self._counts.items()]
        head = f"{HEADER}\n.visible .entry {NAME}(\n{taken}\n)\n{{"
        return "\n".join([head, *variables, *self._tables, *self.lines, "\tret;", "}", ""])

    def pointer(self, is_result: bool) -> Register:
        """The address of the next array; results come last."""
        self._parameters.append(f"p{len(self._parameters)}")
        base = self.do(f"ld.param.u64 {{0}}, [{self._parameters[-1]}];", ADDRESS)
        return self.do("cvta.to.global.u64 {0}, {1};", ADDRESS, base)

    def for_each(self, n: Register, body: Callable[[Register], None]) -> None:
        """For all of 0 … n − 1: each thread has one."""
        block, size, thread = (self.do(f"mov.u32 {{0}}, %{name}.x;", S32) for name in ("ctaid", "ntid", "tid"))
        number = self.do("mad.lo.s32 {0}, {1}, {2}, {3};", S32, block, size, thread)
        self.say(f"@{self.basic('ge', number, n).name} ret;")
        body(number)

    def constant(self, value: Any) -> str:
        if isinstance(value, np.bool_ | bool):  # there are none of this kind
            return self.do(f"setp.ne.s32 {{0}}, {int(value)}, 0;", PRED).name
        if isinstance(value, np.integer | int):
            return str(int(value))
        if isinstance(value, np.float32):
            return f"0f{value.view(np.uint32):08X}"
        return f"0d{np.float64(value).view(np.uint64):016X}"

    def new(self, kind: str, varies: bool = False) -> Register:
        self._counts[kind] += 1
        return Register(f"%{kind}_{self._counts[kind]}", kind, varies)

    def read(self, variable: Register) -> str:
        return variable.name

    def copy(self, variable: Register) -> str:
        copy = self.new(variable.kind)
        self.write(copy, variable.name)
        return copy.name

    def write(self, variable: Register, operand: str) -> None:
        self.say(f"mov.{TYPES[variable.kind]} {variable.name}, {operand};")

    def load(self, cell: Cell) -> Register:
        if cell.kind == PRED:  # a byte
            byte = self.do(f"ld.global.nc.u8 {{0}}, [{{1}}+{cell.offset}];", S32, cell.at)
            return self.basic("ne", byte, np.int32(0))  # type: ignore[no-any-return]
        return self.do(f"ld.global.nc.{cell.kind} {{0}}, [{{1}}+{cell.offset}];", cell.kind, cell.at)

    def store(self, cell: Cell, value: Any) -> None:
        kind = "u8" if cell.kind == PRED else cell.kind
        operand = self.operand(self.convert(value, np.int32) if cell.kind == PRED else value)
        self.say(f"st.global.{kind} [{cell.at.name}+{cell.offset}], {operand};")

    def moved(self, at: Register, number: Any, stride: int) -> Register:
        offset = self.do("mul.wide.s32 {0}, {1}, {2};", ADDRESS, number, np.int32(stride))
        return self.do("add.s64 {0}, {1}, {2};", ADDRESS, at, offset)

    def table(self, kind: str, n: int) -> Register:
        name = f"table_{len(self._tables)}"
        self._tables.append(f"\t.local .align {BYTES[kind]} .b8 {name}[{BYTES[kind] * n}];")
        return self.do(f"mov.u64 {{0}}, {name};", ADDRESS)

    def load_local(self, kind: str, at: Register, offset: int) -> Register:
        into = self.new(kind)
        self.say(f"ld.local.{kind} {into.name}, [{at.name}+{offset}];")
        return into

    def store_local(self, kind: str, at: Register, operand: str) -> None:
        self.say(f"st.local.{kind} [{at.name}+0], {operand};")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def jump(self, label: str) -> None:
        self.say(f"bra {label};")

    def jump_if(self, operand: str, label: str, negated: bool = False) -> None:
        self.say(f"@{'!' * negated}{operand} bra {label};")
