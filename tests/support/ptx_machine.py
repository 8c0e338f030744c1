"""Runs a kernel in PTX, one thread after the other: enough of the language for what cisr writes."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

F = np.float32
D = np.float64
_FLOAT, _DOUBLE = re.compile(r"0f([0-9A-F]{8})"), re.compile(r"0d([0-9A-F]{16})")
_TYPES = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "u8": np.uint8}
_SHARE = 1 << 32
"""Of addresses that an array has."""


def _fused(a: Any, b: Any, c: Any) -> Any:
    """A product of singles is exact in double precision; adding there rounds twice, which hardly ever shows."""
    return F(float(a) * float(b) + float(c))


def _fused_doubles(a: Any, b: Any, c: Any) -> Any:
    if not np.isfinite([a, b, c]).all():
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return D(float(exact)) if exact else a * b + c  # a zero has a sign


def _whole(x: Any) -> int:
    """What is no number becomes 0 if it is a single, and the least number if it is a double."""
    if np.isnan(x):
        return 0 if isinstance(x, F) else -(2**31)
    return int(np.clip(float(x), -(2**31), 2**31 - 1))


def _quotient(a: int, b: int) -> int:
    """Towards zero. A division by zero has no result that could be relied on."""
    assert b != 0, "a division by zero"
    return _wrapped(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def _wrapped(n: int) -> int:
    return (int(n) + 2**31) % 2**32 - 2**31


def _order(x: Any) -> bool:
    """Of zeros: the negative one comes first."""
    return not np.signbit(x)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{f"add.rn.{kind}": lambda a, b: a + b for kind in ("f32", "f64")},
    **{f"sub.rn.{kind}": lambda a, b: a - b for kind in ("f32", "f64")},
    **{f"mul.rn.{kind}": lambda a, b: a * b for kind in ("f32", "f64")},
    **{f"div.rn.{kind}": lambda a, b: a / b for kind in ("f32", "f64")},
    "sqrt.rn.f32": np.sqrt,
    "fma.rn.f32": _fused,
    "fma.rn.f64": _fused_doubles,
    **{f"neg.{kind}": lambda a: -a for kind in ("f32", "f64")},
    **{f"abs.{kind}": abs for kind in ("f32", "f64")},
    "min.NaN.f32": lambda a, b: min((a, b), key=_order) if a == b else np.minimum(a, b),
    "max.NaN.f32": lambda a, b: max((a, b), key=_order) if a == b else np.maximum(a, b),
    "cvt.rmi.f32.f32": np.floor,
    "cvt.rpi.f32.f32": np.ceil,
    **{f"cvt.rni.{kind}.{kind}": np.rint for kind in ("f32", "f64")},
    **{f"cvt.rzi.{kind}.{kind}": np.trunc for kind in ("f32", "f64")},
    "cvt.rn.f32.s32": F,
    "cvt.rn.f64.s32": D,
    "cvt.rn.f32.f64": F,
    "cvt.f64.f32": D,
    **{f"cvt.rzi.s32.{kind}": _whole for kind in ("f32", "f64")},
    "mov.b32": lambda a: int(a.view(np.int32)) if isinstance(a, F) else np.int32(a).view(F),
    "add.s32": lambda a, b: _wrapped(a + b),
    "sub.s32": lambda a, b: _wrapped(a - b),
    "mul.lo.s32": lambda a, b: _wrapped(a * b),
    "div.s32": _quotient,
    "rem.s32": lambda a, b: int(np.fmod(a, b)),
    "min.s32": min,
    "max.s32": max,
    "neg.s32": lambda a: _wrapped(-a),
    "abs.s32": lambda a: _wrapped(abs(a)),
    "shl.b32": lambda a, n: _wrapped(a << n),
    "shr.s32": lambda a, n: a >> n,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "not.b32": lambda a: ~a,
    "and.pred": lambda a, b: a and b,
    "or.pred": lambda a, b: a or b,
    "xor.pred": lambda a, b: a != b,
    "not.pred": lambda a: not a,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "mul.wide.s32": lambda a, b: a * b,
    "add.s64": lambda a, b: a + b,
    "cvta.to.global.u64": lambda a: a,
    **{f"mov.{kind}": lambda a: a for kind in ("f32", "f64", "s32", "pred", "u32")},
    **{f"selp.{kind}": lambda a, b, p: a if p else b for kind in ("f32", "f64", "s32")},
    **{f"setp.eq.{kind}": lambda a, b: bool(a == b) for kind in ("f32", "f64", "s32")},
    **{f"setp.{ne}": lambda a, b: bool(a != b) for ne in ("neu.f32", "neu.f64", "ne.s32")},
    **{f"setp.lt.{kind}": lambda a, b: bool(a < b) for kind in ("f32", "f64", "s32")},
    **{f"setp.le.{kind}": lambda a, b: bool(a <= b) for kind in ("f32", "f64", "s32")},
    **{f"setp.gt.{kind}": lambda a, b: bool(a > b) for kind in ("f32", "f64", "s32")},
    **{f"setp.ge.{kind}": lambda a, b: bool(a >= b) for kind in ("f32", "f64", "s32")},
}


def run_ptx(text: str, given: list[np.ndarray], results: list[np.ndarray], n: int, threads: int = 2) -> None:
    """Fill the results. Parameters are addresses, each array's far from the next one's; there is a thread more than
    there is work for."""
    body = text[text.index("{") + 1 : text.rindex("}")]
    lines = [line.strip().rstrip(";") for line in body.splitlines() if line.strip() and ".reg" not in line]
    tables = [line.split()[-1] for line in lines if line.startswith(".local")]
    lines = [line for line in lines if not line.startswith(".local")]
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    program = [_parsed(line) for line in lines]
    arrays = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (*given, *results)]
    assert all(np.shares_memory(array, mine) for array, mine in zip(results, arrays[len(given) :], strict=True))
    with np.errstate(all="ignore"):  # both sides of a choice are computed
        for thread in range((-(-n // threads) + 1) * threads):
            known = {"%ctaid.x": thread // threads, "%ntid.x": threads, "%tid.x": thread % threads}
            memory = list(arrays)
            for table in tables:
                name, _, size = table.strip("]").partition("[")
                known[name] = len(memory) * _SHARE
                memory.append(np.zeros(int(size), np.uint8))
            _run_thread(program, labels, memory, known)


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
        elif found := _DOUBLE.fullmatch(operand):
            operands[k] = np.uint64(int(found[1], 16)).view(D)
        elif re.fullmatch(r"-?\d+", operand):
            operands[k] = int(operand)
    return condition, operation, operands


def _run_thread(program: list[Any], labels: dict[str, int], memory: list[np.ndarray], known: dict[str, Any]) -> None:
    def value(operand: Any) -> Any:
        return known[operand] if isinstance(operand, str) else operand

    def cell(operand: str, kind: str) -> np.ndarray:
        name, _, offset = operand.strip("[]").partition("+")
        address = known[name] + int(offset or 0)
        size, start = np.dtype(_TYPES[kind]).itemsize, address % _SHARE
        found = memory[address // _SHARE][start : start + size]
        assert len(found) == size, f"{operand} is beyond its array"
        return found.view(_TYPES[kind])

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
            known[operands[0]] = int(operands[1].strip("[p]")) * _SHARE
        elif operation == "mov.u64":
            known[operands[0]] = known[operands[1]]
        elif operation.startswith("ld."):
            kind = operation.rpartition(".")[2]
            (found,) = cell(operands[1], kind)
            known[operands[0]] = found if kind in ("f32", "f64") else int(found)
        elif operation.startswith("st."):
            cell(operands[0], operation.rpartition(".")[2])[0] = value(operands[1])
        elif not operation.endswith(":"):
            known[operands[0]] = _OPERATIONS[operation](*map(value, operands[1:]))
