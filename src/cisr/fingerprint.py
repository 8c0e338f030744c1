"""What a piece of a task is, by content: the code of a function and all that it reads.

A store belongs to the code that made its results, so it must notice when a trigger, a constant or a helper changes.
`fingerprint(value)` is a flat dictionary from what was looked at to a short text:

    {"code": "9f3c…", "limit": "0.5", "near().code": "77aa…", "near().tiles": "bool (100,) 1b2c…"}

`code` is a digest of the syntax tree, so comments, docstrings, annotations, formatting and line numbers do not matter;
where there is no source (or it was edited after it was loaded) the bytecode stands in. Functions of the user's own
modules are followed through globals, closures, defaults, bound objects and imports inside functions. Installed packages
are not followed: `packages` has their versions. What cannot be read is listed in `unknown`. Names that are looked up
while a function runs (`getattr(module, name)`) are not seen.
"""

from __future__ import annotations

import builtins
import dataclasses
import enum
import functools
import hashlib
import importlib
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cisr.syntax import Import, digest_of_code, names_read

LONGEST_SHOWN = 60
"""Letters of a value that is shown as it is; of longer ones a digest."""
RECORDED_ELSEWHERE = ("numpy", "jax", "jaxlib")
"""Packages that every store notes as what it was made with, without insisting on them."""
GENERATED = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
NOT_CONTENT = frozenset(
    {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__slots__", "__hash__", "__match_args__"}
    | {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__parameters__"}
    | {"__firstlineno__", "__static_attributes__", "__orig_bases__", "__abstractmethods__", "_abc_impl"}
    | {"__dataclass_params__", "__dataclass_fields__", "__slotnames__"}
)
"""Attributes of a class that say nothing about what it does, or are made from the others."""


class Fingerprint(NamedTuple):
    parts: dict[str, str]
    """Under "" what is said of the value itself, where that is all there is to say."""
    packages: dict[str, str]
    """Versions of the installed packages that were met."""
    unknown: tuple[str, ...]
    """What could not be read, and why."""

    @property
    def content(self) -> dict[str, str] | str:
        """The parts, or the one text that says it all."""
        return self.parts[""] if set(self.parts) == {""} else self.parts


def fingerprint(value: Any) -> Fingerprint:
    """What `value` is, by content; see the module."""
    reader = _Reader()
    reader.read("", value)
    return Fingerprint(reader.parts, reader.packages, tuple(reader.unknown))


def fingerprint_of_environment(env: Any) -> Fingerprint:
    """The classes of an environment and its wrappers, how it was made, and the packages that they come from."""
    reader = _Reader()
    while True:
        for base in type(env).__mro__[:-1]:
            reader.package_of_imports(base.__module__)
        reader.read(type(env).__name__, type(env))
        if env is env.unwrapped:
            break
        env = env.env
    spec = getattr(env, "spec", None)
    if spec is not None:
        reader.read("made with", {"id": spec.id, **spec.kwargs})
    return Fingerprint(reader.parts, reader.packages, tuple(reader.unknown))


def origin(module: str) -> str | None:
    """Where a module comes from: "" for Python's own, None for the user's, else the name of the installed package."""
    if module == "cisr" or module.startswith("cisr."):
        return None if module.startswith("cisr.tasks.") else ""  # a store notes the version of cisr itself
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__":
        return None
    if file is None:
        return "" if module in sys.builtin_module_names or module not in sys.modules else None
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return module.partition(".")[0]
    return "" if any(path.is_relative_to(folder) for folder in _standard_library()) else None


@functools.cache
def _standard_library() -> tuple[Path, ...]:
    return tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))


class _Reader:
    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.unknown: list[str] = []
        self._met: dict[int, tuple[str, Any]] = {}  # by id: where, and the object itself, so that its id stays its own

    def read(self, at: str, value: Any) -> None:
        if _is_plain(value):
            self.parts[at] = _shown(repr(value))
        elif isinstance(value, enum.Enum):
            self.parts[at] = f"{type(value).__qualname__}.{value.name}"
        elif isinstance(value, np.ndarray | np.generic) and value.dtype != object:
            self.parts[at] = _array(np.asarray(value))
        elif isinstance(value, types.ModuleType):
            self._package(value.__name__)
        elif id(value) in self._met:
            self.parts[at] = f"see {self._met[id(value)][0]}"
        else:
            self._met[id(value)] = (at or "itself", value)
            self._read_compound(at, value)

    def _read_compound(self, at: str, value: Any) -> None:
        wrapped = getattr(value, "__wrapped__", None) or getattr(value, "py_func", None)
        if isinstance(value, tuple) and type(value) is not tuple:
            self.parts[_join(at, "kind")] = type(value).__qualname__
        match value:
            case types.FunctionType():
                self._function(at, value)
            case types.MethodType():
                self.read(_join(at, f"{value.__func__.__name__}()"), value.__func__)
                self.read(_join(at, "self"), value.__self__)
            case functools.partial():
                for what in ("func", "args", "keywords"):
                    self.read(_join(at, what), getattr(value, what))
            case staticmethod() | classmethod():
                self.read(at, value.__func__)
            case property():
                for what in ("fget", "fset", "fdel"):
                    if getattr(value, what) is not None:
                        self.read(_join(at, what), getattr(value, what))
            case functools.cached_property():
                self.read(at, value.func)
            case type():
                self._class(at, value)
            case tuple() | list():
                self._items(at, list(enumerate(value)))
            case Mapping():
                self._items(at, sorted(value.items(), key=lambda item: _key(item[0])))
            case set() | frozenset():
                self.parts[at] = _shown(f"{{{', '.join(sorted(str(fingerprint(each).parts) for each in value))}}}")
            case _ if callable(wrapped):  # a cache, a compiled function: what is inside counts
                self.read(at, wrapped)
            case _ if callable(value) and hasattr(value, "__name__") and _is_foreign(value):
                self._named(at, value)
            case _:
                self._object(at, value)

    def _items(self, at: str, items: Iterable[tuple[Any, Any]]) -> None:
        self.parts[_join(at, "length")] = str(len(list(items)))
        for key, value in items:
            self.read(f"{at}[{_key(key)}]", value)

    def _named(self, at: str, value: Any) -> None:
        """Something of a package: its name says what it is, its package's version which."""
        module = _module_of(value)
        self._package(module)
        name = getattr(value, "__qualname__", value.__name__)
        self.parts[at] = f"{module.partition('.')[0]}.{name}"  # packages move things about between their modules

    def _function(self, at: str, function: types.FunctionType) -> None:
        if not _is_own_function(function):
            self._named(at, function)
            return
        code = function.__code__
        self.parts[_join(at, "code")] = digest_of_code(code, function.__globals__)
        arguments = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        for name, value in [
            *zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True),
            *(function.__kwdefaults__ or {}).items(),
        ]:
            self.read(_join(at, f"{name}="), value)
        closed_over = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                closed_over[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                self.parts[_join(at, name)] = "nothing yet"
        self._names(at, function, closed_over)

    def _names(self, at: str, function: types.FunctionType, closed_over: Mapping[str, Any]) -> None:
        known = {**function.__globals__, **closed_over}
        for line in names_read(function.__code__):
            root, *attributes = line.names
            if root == "__class__":  # for `super()`: the class that is being read, or one that holds this function
                continue
            if line.imported is not None:
                try:
                    value: Any = _import(line.imported, function.__globals__.get("__package__"))
                except Exception as error:
                    self.unknown.append(f"{_join(at, root)} ({type(error).__name__}: {error})")
                    continue
            elif root in known:
                value = known[root]
            elif hasattr(builtins, root):
                continue
            else:
                self.parts[_join(at, root)] = "not defined"
                continue
            path, installed = root, False
            while isinstance(value, types.ModuleType) and attributes and hasattr(value, attributes[0]):
                self._package(value.__name__)
                installed = origin(value.__name__) is not None
                path = f"{path}.{attributes[0]}"
                value = getattr(value, attributes.pop(0))
            if not installed:  # of `np.stack` the code itself says the name
                self.read(_join(at, path + "()" * _is_own_function(value)), value)

    def _class(self, at: str, cls: type) -> None:
        if origin(cls.__module__) is not None:
            self._named(at, cls)
            return
        for base in cls.__bases__:
            if base is not object:
                self.read(_join(at, f"({base.__name__})"), base)
        if issubclass(cls, enum.Enum):
            self.read(_join(at, "members"), {name: member.value for name, member in cls.__members__.items()})
        for name, value in sorted(vars(cls).items()):
            if name in NOT_CONTENT or isinstance(value, GENERATED) or _made_up(value):
                continue
            if not (issubclass(cls, enum.Enum) and name in (*cls.__members__, *vars(enum.Enum))):
                self.read(_join(at, name), value)

    def _object(self, at: str, value: Any) -> None:
        """An object is its class and its state, as `copy` and `pickle` see it; cached properties are no state."""
        cls = type(value)
        self.read(_join(at, "class"), cls)
        if type(value).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(value, "__array__"):
            self.parts[at] = _array(np.asarray(value))
            return
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                self.read(_join(at, field.name), getattr(value, field.name))
            return
        try:
            reduced = value.__reduce_ex__(4)
            if isinstance(reduced, str):
                self.parts[at] = reduced
                return
            _, made_from, state, *items = (*reduced, None, None, None)[:5]
            for what, content in (("from", made_from), *((f"items {k}", list(i)) for k, i in enumerate(items) if i)):
                self.read(_join(at, what), content)
            fields = [part for part in (state if isinstance(state, tuple) else (state,)) if part is not None]
            for part in fields:
                if isinstance(part, Mapping):
                    cached = {n for base in cls.__mro__ for n, v in vars(base).items() if _is_cache(v)}
                    for name in sorted(part, key=repr):
                        if name not in cached:
                            self.read(_join(at, str(name)), part[name])
                else:
                    self.read(_join(at, "state"), part)
        except Exception as error:
            self.unknown.append(f"{at or 'itself'} (a {cls.__qualname__}: {error})")

    def _package(self, module: str) -> None:
        name = origin(module)
        if name and name not in RECORDED_ELSEWHERE and name not in self.packages:
            self.packages[name] = _version(name)

    def package_of_imports(self, module: str) -> None:
        """The package of a module, and those that the module itself imports: a simulator is often one of them."""
        if origin(module):
            self._package(module)
            for value in vars(sys.modules[module]).values():
                if isinstance(value, types.ModuleType):
                    self._package(value.__name__)


def _is_plain(value: Any) -> bool:
    """Numbers and words, and what is made of them alone."""
    if type(value) in (tuple, list):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return value is None or type(value) in (bool, int, float, complex, str, bytes, range, slice, type(...))


def _is_own_function(value: Any) -> bool:
    """Functions that `exec` made without a module count as the user's."""
    return isinstance(value, types.FunctionType) and (value.__module__ in (None, "builtins") or not _is_foreign(value))


def _is_foreign(value: Any) -> bool:
    return origin(_module_of(value)) is not None


def _made_up(value: Any) -> bool:
    """What `dataclass` or `NamedTuple` wrote: it follows from the fields."""
    if not isinstance(value, types.FunctionType):
        return type(value).__name__ == "_tuplegetter"
    file = value.__code__.co_filename
    return file.startswith("<string>") or any(Path(file).is_relative_to(folder) for folder in _standard_library())


def _module_of(value: Any) -> str:
    return getattr(value, "__module__", None) or type(value).__module__


def _is_cache(value: Any) -> bool:
    return isinstance(value, functools.cached_property)


@functools.cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        names = _distributions().get(package, [])
        return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(names))) or "unknown"


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def _array(array: np.ndarray) -> str:
    if array.size <= 8 and len(text := f"{array.dtype} {array.tolist()}") <= LONGEST_SHOWN:
        return text
    content = np.ascontiguousarray(array)
    return f"{array.dtype} {array.shape} {_digest(content.tobytes())}"


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 20]}… {_digest(text.encode())}"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=6).hexdigest()


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _import(wanted: Import, package: str | None) -> Any:
    module = importlib.import_module(wanted.module, package)
    if wanted.member is None:
        return module
    if not hasattr(module, wanted.member):
        importlib.import_module(f"{module.__name__}.{wanted.member}")
    return getattr(module, wanted.member)


def _key(key: Any) -> str:
    return repr(key) if isinstance(key, str | int | float | tuple) else type(key).__qualname__
