"""A rescue that drives: CartPole, where a controller takes over before the pole falls and hands back an upright one."""

from typing import Any

import gymnasium
import numpy as np

from cisr import MLP, Drive, Fixed, Intervention, StudentConfig, Task, Training, compare


def leans(state: Any, angle: float = 0.08, spin: float = 1.0) -> Any:  # of position, velocity, angle, its velocity
    return (abs(state[..., 2]) > angle) | (abs(state[..., 3]) > spin) | (abs(state[..., 0]) > 1.5)


def controller(state: Any) -> Any:
    return 1 * (state @ np.array([0.05, 0.15, 1.0, 0.3]) > 0)


HOLD = Drive(controller, until=lambda state: ~leans(state, 0.05, 0.5), max_steps=100)
student = StudentConfig(network=MLP(hidden=(32,)), n_envs=2, n_steps=128, rounds_per_unit=1)
task = Task(
    name="held-pole",
    make_env=lambda **options: gymnasium.make("CartPole-v1", **options),
    read_state=lambda env: np.array(env.unwrapped.state),  # type: ignore[attr-defined]
    danger=lambda move: move.terminated,
    success=lambda move: move.terminated & ~move.terminated,
    interventions=(Intervention(name="hold", trigger=leans, reset=HOLD, tau=0.05),),
    horizon=200,
    training=Training(n_units=2, deployment_steps=500, student=student),
)

if __name__ == "__main__":
    comparison = compare(task, {"held": Fixed("hold"), "none": Fixed("none")}, n_students=1)
    for row in comparison.rows:
        print(
            f"{row.curriculum}: {row.training_failures.mean:.0f} falls in training, {row.driven.mean:.0f} steps driven"
        )
