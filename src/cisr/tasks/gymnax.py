"""JAX environments of gymnax's kind on the compiled backend, and the same environments on the host.

An environment of gymnax's kind has `reset_env(key, params)`, `step_env(key, state, action, params)` and
`get_obs(state, params)` for one environment, `default_params`, and `action_space(params)` or `num_actions`; its state
is a dataclass that JAX knows, or a NamedTuple. gymnax itself is not needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from cisr.core.checks import check_names, shown
from cisr.core.errors import ConfigError, described
from cisr.core.intervention import Array
from cisr.core.task import Move, Task
from cisr.students.distributions import Distribution
from cisr.students.networks import ObservationSpec
from cisr.students.spaces import Space, acted_by, seen_as

KEY_WORDS = 2
"""Of a key of JAX's usual generator; each is made of one uniform number."""


class GymnaxEnv:
    """Such an environment as `Task.jax_env` has it; `task(…)` makes a task of it, with the same one on the host.

    `vector` names the fields of its state that triggers, dangers and resets see, in that order: together they must be
    enough to put the environment back where it was. They become numbers of one type, which must hold each of them
    exactly: whole numbers of 32 bits do not stand beside single precision. What its `step_env` calls done ends episodes
    as terminal; time limits are the task's own (`horizon`), so let the environment's be longer.

    >>> task = GymnaxEnv(MyEnv(), vector=("x", "velocity")).task(name="mine", danger=…, …)  # doctest: +SKIP
    """

    table = None
    n_reset_uniforms = n_step_uniforms = KEY_WORDS

    def __init__(self, env: Any, vector: Sequence[str], params: Any = None) -> None:
        check_names("The vector of a JAX environment", vector)
        self._env = env
        self._vector = tuple(vector)
        try:
            self.params = env.default_params if params is None else params
            _, state = jax.eval_shape(env.reset_env, jax.random.key(0), self.params)
        except Exception as error:  # whatever it was that was given
            raise ConfigError(
                f"{shown(env)} with the parameters {shown(params)} is no environment of gymnax's style: "
                f"{described(error)}."
            ) from error
        known = _fields(state)
        if not self._vector or not set(self._vector) <= set(known):
            raise ConfigError(
                f"The state vector names {', '.join(self._vector) or 'nothing'}: the state of {type(env).__name__} has "
                f"{', '.join(known) or 'no fields (make it a dataclass or a NamedTuple)'}."
            )
        self._shapes = [getattr(state, name).shape for name in self._vector]
        self._types = [getattr(state, name).dtype for name in self._vector]
        self._check_exact(jax.eval_shape(self.state_vector, state).dtype)
        self._observe = _observer(env)
        self.observation_space, self.observation = _seen(env, self._observe, state, self.params)
        self.action_space, self.n_actions = _acted(env, self.params)

    def _check_exact(self, common: Any) -> None:
        for name, kind in zip(self._vector, self._types, strict=True):
            if not _holds(common, kind):
                raise ConfigError(
                    f"The state vector of {type(self._env).__name__} becomes {common}, which does not hold every "
                    f"number of '{name}' ({kind}) exactly: keep '{name}' in the state as int16 or as {common}, or "
                    f"leave it out of the vector."
                )

    def reset_env(self, u: Array, params: Any) -> Any:
        return _over(u.ndim - 1, lambda one: self._env.reset_env(_key(one), params)[1])(u)

    def step_env(self, u: Array, state: Any, action: Array, params: Any) -> Move:
        return Move(*self._moved(u, state, action, params))

    def _moved(self, u: Array, state: Any, action: Array, params: Any) -> tuple[Any, Array, Array]:
        """The parts of a move that are known, which alone are arrays."""

        def step(u: Array, state: Any, action: Array) -> tuple[Any, Array, Array]:
            _, after, reward, done, _ = self._env.step_env(_key(u), state, action, params)
            return after, jnp.asarray(reward, jnp.float32), jnp.asarray(done, bool)

        moved: tuple[Any, Array, Array] = _over(u.ndim - 1, step)(u, state, action)
        return moved

    def state_vector(self, state: Any) -> Array:
        fields = [jnp.asarray(getattr(state, name)) for name in self._vector]
        flat = [f.reshape(*f.shape[: f.ndim - len(s)], -1) for f, s in zip(fields, self._shapes, strict=True)]
        return jnp.concatenate(flat, axis=-1)

    def set_state(self, state: Any, vector: Array) -> Any:
        cuts = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1].tolist()
        parts = jnp.split(vector, cuts, axis=-1)
        given = zip(self._vector, parts, self._shapes, self._types, strict=True)
        put = {name: _as_kind(part.reshape(*part.shape[:-1], *shape), kind) for name, part, shape, kind in given}
        if dataclasses.is_dataclass(state):
            return dataclasses.replace(state, **put)  # type: ignore[type-var]
        return state._replace(**put)

    def get_obs(self, state: Any, params: Any) -> Array:
        n_leading = jnp.ndim(getattr(state, self._vector[0])) - len(self._shapes[0])
        seen = _over(n_leading, lambda one: self._observe(one, params))(state)
        return jnp.asarray(seen, self.observation.dtype)

    def task(self, **fields: Any) -> Task:
        """A task on this environment; `fields` are its others. Where Gymnasium has the environment too, give its
        `make_env`, `read_state` and `place`: then that one has the final word."""
        on_host: dict[str, Any] = {"make_env": self.make_env, "read_state": self.read_state, "place": self.place}
        return Task(jax_env=lambda: self, **(on_host | fields))

    def make_env(self, **options: Any) -> HostEnv:
        return HostEnv(self, **options)

    def read_state(self, env: Any) -> np.ndarray:
        return np.asarray(self.state_vector(env.unwrapped.state))

    def place(self, env: Any, state: np.ndarray) -> np.ndarray:
        env.unwrapped.state = self.set_state(env.unwrapped.state, jnp.asarray(state))
        return np.asarray(self.get_obs(env.unwrapped.state, self.params))

    @cached_property
    def stepped(self) -> Callable[..., tuple[Any, Array, Array]]:
        """One step of one environment, compiled: its state, reward and end."""
        return jax.jit(self._moved)


class HostEnv(gymnasium.Env[Any, Any]):
    """A JAX environment as a Gymnasium environment, one step at a time."""

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own)

    def __init__(self, jax_env: GymnaxEnv, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._jax_env = jax_env
        self.observation_space, self.action_space = jax_env.observation_space, jax_env.action_space
        self.state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[Any, Any]]:
        super().reset(seed=seed)
        self.state = self._jax_env.reset_env(self._uniforms(), self._jax_env.params)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        given = self._uniforms(), self.state, jnp.asarray(action), self._jax_env.params
        self.state, reward, terminated = self._jax_env.stepped(*given)
        return self._seen(), float(reward), bool(terminated), False, {}

    def _uniforms(self) -> Array:
        return jnp.asarray(self.np_random.random(KEY_WORDS, np.float32))

    def _seen(self) -> np.ndarray:
        return np.asarray(self._jax_env.get_obs(self.state, self._jax_env.params))


def _holds(common: Any, kind: Any) -> bool:
    """Whether one type holds every number of another exactly."""
    if not jnp.issubdtype(kind, jnp.integer):
        return True  # truth values, and floats, which are never put into smaller ones
    ends = np.iinfo(kind)
    if jnp.issubdtype(common, jnp.integer):
        return bool(np.iinfo(common).min <= ends.min and ends.max <= np.iinfo(common).max)
    digits = jnp.finfo(common).nmant + 1  # type: ignore[no-untyped-call]
    return bool(max(-ends.min, ends.max) <= 2**digits)


def _as_kind(numbers: Array, kind: Any) -> Array:
    """Whole numbers are rounded: what is whole on paper may be a little less in floats."""
    return (jnp.round(numbers) if jnp.issubdtype(kind, jnp.integer) else numbers).astype(kind)


def _fields(state: Any) -> tuple[str, ...]:
    """The names of a state's parts; none where it is neither a dataclass nor a NamedTuple."""
    if dataclasses.is_dataclass(state):
        return tuple(field.name for field in dataclasses.fields(state))
    return tuple(getattr(state, "_fields", ()))


def _observer(env: Any) -> Callable[[Any, Any], Any]:
    """What is seen of a state with params: gymnax's own environments say it by `observe`, with a key and an action."""
    observe = getattr(env, "observe", None)
    if observe is None:
        return lambda state, params: env.get_obs(state, params)
    return lambda state, params: observe(jax.random.key(0), state, None, params)


def _seen(env: Any, observe: Callable[[Any, Any], Any], state: Any, params: Any) -> tuple[Space, ObservationSpec]:
    """What students see, from the shape and type of an observation; numbers need their `observation_space`."""
    try:
        seen = jax.eval_shape(observe, state, params)
        kind, shape = np.dtype(seen.dtype), tuple(seen.shape)
    except (AttributeError, NotImplementedError, TypeError) as error:
        raise ConfigError(
            f"What {type(env).__name__} shows is not known: get_obs(state, params) must give one array ({error})."
        ) from error
    space: Space = spaces.Box(-np.inf, np.inf, shape, np.float32)
    if shape == () and np.issubdtype(kind, np.integer):
        space = _in_gymnasium(
            _asked(env, "observation_space", params), f"The observation space of {type(env).__name__}"
        )
    elif kind == np.uint8:
        space = spaces.Box(0, 255, shape, np.uint8)
    observation = seen_as(space)
    assert observation is not None  # a Box or a Discrete
    return space, observation


def _acted(env: Any, params: Any) -> tuple[Space, int | Distribution]:
    """What students do: what `action_space(params)` says, or one of `num_actions`."""
    given, whose = _asked(env, "action_space", params), f"The action space of {type(env).__name__}"
    if given is None and (n_actions := getattr(env, "num_actions", None)) is not None:
        given = spaces.Discrete(int(n_actions))
    space = _in_gymnasium(given, whose)
    distribution = acted_by(space)
    if distribution is None:
        raise ConfigError(f"{whose} is {given}: students act in Discrete spaces and in Box spaces of real numbers.")
    return space, int(space.n) if isinstance(space, spaces.Discrete) and space.start == 0 else distribution


def _asked(env: Any, what: str, params: Any) -> Any:
    """A space that the environment may have; None where it has none."""
    try:
        return None if (space := getattr(env, what, None)) is None else space(params)
    except NotImplementedError:  # gymnax's own base class
        return None


def _in_gymnasium(space: Any, whose: str) -> Space:
    """gymnax's spaces are like Gymnasium's, with the same names of what is in them."""
    match space:
        case gymnasium.Space():
            return space
        case object(n=n):
            return spaces.Discrete(int(n))
        case object(low=low, high=high, shape=shape):
            low, high = (np.broadcast_to(np.asarray(bound, np.float32), shape) for bound in (low, high))
            return spaces.Box(low, high, dtype=np.float32)
    raise ConfigError(f"{whose} is {space}: give a Discrete or a Box space, gymnax's or Gymnasium's.")


def _key(u: Array) -> Array:
    """A key of JAX's from uniforms (KEY_WORDS,), of which single precision keeps 24 bits each."""
    return jax.random.wrap_key_data(jnp.asarray(u * 2**24, jnp.uint32), impl="threefry2x32")


def _over(n_leading: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one environment over so many leading axes."""
    for _ in range(n_leading):
        function = jax.vmap(function)
    return function
