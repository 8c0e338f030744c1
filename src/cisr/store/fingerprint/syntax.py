"""The source behind a code object: a digest of its syntax tree, and the names that it reads.

The tree is found by compiling the file again: a code object equal to the one at hand proves that the file is what was
loaded. Without source, or where the file has changed since, the bytecode is digested instead, which knows neither
comments nor line numbers but differs between versions of Python.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import itertools
import linecache
import re
import sys
import typing
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any, NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
IGNORED = frozenset({"ctx", "kind", "type_comment", "type_params", "returns", "annotation"})
"""Fields of the tree that do not change what a function does."""
SKIPPED = frozenset({"RESUME", "NOP", "CACHE", "EXTENDED_ARG", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "PUSH_NULL"})
VARIABLES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR", "LOAD_FAST")


class Import(NamedTuple):
    """What an import inside a function binds to a name."""

    module: str
    """With a dot for each level of a relative import."""
    member: str | None


class Read(NamedTuple):
    """A name that code looks up, with the attributes that it takes from it at once: `np.linalg.norm`."""

    names: tuple[str, ...]
    imported: Import | None = None
    """Where the code has the name from, if it imports it itself."""


def digest_of_code(code: CodeType, module_globals: dict[str, Any]) -> str:
    """A digest of what a function does, by itself: not of the values that it reads.

    Its decorators have done what they do when there is a function; those inside it count.
    """
    node = _node(code, module_globals)
    if node is None:
        content = f"python {sys.version_info[:2]} {_bytecode(code)}"
    else:
        content = repr((_tree(node.args, module_globals), _tree(_body(node), module_globals)))
    return hashlib.blake2b(content.encode(), digest_size=6).hexdigest()


def names_read(code: CodeType, imports: Mapping[str, Import] = {}) -> list[Read]:
    """What code reads from outside of itself, in the order of first use; functions inside it included.

    `imports` are those of the functions around it.
    """
    instructions = _instructions(code)
    imported = {**imports, **_imports(instructions)}
    own = {*code.co_varnames, *code.co_cellvars}
    found: dict[Read, None] = {}
    for k, (operation, name) in enumerate(instructions):
        if not operation.startswith(VARIABLES):
            continue
        attributes = [
            attribute
            for _, attribute in itertools.takewhile(
                lambda i: i[0] in ("LOAD_ATTR", "LOAD_METHOD"), instructions[k + 1 :]
            )
        ]
        if name in imported:
            found[Read((name, *attributes), imported[name])] = None
        elif name not in own:
            found[Read((name, *attributes))] = None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= {read: None for read in names_read(inner, imported) if read.imported or read.names[0] not in own}
    return list(found)


def _instructions(code: CodeType) -> list[tuple[str, Any]]:
    """Operations with what they refer to; those that Python 3.13 made of two, as two."""
    found: list[tuple[str, Any]] = []
    for instruction in dis.get_instructions(code):
        halves = re.findall("(?:LOAD|STORE)_FAST(?:_BORROW)?", instruction.opname)
        if isinstance(instruction.argval, tuple) and len(halves) == 2:
            found += zip(halves, instruction.argval, strict=True)
        elif instruction.opname not in SKIPPED:
            found.append((instruction.opname, instruction.argval))
    return found


def _imports(instructions: list[tuple[str, Any]]) -> dict[str, Import]:
    """The names that code binds by importing."""
    bound: dict[str, Import] = {}
    module, members, member = "", None, None
    importing = False
    for k, (operation, name) in enumerate(instructions):
        if operation == "IMPORT_NAME":
            importing, member = True, None
            module = "." * int(instructions[k - 2][1] or 0) + name
            members = instructions[k - 1][1]
        elif operation == "IMPORT_FROM":
            member = name
        elif importing and operation.startswith("STORE_"):
            if members:
                bound[name] = Import(module, member)
            else:
                bound[name] = Import(module if member else module.partition(".")[0] or module, None)
                importing = False
        elif importing and operation not in ("SWAP", "ROT_TWO", "POP_TOP"):
            importing = False
    return bound


def _node(code: CodeType, module_globals: dict[str, Any]) -> Function | None:
    """The piece of source that a code object was compiled from; None where that is not certain."""
    source = "".join(linecache.getlines(code.co_filename, module_globals))
    if not source:
        return None
    parsed = _parsed(source, code.co_filename)
    if parsed is None or code not in parsed.codes:
        return None
    alike = [
        node
        for node in parsed.functions
        if getattr(node, "name", "<lambda>") == code.co_name and _first_line(node) == code.co_firstlineno
    ]
    spans = [(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None]
    spans = [span for span in spans if span != (code.co_firstlineno, 0)]
    if len(alike) > 1:
        alike = [node for node in alike if spans and all(_begins(node) <= span <= _ends(node) for span in spans)]
    return max(alike, key=_begins, default=None)


class _Parsed(NamedTuple):
    functions: list[Function]
    codes: frozenset[CodeType]


@functools.lru_cache(maxsize=256)
def _parsed(source: str, filename: str) -> _Parsed | None:
    try:
        tree = ast.parse(source, filename)
        whole = compile(source, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    return _Parsed(functions, frozenset(_codes(whole)))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _first_line(node: Function) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _begins(node: Function) -> tuple[int, int]:
    """Where the body begins: of two functions around a piece of code, the inner one begins later."""
    first = node.body if isinstance(node, ast.Lambda) else node.body[0]
    return first.lineno, first.col_offset


def _ends(node: Function) -> tuple[int, int]:
    last = node.body if isinstance(node, ast.Lambda) else node.body[-1]
    return last.end_lineno or 0, last.end_col_offset or 0


def _tree(node: Any, module_globals: Mapping[str, Any]) -> list[str]:
    """A syntax tree in one line, without what does not change what it does; long sums are deep trees."""
    line: list[str] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):  # a bracket
            line.append(node)
        elif isinstance(node, list):
            waiting += [")", *(part for part in reversed(node) if not _is_idle(part)), "("]
        elif _is_cast(node, module_globals):
            waiting.append(node.args[1])
        elif isinstance(node, ast.AST):
            line.append(type(node).__name__)
            waiting.append(")")
            for name, value in reversed(list(ast.iter_fields(node))):
                if name in IGNORED or value is None or value == []:
                    continue
                if (
                    name in ("body", "orelse", "finalbody")
                    and isinstance(value, list)
                    and not isinstance(node, ast.ClassDef)
                ):
                    value = [_without_annotation(part) for part in value]
                waiting += [value if isinstance(value, list | ast.AST) else f"{value!r}", name]
            waiting.append("(")
        else:  # None, where a list has a gap
            line.append(repr(node))
    return line


def _body(node: Function) -> Any:
    return node.body if isinstance(node, ast.Lambda) else [_without_annotation(part) for part in node.body]


def _without_annotation(node: ast.AST) -> ast.AST:
    """`x: int = 1` as `x = 1`; in the body of a class an annotation may make a field."""
    if not isinstance(node, ast.AnnAssign):
        return node
    return ast.Pass() if node.value is None else ast.Assign(targets=[node.target], value=node.value)


def _is_idle(node: Any) -> bool:
    """Docstrings, and `pass`."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _is_cast(node: Any, module_globals: Mapping[str, Any]) -> bool:
    match node:
        case ast.Call(func=ast.Name(name), args=[_, _]):
            return module_globals.get(name) is typing.cast
        case ast.Call(func=ast.Attribute(ast.Name(name), "cast"), args=[_, _]):
            return module_globals.get(name) is typing
    return False


def _bytecode(code: CodeType) -> Any:
    """Instructions with what they refer to, jumps by their distance in instructions."""
    kept = [i for i in dis.get_instructions(code) if i.opname not in SKIPPED]
    offsets = [i.offset for i in kept]

    def argument(number: int, instruction: dis.Instruction) -> Any:
        if instruction.opcode in (*dis.hasjrel, *dis.hasjabs):
            return sum(offset < instruction.argval for offset in offsets) - number
        value = instruction.argval
        return _bytecode(value) if isinstance(value, CodeType) else repr(value)

    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return arguments, [(i.opname, argument(k, i)) for k, i in enumerate(kept)]
