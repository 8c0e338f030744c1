"""Looks at a value and at all that it refers to, and says in short texts what is there; see `fingerprint`."""

from __future__ import annotations

import builtins
import collections
import contextlib
import copyreg
import dataclasses
import enum
import hashlib
import importlib
import itertools
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from cisr.store.fingerprint.anatomy import (
    CONTAINERS,
    FIELDS,
    GENERATED,
    NOT_CONTENT,
    REDUCERS,
    TRANSPARENT,
    array,
    caches_of,
    is_made_up,
    is_written,
    join,
    shown,
    state_of,
)
from cisr.store.fingerprint.origin import is_member, is_own_class, is_own_function, origin, version
from cisr.store.fingerprint.syntax import Import, Read, digest_of_code, names_read

MOST_PARTS = 20_000
"""Those beyond are one digest together."""
MOST_READ = 200_000
"""Values that are looked at, before the rest counts as too large."""
MOST_FOR_ORDER = 1_000
"""Values that are looked at to put an element of a set in its place."""
MOST_PLAIN, DEEPEST_PLAIN = 3_000_000, 50
"""Lists, tuples and dictionaries of numbers and words that are looked through, and how deep."""
RECORDED_ELSEWHERE = ("numpy", "jax", "jaxlib")
"""Packages that every store notes as what it was made with, without insisting on them."""
PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, range, type(...)})


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


class TooLargeError(Exception):
    pass


class Reader:
    """Reads one value after the other: those that a value refers to wait until those next to it have been read."""

    def __init__(self, outer: Reader | None = None) -> None:
        self.parts: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.unknown: list[str] = []
        self._met: dict[int, tuple[str, Any]] = {}  # by id: where, and the object itself, so that its id stays its own
        self._waiting: collections.deque[tuple[str, Any]] = collections.deque()
        self._n_read, self._n_plain = 0, 0
        self._rest = hashlib.blake2b(digest_size=6)
        self._outer = outer
        self.vague = False
        """Whether sets were left out."""

    def result(self, values: Mapping[str, Any]) -> Fingerprint:
        try:
            for at, value in values.items():
                self.read(at, value)
            while self._waiting:
                at, value = self._waiting.popleft()
                with self.guarded(at, value):
                    self._compound(at, value)
        except TooLargeError:
            self.vague = True
            self.unknown.append(f"{at or 'itself'} and more (too large)")
        if len(self.parts) > MOST_PARTS:
            self.parts["the rest"] = self._rest.hexdigest()
        return Fingerprint(self.parts, self.packages, tuple(self.unknown))

    @contextlib.contextmanager
    def guarded(self, at: str, value: Any = None) -> Iterator[None]:
        """What a user's objects do when they are looked at is not known."""
        try:
            yield
        except TooLargeError:
            raise
        except Exception as error:
            what = type(error).__name__ if value is None else f"a {type(value).__qualname__}"
            self.unknown.append(f"{at or 'itself'} ({what}: {error})")

    def put(self, at: str, text: str) -> None:
        if len(self.parts) > MOST_PARTS:
            self._rest.update(f"{at}\0{text}\0".encode(errors="surrogatepass"))
            return
        while at in self.parts:  # a global that is called `code`
            at += "'"
        self.parts[at] = text

    def read(self, at: str, value: Any) -> None:
        self._n_read += 1
        if self._n_read > (MOST_FOR_ORDER if self._outer else MOST_READ):
            raise TooLargeError
        known = self._met.get(id(value)) or (self._outer and self._outer._met.get(id(value)))
        if self._is_plain(value):
            with self.guarded(at, value):
                self.put(at, shown(repr(value)))
        elif type(value) is np.ndarray or isinstance(value, np.generic):
            if value.dtype.hasobject:
                self.read(join(at, "objects"), [str(value.dtype), value.shape, value.tolist()])
            else:
                self.put(at, array(np.asarray(value)))
        elif known:
            self.put(at, f"see {known[0]}")
        else:
            self._met[id(value)] = (at or "itself", value)
            self._waiting.append((at, value))

    def _is_plain(self, value: Any) -> bool:
        """Numbers and words, and what is made of them alone."""
        level = [value]
        for _ in range(DEEPEST_PLAIN):
            inner: list[Any] = []
            for each in level:
                if type(each) in (tuple, list):
                    parts = each
                elif type(each) is dict:
                    parts = [*each, *each.values()]
                elif type(each) in PLAIN:
                    continue
                else:
                    return False
                self._n_plain += 1
                if self._n_plain > MOST_PLAIN:
                    return False
                if not set(map(type, parts)) <= PLAIN:
                    inner += parts
            if not inner:
                return True
            level = inner
        return False

    def _compound(self, at: str, value: Any) -> None:
        kind = type(value)
        if isinstance(value, types.ModuleType):
            self._module(at, value)
        elif isinstance(value, enum.Enum):
            self.put(at, f"{kind.__qualname__}.{value.name}")
            self.read(join(at, "class"), kind)
            self._attributes(at, {n: v for n, v in vars(value).items() if n not in ("_value_", "__objclass__")})
        elif isinstance(value, type):
            self._class(at, value)
        elif kind is types.FunctionType:
            self._function(at, value)
        elif kind is types.MethodType and not is_member(value):
            self.read(join(at, f"{getattr(value.__func__, '__name__', '')}()"), value.__func__)
            self.read(join(at, "self"), value.__self__)
        elif kind is types.MappingProxyType:
            self.read(at, dict(value))
        elif kind in TRANSPARENT:
            self.read(at, getattr(value, TRANSPARENT[kind]))
        elif kind in FIELDS:
            self.put(join(at, "kind"), kind.__name__)
            for name in FIELDS[kind]:
                self.read(join(at, name), getattr(value, name))
        elif kind in CONTAINERS:
            self._container(at, value)
        elif any(map(is_own_class, kind.__mro__[:-1])):
            self._object(at, value)
        else:
            self._foreign(at, value)

    def _foreign(self, at: str, value: Any) -> None:
        """An object of a package: known by its name, what is inside it, or its state."""
        kind = type(value)
        builtin = isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType)
        if is_member(value) or (isinstance(value, np.ufunc) and _is_known_ufunc(value)):
            self._named(at, value)
            return
        if builtin or kind in (types.WrapperDescriptorType, types.MethodDescriptorType):
            self._named(at, value)
            if not isinstance(getattr(value, "__self__", None), types.ModuleType | None):
                self.read(join(at, "self"), value.__self__)
            return
        if isinstance(value, np.ufunc):
            raise TypeError("what it computes cannot be read")
        inside = getattr(value, "py_func" if origin(kind.__module__) == "numba" else "__wrapped__", None)
        if callable(inside):  # a cache, a compiled function: what is inside counts
            self.read(at, inside)
            if not any(isinstance(v, types.FunctionType) for v in vars(kind).values()) or hasattr(value, "py_func"):
                return
        if kind.__module__.startswith("jax") and hasattr(value, "__array__"):
            self.put(at, array(np.asarray(value)))
            return
        self._object(at, value)

    def _container(self, at: str, value: Any) -> None:
        if isinstance(value, set | frozenset):
            self._set(at, value)
        elif isinstance(value, dict):
            self.read(join(at, "keys"), list(value))
            for k, (key, each) in enumerate(value.items()):
                self.read(f"{at}[{shown(repr(key)) if self._is_plain(key) else k}]", each)
        else:
            self.put(join(at, "length"), str(len(value)))
            for k, each in enumerate(value):
                self.read(f"{at}[{k}]", each)

    def _set(self, at: str, value: Iterable[Any]) -> None:
        """Elements in the order of what they are: that of the set differs from run to run."""
        elements = list(value)
        if all(map(self._is_plain, elements)):
            self.put(at, shown(f"{{{', '.join(sorted(map(repr, elements)))}}}"))
            return
        self.put(join(at, "size"), str(len(elements)))
        if self._outer:
            self.vague = True
            return
        alike: dict[str, list[Any]] = {}
        for each in elements:
            inner = Reader(self)
            text = repr(sorted(inner.result({"": each}).parts.items()))
            alike.setdefault(f"{text} {inner.vague}", []).append(each)
            self._n_read += inner._n_read // 10
        for k, (text, group) in enumerate(sorted(alike.items())):
            place = f"{at}{{{k}}}"
            if len(group) > 1 and text.endswith("True"):
                self.unknown.append(f"{place} (elements that differ in sets of their own at most)")
                continue
            self.read(place, group[0])
            if len(group) > 1:
                self.put(join(place, "times"), str(len(group)))
                self._met |= {id(each): (place, each) for each in group[1:]}

    def _module(self, at: str, module: types.ModuleType) -> None:
        self._package(module.__name__)
        self.put(at, module.__name__)
        if origin(module.__name__) is None:
            self._attributes(at, {name: v for name, v in vars(module).items() if not name.startswith("__")})

    def _attributes(self, at: str, attributes: Mapping[Any, Any]) -> None:
        for name, value in sorted(attributes.items(), key=lambda item: repr(item[0])):
            if name not in NOT_CONTENT:
                self.read(join(at, str(name) + "()" * is_own_function(value)), value)

    def _named(self, at: str, value: Any, name: str | None = None, module: str | None = None) -> None:
        """Something of a package: its name says what it is, its package's version which."""
        module = module or getattr(value, "__module__", None) or type(value).__module__
        self._package(module)
        name = name or getattr(value, "__qualname__", value.__name__)
        self.put(at, f"{module.partition('.')[0]}.{name}")  # packages move things about between their modules

    def _function(self, at: str, function: types.FunctionType) -> None:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        if is_own_function(function):
            self.put(join(at, "code"), digest_of_code(code, function.__globals__))
        elif is_member(function):
            self._named(at, function)
            return
        else:  # made by a function of a package, perhaps around one of the user's
            self._named(at, function, code.co_qualname, function.__globals__["__name__"])
            if "__wrapped__" in vars(function):
                self.read(join(at, "wraps"), vars(function)["__wrapped__"])
            if "registry" in vars(function):  # functools.singledispatch; the rest is its cache
                self.read(join(at, "registry"), vars(function)["registry"])
                return
        arguments = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        for name, value in [
            *zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True),
            *(function.__kwdefaults__ or {}).items(),
        ]:
            self.read(join(at, f"{name}="), value)
        closed_over = {}
        for name, cell in cells:
            try:
                closed_over[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                self.put(join(at, name), "nothing yet")
        self._attributes(at, vars(function))
        if is_own_function(function):
            for line in names_read(code):
                with self.guarded(join(at, line.names[0])):
                    self._name(at, line, {**function.__globals__, **closed_over})
        else:
            self._attributes(at, closed_over)

    def _name(self, at: str, line: Read, known: Mapping[str, Any]) -> None:
        root, *attributes = line.names
        if root == "__class__":  # for `super()`: the class that is being read, or one that holds this function
            return
        if line.imported is not None:
            value: Any = _import(line.imported, known.get("__package__"))
        elif root in known:
            value = known[root]
        else:
            if not hasattr(builtins, root):
                self.put(join(at, root), "not defined")
            return
        path, installed = root, False
        while isinstance(value, types.ModuleType) and attributes:
            self._package(value.__name__)
            installed = origin(value.__name__) is not None
            if installed and value is not typing and path == root:  # the code says the rest, but not what `np` is
                self.parts[join(at, root)] = value.__name__
            path = f"{path}.{attributes[0]}"
            if not hasattr(value, attributes[0]):
                self.parts[join(at, path)] = "not defined"
                return
            value = getattr(value, attributes.pop(0))
        if value is not typing.cast and (not installed or is_own_function(value)):
            self.read(join(at, path + "()" * is_own_function(value)), value)

    def _class(self, at: str, cls: type) -> None:
        if not is_own_class(cls):
            self._named(at, cls)
            return
        if is_own_class(type(cls)):
            self.read(join(at, "(metaclass)"), type(cls))
        for base in cls.__bases__:
            if base not in (object, typing.Generic, typing.Protocol):
                self.read(join(at, f"({base.__name__})"), base)
        content = {n: v for n, v in vars(cls).items() if not isinstance(v, GENERATED) and not is_made_up(n, v)}
        if issubclass(cls, enum.Enum):
            self.read(join(at, "members"), {name: member.value for name, member in cls.__members__.items()})
            content = {n: v for n, v in content.items() if n not in cls.__members__ and is_written(n, v)}
        if "__dataclass_fields__" in vars(cls):
            fields, how = vars(cls)["__dataclass_fields__"], vars(cls)["__dataclass_params__"]
            self.put(join(at, "fields"), shown(f"{list(fields)}, eq={how.eq}, order={how.order}"))
            for field in dataclasses.fields(cls):
                content.pop(field.name, None)
                for name in ("default", "default_factory", "init", "kw_only", "compare"):
                    value = getattr(field, name)
                    if value is not dataclasses.MISSING and not (name in ("init", "compare") and value):
                        self.read(join(at, field.name if name == "default" else f"{field.name} {name}"), value)
        self._attributes(at, content)

    def _object(self, at: str, value: Any) -> None:
        """An object is its class and its state. That of the user's own is read directly, that of others as `pickle`
        would; cached properties are no state."""
        cls = type(value)
        self.read(join(at, "class"), cls)
        direct = any(map(is_own_class, cls.__mro__[:-1])) or dataclasses.is_dataclass(value)
        if direct:
            self._attributes(at, state_of(value))
            for kind, content in CONTAINERS.items():
                if isinstance(value, kind):
                    plain = content(value) if kind is np.ndarray else kind(content(value))
                    self.read(join(at, "content"), plain)
                    return
            if not any(REDUCERS & vars(base).keys() for base in cls.__mro__[:-1] if not is_own_class(base)):
                return
        reduce = copyreg.dispatch_table.get(cls)
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        if isinstance(reduced, str):
            self.put(at, reduced)
            return
        _, made_from, state, *items = (*reduced, None, None, None)[:5]
        if not (isinstance(made_from, tuple) and len(made_from) == 1 and made_from[0] is cls):
            self.read(join(at, "from"), made_from)
        for k, each in enumerate(items):
            if each is not None:
                self.read(join(at, f"items {k}"), list(itertools.islice(each, MOST_READ)))
        for part in state if isinstance(state, tuple) else (state,):
            if not isinstance(part, Mapping | None):
                self.read(join(at, "state"), part)
            elif part and not direct:
                self._attributes(at, {n: v for n, v in part.items() if n not in caches_of(cls)})

    def _package(self, module: str) -> None:
        name = origin(module)
        if name and name not in RECORDED_ELSEWHERE and name not in self.packages:
            self.packages[name] = version(name)

    def package_of_imports(self, module: str) -> None:
        """The package of a module, and those that the module itself imports: a simulator is often one of them."""
        if origin(module):
            self._package(module)
            for value in vars(sys.modules[module]).values():
                if isinstance(value, types.ModuleType):
                    self._package(value.__name__)


def _is_known_ufunc(value: np.ufunc) -> bool:
    modules = (sys.modules.get(name) for name in ("numpy", "scipy.special"))
    return any(getattr(module, value.__name__, None) is value for module in modules)


def _import(wanted: Import, package: str | None) -> Any:
    module = importlib.import_module(wanted.module, package)
    if wanted.member is None:
        return module
    if not hasattr(module, wanted.member):
        importlib.import_module(f"{module.__name__}.{wanted.member}")
    return getattr(module, wanted.member)
