"""Gymnasium's stock `HalfCheetah-v5`, remembered and put back by its full physics state.

The robot has no state beside its physics, and no wrappers. To copy all attributes as well, as `cisr.saving` does for
any environment, would take ten times as long.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled

from cisr.core.errors import ConfigError


def make_env(**options: Any) -> gymnasium.Env[Any, Any]:
    """Without Gymnasium's outer wrappers: the time limit is the task's."""
    if "render_mode" in options:
        options = {"camera_name": "track", **options}  # the free one stays behind
        if sys.platform == "linux" and "DISPLAY" not in os.environ:
            os.environ.setdefault("MUJOCO_GL", "egl")  # draws without a screen; MuJoCo asks when it is imported
    try:
        import mujoco  # type: ignore[import-untyped]

        told = mujoco.get_mju_user_warning()
        # It would write into a log, wherever the user is, that Gymnasium's file of the robot uses an old attribute.
        mujoco.set_mju_user_warning(lambda message: None)
        try:
            return gymnasium.make("HalfCheetah-v5", **options).unwrapped
        finally:
            mujoco.set_mju_user_warning(told)
    except (ImportError, DependencyNotInstalled) as error:
        raise ConfigError("The cheetah needs MuJoCo, which is not installed: pip install 'cisr[mujoco]'.") from error


def save(env: gymnasium.Env[Any, Any]) -> np.ndarray:
    """All that MuJoCo goes on from."""
    import mujoco

    robot: Any = env.unwrapped
    everything = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(robot.model, everything))
    mujoco.mj_getState(robot.model, robot.data, state, everything)
    return state


def restore(env: gymnasium.Env[Any, Any], saved: np.ndarray) -> None:
    """Set twice: working out what follows from the state changes what MuJoCo's solver starts from."""
    import mujoco

    robot: Any = env.unwrapped
    everything = mujoco.mjtState.mjSTATE_INTEGRATION
    mujoco.mj_setState(robot.model, robot.data, saved, everything)
    mujoco.mj_forward(robot.model, robot.data)
    mujoco.mj_setState(robot.model, robot.data, saved, everything)
