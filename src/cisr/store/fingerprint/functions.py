"""How functions and modules are read: their code, and what it refers to."""

from __future__ import annotations

import builtins
import importlib
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cisr.store.fingerprint.anatomy import join
from cisr.store.fingerprint.origin import is_member, is_own_function, origin
from cisr.store.fingerprint.syntax import Import, Read, digest_of_code, names_read

if TYPE_CHECKING:
    from cisr.store.fingerprint.reader import Reader


def read_module(reader: Reader, at: str, module: types.ModuleType) -> None:
    reader.package(module.__name__)
    reader.put(at, module.__name__)
    if origin(module.__name__) is None:
        reader.attributes(at, {name: v for name, v in vars(module).items() if not name.startswith("__")})


def read_function(reader: Reader, at: str, function: types.FunctionType) -> None:
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    if is_own_function(function):
        reader.put(join(at, "code"), digest_of_code(code, function.__globals__))
    elif is_member(function):
        reader.named(at, function)
        return
    else:  # made by a function of a package, perhaps around one of the user's
        reader.named(at, function, code.co_qualname, function.__globals__["__name__"])
        if "__wrapped__" in vars(function):
            reader.read(join(at, "wraps"), vars(function)["__wrapped__"])
        if "registry" in vars(function):  # functools.singledispatch; the rest is its cache
            reader.read(join(at, "registry"), vars(function)["registry"])
            return
    arguments = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    for name, value in [
        *zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True),
        *(function.__kwdefaults__ or {}).items(),
    ]:
        reader.read(join(at, f"{name}="), value)
    closed_over = {}
    for name, cell in cells:
        try:
            closed_over[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            reader.put(join(at, name), "nothing yet")
    reader.attributes(at, vars(function))
    if is_own_function(function):
        for line in names_read(code):
            with reader.guarded(join(at, line.names[0])):
                _read_name(reader, at, line, {**function.__globals__, **closed_over})
    else:
        reader.attributes(at, closed_over)


def _read_name(reader: Reader, at: str, line: Read, known: Mapping[str, Any]) -> None:
    root, *attributes = line.names
    if root == "__class__":  # for `super()`: the class that is being read, or one that holds this function
        return
    if line.imported is not None:
        value: Any = _import(line.imported, known.get("__package__"))
    elif root in known:
        value = known[root]
    else:
        if not hasattr(builtins, root):
            reader.put(join(at, root), "not defined")
        return
    path, installed = root, False
    while isinstance(value, types.ModuleType) and attributes:
        reader.package(value.__name__)
        installed = origin(value.__name__) is not None
        if installed and value is not typing and path == root:  # the code says the rest, but not what `np` is
            reader.parts[join(at, root)] = value.__name__
        path = f"{path}.{attributes[0]}"
        if not hasattr(value, attributes[0]):
            reader.parts[join(at, path)] = "not defined"
            return
        value = getattr(value, attributes.pop(0))
    if value is not typing.cast and (not installed or is_own_function(value)):
        reader.read(join(at, path + "()" * is_own_function(value)), value)


def _import(wanted: Import, package: str | None) -> Any:
    module = importlib.import_module(wanted.module, package)
    if wanted.member is None:
        return module
    if not hasattr(module, wanted.member):
        importlib.import_module(f"{module.__name__}.{wanted.member}")
    return getattr(module, wanted.member)
