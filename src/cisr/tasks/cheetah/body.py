"""The cheetah's state, the band that it must keep to, and a controller that steadies it, in array code.

A state is (..., 18): the way run, height and climbing speed of the front hip, pitch of the torso (nose down is
positive) and its rate, forward speed; then angle and speed of the six joints, back thigh, shin, foot, front thigh,
shin, foot. Metres, radians and seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cisr.core.intervention import Array
from cisr.core.task import Move, Transition

if TYPE_CHECKING:
    import gymnasium

X, HEIGHT, CLIMB, PITCH, SPIN, SPEED = range(6)
JOINTS, JOINT_SPEEDS = slice(6, 12), slice(12, 18)

START_HEIGHT, HIP = 0.7, 0.5
"""Of the torso's middle at the start, and how far before it the front hip is."""
STEP = 0.05
"""Seconds in a step of the environment."""
LOWEST, HIGHEST = 0.4, 1.0
"""The band of Wagener, Boots and Cheng (2021) for the front hip."""
DISTANCE = 25.0
"""Metres that are a success in an episode's 10 seconds."""

TORQUES = (120.0, 90.0, 60.0, 120.0, 60.0, 30.0)
"""Of each joint's motor at an action of 1, in newton metres."""
STIFFNESS, DAMPING = 120.0, 5.0
CROUCH = (0.8, 0.3)
"""Angles of the back thigh and shin in which the cheetah is steadied: the springs of a folded back leg would throw the
rear up and the nose down as they are let go."""
BRACE = 1.5
"""How far the front thigh is put forward for each radian that the nose points down."""


def read_state(env: gymnasium.Env[Any, Any]) -> np.ndarray:
    """The state of Gymnasium's robot."""
    data: Any = env.unwrapped.data  # type: ignore[attr-defined]
    x, z, pitch, *joints = data.qpos.tolist()
    speed, rise, spin, *joint_speeds = data.qvel.tolist()
    height = START_HEIGHT + z - HIP * np.sin(pitch)
    climb = rise - HIP * np.cos(pitch) * spin
    return np.array([x, height, climb, pitch, spin, speed, *joints, *joint_speeds])


def fell(move: Move) -> Array:
    return move.state[..., HEIGHT] < LOWEST


def reared(move: Move) -> Array:
    return move.state[..., HEIGHT] > HIGHEST


def came_far(move: Move) -> Array:
    """Far enough, asked at the end of an episode."""
    return move.state[..., X] >= DISTANCE


def reward(transition: Transition) -> Array:
    """Gymnasium's: speed less the cost of the motors. A rescue that takes back some of the way takes back its pay, so
    that nobody is paid for the same metres twice."""
    way = transition.after[..., X] - transition.move.state[..., X]
    return transition.move.reward + way.__array_namespace__().minimum(way, 0.0) / STEP


def leaving(low: float, high: float, seconds: float) -> Callable[[Array], Array]:
    """Where the front hip would be outside these heights so many seconds later, at the speed that it has."""

    def trigger(state: Array) -> Array:
        ahead = state[..., HEIGHT] + seconds * state[..., CLIMB]
        return (ahead <= low) | (ahead >= high)

    return trigger


def steady(state: Array) -> Array:
    """High enough, and hardly moving up, down or around."""
    height = state[..., HEIGHT]
    calm = (abs(state[..., CLIMB]) < 0.6) & (abs(state[..., SPIN]) < 1.5)
    return (height > 0.5) & (height < 0.75) & calm


def steadying(state: Array) -> Array:
    """Torques towards a crouch behind, with the front leg braced against a falling nose; actions (..., 6)."""
    xp = state.__array_namespace__()
    straight = xp.zeros_like(state[..., PITCH])
    back, shin = (straight + angle for angle in CROUCH)
    posture = xp.stack([back, shin, straight, -BRACE * state[..., PITCH], straight, straight], axis=-1)
    torque = STIFFNESS * (posture - state[..., JOINTS]) - DAMPING * state[..., JOINT_SPEEDS]
    return xp.clip(torque / xp.asarray(TORQUES), -1.0, 1.0)


def state_plot(triggers: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """The band, and the heights at which each intervention triggers for a hip that neither rises nor falls."""
    far = 60.0
    return {
        "axes": ["way (m)", "height of the front hip (m)"],
        "limits": [[-3.0, far], [0.3, 1.1]],
        "lines": {"band": [[[-3.0, height], [far, height]] for height in (LOWEST, HIGHEST)]},
        "interventions": {
            name: {"trigger": [[[-3.0, height], [far, height]] for height in heights]}
            for name, heights in triggers.items()
        },
    }
