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
import linecache
import sys
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any, NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
IGNORED = frozenset({"ctx", "kind", "type_comment", "type_params", "returns", "annotation", "decorator_list"})
"""Fields of the tree that do not change what a function does; decorators have done it when there is a function."""
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
    """A digest of what a function does, by itself: not of the values that it reads."""
    node = _node(code, module_globals)
    if node is None:
        content = f"python {sys.version_info[:2]} {_bytecode(code)}"
    else:
        content = repr((_tree(node.args), _tree(node.body)))
    return hashlib.blake2b(content.encode(), digest_size=6).hexdigest()


def names_read(code: CodeType, imports: Mapping[str, Import] = {}) -> list[Read]:
    """What code reads from outside of itself, in the order of first use; functions inside it included.

    `imports` are those of the functions around it.
    """
    instructions = [i for i in dis.get_instructions(code) if i.opname not in SKIPPED]
    imported = {**imports, **_imports(instructions)}
    own = {*code.co_varnames, *code.co_cellvars}
    found: dict[Read, None] = {}
    for k, instruction in enumerate(instructions):
        if not instruction.opname.startswith(VARIABLES):
            continue
        loaded = instruction.argval
        name = loaded[-1] if isinstance(loaded, tuple) else loaded
        attributes = []
        for after in instructions[k + 1 :]:
            if after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                break
            attributes.append(after.argval)
        if name in imported:
            found[Read((name, *attributes), imported[name])] = None
        elif name not in own:
            found[Read((name, *attributes))] = None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= {read: None for read in names_read(inner, imported) if read.imported or read.names[0] not in own}
    return list(found)


def _imports(instructions: list[dis.Instruction]) -> dict[str, Import]:
    """The names that code binds by importing."""
    bound: dict[str, Import] = {}
    module, members, member = "", None, None
    importing = False
    for k, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            importing, member = True, None
            module = "." * int(instructions[k - 2].argval or 0) + instruction.argval
            members = instructions[k - 1].argval
        elif instruction.opname == "IMPORT_FROM":
            member = instruction.argval
        elif importing and instruction.opname.startswith("STORE_"):
            if members:
                bound[instruction.argval] = Import(module, member)
            else:
                bound[instruction.argval] = Import(module if member else module.partition(".")[0] or module, None)
                importing = False
        elif importing and instruction.opname not in ("SWAP", "ROT_TWO", "POP_TOP"):
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
    around = [node for node in alike if all(_begins(node) <= span <= _ends(node) for span in spans)]
    return max(around or alike, key=_begins, default=None)


class _Parsed(NamedTuple):
    functions: list[Function]
    codes: frozenset[CodeType]


@functools.lru_cache(maxsize=256)
def _parsed(source: str, filename: str) -> _Parsed | None:
    try:
        tree = ast.parse(source, filename)
        whole = compile(source, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
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


def _tree(node: Any) -> Any:
    """A syntax tree as nested tuples, without what does not change what it does."""
    if isinstance(node, list):
        return [_tree(part) for part in node if not _is_idle(part)]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in IGNORED and value not in (None, []))
    return (type(node).__name__, *((name, _tree(value)) for name, value in fields))


def _is_idle(node: Any) -> bool:
    """Docstrings, and `pass`."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


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
