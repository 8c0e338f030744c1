"""How classes and their objects are read."""

from __future__ import annotations

import copyreg
import dataclasses
import enum
import itertools
import sys
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cisr.store.fingerprint.anatomy import (
    CONTAINERS,
    GENERATED,
    REDUCERS,
    array,
    caches_of,
    is_made_up,
    is_written,
    join,
    shown,
    state_of,
)
from cisr.store.fingerprint.origin import is_member, is_own_class, origin

if TYPE_CHECKING:
    from cisr.store.fingerprint.reader import Reader

MOST_ITEMS = 200_000
"""Of a container that `pickle` would be told of."""


def read_foreign(reader: Reader, at: str, value: Any) -> None:
    """An object of a package: known by its name, what is inside it, or its state."""
    kind = type(value)
    builtin = isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType)
    if is_member(value) or (isinstance(value, np.ufunc) and _is_known_ufunc(value)):
        reader.named(at, value)
        return
    if builtin or kind in (types.WrapperDescriptorType, types.MethodDescriptorType):
        reader.named(at, value)
        if not isinstance(getattr(value, "__self__", None), types.ModuleType | None):
            reader.read(join(at, "self"), value.__self__)
        return
    if isinstance(value, np.ufunc):
        raise TypeError("what it computes cannot be read")
    inside = getattr(value, "py_func" if origin(kind.__module__) == "numba" else "__wrapped__", None)
    if callable(inside):  # a cache, a compiled function: what is inside counts
        reader.read(at, inside)
        if not any(isinstance(v, types.FunctionType) for v in vars(kind).values()) or hasattr(value, "py_func"):
            return
    if kind.__module__.startswith("jax") and hasattr(value, "__array__"):
        reader.put(at, array(np.asarray(value)))
        return
    read_object(reader, at, value)


def read_class(reader: Reader, at: str, cls: type) -> None:
    if not is_own_class(cls):
        reader.named(at, cls)
        return
    if is_own_class(type(cls)):
        reader.read(join(at, "(metaclass)"), type(cls))
    for base in cls.__bases__:
        if base not in (object, typing.Generic, typing.Protocol):
            reader.read(join(at, f"({base.__name__})"), base)
    content = {n: v for n, v in vars(cls).items() if not isinstance(v, GENERATED) and not is_made_up(n, v)}
    if issubclass(cls, enum.Enum):
        reader.read(join(at, "members"), {name: member.value for name, member in cls.__members__.items()})
        content = {n: v for n, v in content.items() if n not in cls.__members__ and is_written(n, v)}
    if "__dataclass_fields__" in vars(cls):
        fields, how = vars(cls)["__dataclass_fields__"], vars(cls)["__dataclass_params__"]
        reader.put(join(at, "fields"), shown(f"{list(fields)}, eq={how.eq}, order={how.order}"))
        for field in dataclasses.fields(cls):
            content.pop(field.name, None)
            for name in ("default", "default_factory", "init", "kw_only", "compare"):
                value = getattr(field, name)
                if value is not dataclasses.MISSING and not (name in ("init", "compare") and value):
                    reader.read(join(at, field.name if name == "default" else f"{field.name} {name}"), value)
    reader.attributes(at, content)


def read_object(reader: Reader, at: str, value: Any) -> None:
    """An object is its class and its state. That of the user's own is read directly, that of others as `pickle`
    would; cached properties are no state."""
    cls = type(value)
    reader.read(join(at, "class"), cls)
    direct = any(map(is_own_class, cls.__mro__[:-1])) or dataclasses.is_dataclass(value)
    if direct:
        reader.attributes(at, _unseeded(cls, state_of(value)))
        for kind, content in CONTAINERS.items():
            if isinstance(value, kind):
                plain = content(value) if kind is np.ndarray else kind(content(value))
                reader.read(join(at, "content"), plain)
                return
        if not any(REDUCERS & vars(base).keys() for base in cls.__mro__[:-1] if not is_own_class(base)):
            return
    reduce = copyreg.dispatch_table.get(cls)
    reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    if isinstance(reduced, str):
        reader.put(at, reduced)
        return
    _, made_from, state, *items = (*reduced, None, None, None)[:5]
    if not (isinstance(made_from, tuple) and len(made_from) == 1 and made_from[0] is cls):
        reader.read(join(at, "from"), made_from)
    for k, each in enumerate(items):
        if each is not None:
            reader.read(join(at, f"items {k}"), list(itertools.islice(each, MOST_ITEMS)))
    for part in state if isinstance(state, tuple) else (state,):
        if not isinstance(part, Mapping | None):
            reader.read(join(at, "state"), part)
        elif part and not direct:
            kept = {n: v for n, v in part.items() if n not in caches_of(cls)}
            reader.attributes(at, _unseeded(cls, kept))


def _unseeded(cls: type, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A space of Gymnasium's makes its generator when it is first sampled from: it is the same space then."""
    is_space = any((base.__module__, base.__name__) == ("gymnasium.spaces.space", "Space") for base in cls.__mro__)
    return {**state, "_np_random": None} if is_space and "_np_random" in state else state


def _is_known_ufunc(value: np.ufunc) -> bool:
    modules = (sys.modules.get(name) for name in ("numpy", "scipy.special"))
    return any(getattr(module, value.__name__, None) is value for module in modules)
