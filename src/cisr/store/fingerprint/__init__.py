"""What a piece of a task is, by content: the code of a function and all that it reads.

A store belongs to the code that made its results, so it must notice when a trigger, a constant or a helper changes.
`fingerprint(value)` is a flat dictionary from what was looked at to a short text:

    {"code": "9f3c…", "limit": "0.5", "near().code": "77aa…", "near().tiles": "bool (100,) 1b2c…"}

`code` is a digest of the syntax tree, so comments, docstrings, annotations, formatting and line numbers do not matter;
where there is no source (or it was edited after it was loaded) the bytecode stands in. Functions of the user's own
modules are followed through globals, closures, defaults, attributes, bound objects and imports inside functions.
Objects are their class and their state. Installed packages are not followed: `packages` has their versions. What cannot
be read is listed in `unknown`. Names that are looked up while a function runs (`getattr(module, name)`) are not seen.
"""

from __future__ import annotations

from typing import Any

from cisr.store.fingerprint.reader import Fingerprint, Reader

__all__ = ["Fingerprint", "fingerprint"]


def fingerprint(value: Any) -> Fingerprint:
    """What `value` is, by content; see the module."""
    return Reader().result({"": value})
