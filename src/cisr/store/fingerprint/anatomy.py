"""What there is to an object or a class besides what Python adds of its own accord, and how it is said in short."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import types
from typing import Any

import numpy as np

from cisr.store.fingerprint.origin import is_own_function

LONGEST_SHOWN = 60
"""Letters of a value that is shown as it is; of longer ones a digest."""
LONGEST_NAME = 200
CONTAINERS: dict[type, Any] = {
    tuple: tuple.__iter__, list: list.__iter__, set: set.__iter__, frozenset: frozenset.__iter__,
    dict: dict.items, np.ndarray: np.asarray,
}  # fmt: skip
"""How to come by the content of a subclass, whatever it says itself."""
FIELDS: dict[type, tuple[str, ...]] = {
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    property: ("fget", "fset", "fdel"),
    slice: ("start", "stop", "step"),
    np.vectorize: ("pyfunc", "otypes", "excluded", "signature", "cache"),
}
"""What there is to say of objects that keep caches, or whose state cannot be asked for."""
TRANSPARENT: dict[type, str] = {staticmethod: "__func__", classmethod: "__func__", functools.cached_property: "func"}
REDUCERS = frozenset({"__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__"})
NOT_CONTENT = frozenset(
    {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__slots__", "__match_args__"}
    | {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__conditional_annotations__"}
    | {"__parameters__", "__type_params__", "__orig_bases__", "__orig_class__", "__abstractmethods__", "_abc_impl"}
    | {"__firstlineno__", "__static_attributes__", "__dataclass_params__", "__dataclass_fields__", "__slotnames__"}
    | {"_is_protocol", "_is_runtime_protocol", "__protocol_attrs__", "__callable_proto_members_only__"}
    | {"__non_callable_proto_members__", "__new_member__", "__wrapped__"}
)
"""Attributes that say nothing about what something does, or are made from the others."""
GENERATED = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
GENERATORS = ("dataclasses", "reprlib", "typing", "enum", "collections")
"""Modules whose functions end up in a user's class and follow from the rest of it."""


def state_of(value: Any) -> dict[str, Any]:
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:  # it has slots alone
        attributes = {}
    found = {name: v for name, v in attributes.items() if name not in caches_of(type(value))}
    for base in type(value).__mro__:
        for name, slot in vars(base).items() if "__slots__" in vars(base) else ():
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # not assigned
                    found[name] = slot.__get__(value)
    return found


def caches_of(cls: type) -> set[str]:
    return {n for base in cls.__mro__ for n, v in vars(base).items() if isinstance(v, functools.cached_property)}


def is_made_up(name: str, value: Any) -> bool:
    """What `dataclass`, `NamedTuple`, `Enum` or `Protocol` wrote: it follows from the fields."""
    function = getattr(value, "__func__", value) if isinstance(value, classmethod | staticmethod) else value
    if not isinstance(function, types.FunctionType):
        return type(value).__name__ == "_tuplegetter" or (name == "__hash__" and value is None)
    home = str(function.__globals__.get("__name__"))
    generated = function.__code__.co_filename == "<string>" and (
        function.__code__.co_qualname == f"__create_fn__.<locals>.{name}"
        or (name == "__new__" and home.startswith("namedtuple_"))
    )
    return generated or (name.startswith("_") and home in GENERATORS)


def is_written(name: str, value: Any) -> bool:
    """Whether an attribute of an enumeration is the user's, rather than the bookkeeping of `Enum`."""
    function = getattr(value, "__func__", value) if isinstance(value, classmethod | staticmethod) else value
    return not name.startswith("_") or is_own_function(function)


def array(array: np.ndarray) -> str:
    if array.size <= 8 and len(text := f"{array.dtype} {array.tolist()}") <= LONGEST_SHOWN:
        return text
    content = np.ascontiguousarray(array)
    return f"{array.dtype} {array.shape} {digest(content.tobytes())}"


def shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 20]}… {digest(text.encode())}"


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=6).hexdigest()


def join(at: str, name: str) -> str:
    if len(at) > LONGEST_NAME:
        at = f"{at[: LONGEST_NAME // 2]}… {digest(at.encode())}"
    return f"{at}.{name}" if at else name
