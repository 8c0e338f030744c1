"""Runs a kernel in PTX, one thread after the other: enough of the language for what cisr writes."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

F = np.float32
_FLOAT = re.compile(r"0f([0-9A-F]{8})")


def _fused(a: Any, b: Any, c: Any) -> Any:
    return F(float(a) * float(b) + float(c))  # a product of singles is exact in double precision


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add.rn.f32": lambda a, b: a + b,
    "sub.rn.f32": lambda a, b: a - b,
    "mul.rn.f32": lambda a, b: a * b,
    "div.rn.f32": lambda a, b: a / b,
    "sqrt.rn.f32": np.sqrt,
    "fma.rn.f32": _fused,
    "neg.f32": lambda a: -a,
    "abs.f32": abs,
    "min.f32": np.fmin,
    "max.f32": np.fmax,
    "cvt.rmi.f32.f32": np.floor,
    "cvt.rni.f32.f32": np.rint,
    "cvt.rzi.f32.f32": np.trunc,
    "cvt.rn.f32.s32": F,
    "cvt.rzi.s32.f32": int,
    "add.s32": lambda a, b: a + b,
    "rem.s32": lambda a, b: int(np.fmod(a, b)),
    "and.b32": lambda a, b: a & b,
    "and.pred": lambda a, b: a and b,
    "or.pred": lambda a, b: a or b,
    "xor.pred": lambda a, b: a != b,
    "not.pred": lambda a: not a,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "mul.wide.s32": lambda a, b: a * b,
    "add.s64": lambda a, b: a + b,
    "cvta.to.global.u64": lambda a: a,
    **{f"mov.{kind}": lambda a: a for kind in ("f32", "s32", "pred", "u32")},
    **{f"selp.{kind}": lambda a, b, p: a if p else b for kind in ("f32", "s32")},
    **{f"setp.eq.{kind}": lambda a, b: bool(a == b) for kind in ("f32", "s32")},
    **{f"setp.{ne}": lambda a, b: bool(a != b) for ne in ("neu.f32", "ne.s32")},
    **{f"setp.lt.{kind}": lambda a, b: bool(a < b) for kind in ("f32", "s32")},
    **{f"setp.le.{kind}": lambda a, b: bool(a <= b) for kind in ("f32", "s32")},
    **{f"setp.gt.{kind}": lambda a, b: bool(a > b) for kind in ("f32", "s32")},
    **{f"setp.ge.{kind}": lambda a, b: bool(a >= b) for kind in ("f32", "s32")},
}


def run_ptx(text: str, inputs: list[np.ndarray], outputs: list[tuple[int, ...]], threads: int) -> list[np.ndarray]:
    """Memory is one array; parameters are addresses in bytes, each array's 2³⁰ after the last."""
    results = [np.full(shape, np.nan, F) for shape in outputs]
    memory = [np.ascontiguousarray(a, F).reshape(-1) for a in inputs] + [r.reshape(-1) for r in results]
    body = text[text.index("{") + 1 : text.rindex("}")]
    lines = [line.strip().rstrip(";") for line in body.splitlines() if line.strip() and ".reg" not in line]
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    program = [_parsed(line) for line in lines if True]
    size = int(results[0].shape[0])
    with np.errstate(all="ignore"):  # both sides of a choice are computed
        for lander in range(-(-size // threads) * threads):
            _run_thread(program, labels, memory, {"%ctaid.x": lander // threads, "%tid.x": lander % threads})
    return results


def _parsed(line: str) -> tuple[str | None, str, list[Any]]:
    """The condition under which it is done, what, and on what; constants are numbers already."""
    condition = None
    if line.startswith("@"):
        condition, line = line[1:].split(" ", 1)
    operation, _, rest = line.partition(" ")
    operands: list[Any] = [part.strip() for part in rest.split(",")] if rest else []
    for k, operand in enumerate(operands):
        if found := _FLOAT.fullmatch(operand):
            operands[k] = np.uint32(int(found[1], 16)).view(F)
        elif re.fullmatch(r"-?\d+", operand):
            operands[k] = int(operand)
    return condition, operation, operands


def _run_thread(program: list[Any], labels: dict[str, int], memory: list[np.ndarray], known: dict[str, Any]) -> None:
    def value(operand: Any) -> Any:
        return known[operand] if isinstance(operand, str) else operand

    def cell(operand: str) -> tuple[np.ndarray, int]:
        name, _, offset = operand.strip("[]").partition("+")
        address = known[name] + int(offset or 0)
        return memory[address >> 30], (address & (1 << 30) - 1) // 4

    at = 0
    while at < len(program):
        condition, operation, operands = program[at]
        at += 1
        if condition is not None:
            negated = condition.startswith("!")
            if known[condition.lstrip("!")] is negated:
                continue
        if operation == "ret":
            return
        if operation == "bra":
            at = labels[operands[0]]
        elif operation.startswith("ld.param"):
            known[operands[0]] = int(operands[1].strip("[p]")) << 30
        elif operation == "ld.global.f32":
            array, index = cell(operands[1])
            known[operands[0]] = array[index]
        elif operation == "st.global.f32":
            array, index = cell(operands[0])
            array[index] = value(operands[1])
        elif not operation.endswith(":"):
            known[operands[0]] = _OPERATIONS[operation](*map(value, operands[1:]))
