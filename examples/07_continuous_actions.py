"""Continuous actions: a pendulum that must not spin too fast, kept in bounds while a student learns to swing it up."""

from typing import Any

import gymnasium
import numpy as np

from cisr import MLP, Fixed, Intervention, Rewind, StudentConfig, Task, Training, compare


def place(env: Any, state: np.ndarray) -> np.ndarray:
    env.unwrapped.state = state
    angle, speed = state
    return np.array([np.cos(angle), np.sin(angle), speed], np.float32)


student = StudentConfig(
    network=MLP(separate_value=True),  # policy and value learn from layers of their own
    normalize_observations=True,  # speeds are eight times as large as cosines
    normalize_rewards=True,
    gamma=0.9,
    ent_coef=0.0,
)
task = Task(
    name="pendulum",
    make_env=lambda **options: gymnasium.make("Pendulum-v1", **options),
    read_state=lambda env: np.array(env.get_wrapper_attr("state")),  # angle and speed
    place=place,
    danger=lambda move: abs(move.state[..., 1]) > 6.0,
    success=lambda move: move.reward > -0.1,  # upright
    interventions=(
        Intervention(name="two back", trigger=lambda s: abs(s[..., 1]) > 4.5, reset=Rewind(2), tau=0.1),
    ),  # gravity and the motor change the speed by at most 1.05 in one step
    horizon=200,
    training=Training(n_units=2, deployment_steps=1000, student=student),
)

if __name__ == "__main__":
    for row in compare(task, {"taught": Fixed("two back"), "none": Fixed("none")}, n_students=2).rows:
        print(f"{row.curriculum}: {row.training_failures.mean:.0f} too fast in training")
