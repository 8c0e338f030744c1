"""How an environment is remembered and put back, through any chain of wrappers.

A copy holds the attributes of every layer, wrappers and core, those in `__slots__` too, and is put back *in place*:
whoever holds the environment still does. Three things are not copied but shared, so that they go on as they are: random
generators (a student that was put back would meet the same luck for ever), what draws, and functions, classes and
spaces, which do not change. The counter of a `TimeLimit` is not put back either: the clock runs on through rescues.

Some environments keep what cannot be copied, or need not be: `SAVINGS` knows how Gymnasium's own are remembered.
"""

from __future__ import annotations

import contextlib
import io
import logging
import pickle
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from cisr.core.errors import AnswerError
from cisr.core.timed import Timed

Env = gymnasium.Env[Any, Any]

SHARED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type,
    np.random.Generator,
    np.random.BitGenerator,
    np.random.RandomState,
    random.Random,
    gymnasium.Space,
    EnvSpec,
    logging.Logger,
    Timed,
)
DRAWING = ("pygame", "glfw", "OpenGL", "cv2", "matplotlib", "tkinter", "gymnasium.envs.mujoco.mujoco_rendering")
"""Modules whose objects show an environment and are no part of its state."""


class Saving(NamedTuple):
    """A way to remember environments, for `Task.save` and `Task.restore`."""

    save: Callable[[Env], Any]
    restore: Callable[[Env, Any], Any]
    """Answers None: what is seen is what was seen when it was saved."""
    exact: bool = False
    """Whether what follows is what would have followed with the same random numbers, up to rounding."""


class Snapshot(NamedTuple):
    copied: bytes
    shared: list[Any]
    """What is not copied but shared, at any depth: random generators among it."""
    core: Any


def layers(env: Any) -> Iterator[Any]:
    """The wrappers, from the outermost on, and the environment itself."""
    while env is not env.unwrapped:
        yield env
        env = env.env
    yield env


def _slots(layer: Any) -> list[types.MemberDescriptorType]:
    """Where a layer keeps its attributes that are not in its dictionary."""
    classes = [vars(cls) for cls in type(layer).__mro__ if "__slots__" in vars(cls)]
    return [slot for cls in classes for slot in cls.values() if isinstance(slot, types.MemberDescriptorType)]


def _attributes(layer: Any) -> tuple[dict[str, Any], dict[int, Any]]:
    """Those by name, and those in slots by number, without slots that are empty."""
    filled: dict[int, Any] = {}
    for k, slot in enumerate(_slots(layer)):
        with contextlib.suppress(AttributeError):
            filled[k] = slot.__get__(layer)
    return dict(vars(layer)), filled


def _put_back(layer: Any, by_name: dict[str, Any], by_slot: dict[int, Any]) -> None:
    vars(layer).clear()
    vars(layer).update(by_name)
    for k, slot in enumerate(_slots(layer)):
        if k in by_slot:
            slot.__set__(layer, by_slot[k])
        else:
            with contextlib.suppress(AttributeError):
                slot.__delete__(layer)


class _Pickler(pickle.Pickler):
    """Copies what belongs to the layers; what is shared becomes a number into `shared`."""

    def __init__(self, file: io.BytesIO, around: list[Any]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.shared: list[Any] = []
        self._layers = {id(layer) for layer in around}

    def persistent_id(self, thing: Any) -> int | None:
        kind = type(thing)
        how = _kinds[kind] if kind in _kinds else _kind_of(kind)
        if how is COPIED:  # nearly everything
            return None
        if how is ASKED and id(getattr(thing, "__self__", thing)) not in self._layers:
            return None
        self.shared.append(thing)
        return len(self.shared) - 1


COPIED, ASKED, ALWAYS = "copied", "shared where it is a layer or a method of one", "shared"
_kinds: dict[type, str] = {}


def _kind_of(kind: type) -> str:
    if issubclass(kind, SHARED) or kind.__module__.startswith(DRAWING):
        how = ALWAYS
    else:
        how = ASKED if issubclass(kind, gymnasium.Env | types.MethodType) else COPIED
    _kinds[kind] = how
    return how


class _Unpickler(pickle.Unpickler):
    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(io.BytesIO(snapshot.copied))
        self._shared = snapshot.shared

    def persistent_load(self, number: int) -> Any:
        return self._shared[number]


class _Core(NamedTuple):
    """What is special about a core: attributes that are left alone, and how what is behind them is remembered."""

    left_alone: tuple[str, ...] = ()
    save: Callable[[Any], Any] = lambda core: None
    restore: Callable[[Any, Any], None] = lambda core, saved: None
    exact: bool = True


def _saving(special: _Core) -> Saving:
    def save(env: Env) -> Snapshot:
        around = list(layers(env))
        attributes = [_attributes(layer) for layer in around]
        for name in special.left_alone:
            attributes[-1][0].pop(name, None)
        file = io.BytesIO()
        pickler = _Pickler(file, around)
        try:
            pickler.dump(attributes)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise AnswerError(
                f"{env.unwrapped} cannot be copied for a rewind ({error}): give the task save(env) and "
                f"restore(env, saved), see `cisr.saving`."
            ) from error
        return Snapshot(file.getvalue(), pickler.shared, special.save(around[-1]))

    def restore(env: Env, saved: Snapshot) -> None:
        *around, core = layers(env)
        attributes = _Unpickler(saved).load()
        attributes[-1][0].update({name: vars(core)[name] for name in special.left_alone if name in vars(core)})
        for layer, (by_name, by_slot) in zip((*around, core), attributes, strict=True):
            if isinstance(layer, gymnasium.wrappers.TimeLimit):
                by_name["_elapsed_steps"] = layer._elapsed_steps
            _put_back(layer, by_name, by_slot)
        special.restore(core, saved.core)

    return Saving(save, restore, special.exact)


def _mujoco_state(core: Any) -> np.ndarray:
    physics: Any = sys.modules["mujoco"]  # which its environments have brought in
    everything = physics.mjtState.mjSTATE_INTEGRATION
    state = np.empty(physics.mj_stateSize(core.model, everything))
    physics.mj_getState(core.model, core.data, state, everything)
    return state


def _to_mujoco_state(core: Any, state: np.ndarray) -> None:
    """Positions that follow from the state are worked out anew; that changes what the solver starts from, which is
    then set once more."""
    physics: Any = sys.modules["mujoco"]
    everything = physics.mjtState.mjSTATE_INTEGRATION
    physics.mj_setState(core.model, core.data, state, everything)
    physics.mj_forward(core.model, core.data)
    physics.mj_setState(core.model, core.data, state, everything)


def _lander_bodies(core: Any) -> list[tuple[Any, ...]]:
    return [
        (tuple(b.position), b.angle, tuple(b.linearVelocity), b.angularVelocity, getattr(b, "ground_contact", None))
        for b in (core.lander, *core.legs)
    ]


def _to_lander_bodies(core: Any, bodies: list[tuple[Any, ...]]) -> None:
    """Through Box2D's transforms; terrain, contacts and the joints' impulses stay as they are."""
    for body, (position, angle, velocity, spin, contact) in zip((core.lander, *core.legs), bodies, strict=True):
        body.transform, body.linearVelocity, body.angularVelocity = (position, angle), velocity, spin
        body.awake = True
        if contact is not None:
            body.ground_contact = contact


copies = _saving(_Core())
"""All attributes of all layers, for any environment that Python can copy; classic control's among them."""
toy_text = _saving(_Core(left_alone=("P", "desc", "initial_state_distrib")))
mujoco = _saving(_Core(("model", "data", "mujoco_renderer"), _mujoco_state, _to_mujoco_state))
"""The full physics state, with all that the integrator goes on from."""
lander = _saving(
    _Core(
        ("world", "lander", "legs", "moon", "particles", "drawlist", "contactListener_keepref"),
        _lander_bodies,
        _to_lander_bodies,
        exact=False,
    )
)
"""Box2D's lunar lander: hull and legs."""

SAVINGS = {
    "gymnasium.envs.toy_text.": toy_text,
    "gymnasium.envs.mujoco.": mujoco,
    "gymnasium.envs.box2d.lunar_lander": lander,
}
"""By the module of a class that the core is or descends from."""


def saving_for(env: Env) -> Saving:
    """The best way known for an environment."""
    homes = [cls.__module__ for cls in type(env.unwrapped).__mro__]
    found = (saving for module, saving in SAVINGS.items() if any(home.startswith(module) for home in homes))
    return next(found, copies)
