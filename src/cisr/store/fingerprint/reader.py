"""Looks at a value and at all that it refers to, and says in short texts what is there; see `fingerprint`."""

from __future__ import annotations

import collections
import contextlib
import enum
import hashlib
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from cisr.store.fingerprint.anatomy import CONTAINERS, FIELDS, NOT_CONTENT, TRANSPARENT, array, join, shown
from cisr.store.fingerprint.functions import read_function, read_module
from cisr.store.fingerprint.objects import read_class, read_foreign, read_object
from cisr.store.fingerprint.origin import is_member, is_own_class, is_own_function, origin, version

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
            read_module(self, at, value)
        elif isinstance(value, enum.Enum):
            self.put(at, f"{kind.__qualname__}.{value.name}")
            self.read(join(at, "class"), kind)
            self.attributes(at, {n: v for n, v in vars(value).items() if n not in ("_value_", "__objclass__")})
        elif isinstance(value, type):
            read_class(self, at, value)
        elif kind is types.FunctionType:
            read_function(self, at, value)
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
            read_object(self, at, value)
        else:
            read_foreign(self, at, value)

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

    def attributes(self, at: str, attributes: Mapping[Any, Any]) -> None:
        for name, value in sorted(attributes.items(), key=lambda item: repr(item[0])):
            if name not in NOT_CONTENT:
                self.read(join(at, str(name) + "()" * is_own_function(value)), value)

    def named(self, at: str, value: Any, name: str | None = None, module: str | None = None) -> None:
        """Something of a package: its name says what it is, its package's version which."""
        module = module or getattr(value, "__module__", None) or type(value).__module__
        self.package(module)
        name = name or getattr(value, "__qualname__", value.__name__)
        self.put(at, f"{module.partition('.')[0]}.{name}")  # packages move things about between their modules

    def package(self, module: str) -> None:
        name = origin(module)
        if name and name not in RECORDED_ELSEWHERE and name not in self.packages:
            self.packages[name] = version(name)

    def package_of_imports(self, module: str) -> None:
        """The package of a module, and those that the module itself imports: a simulator is often one of them."""
        if origin(module):
            self.package(module)
            for value in vars(sys.modules[module]).values():
                if isinstance(value, types.ModuleType):
                    self.package(value.__name__)
