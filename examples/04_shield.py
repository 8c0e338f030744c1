"""A shield: CliffWalking from its own start, which touches the cliff. No rescue after a fall could help there."""

from typing import Any

import gymnasium
import numpy as np

from cisr import MLP, Fixed, Intervention, Override, StudentConfig, Task, Training, audit, compare

UP, RIGHT, DOWN, LEFT = range(4)
STEP = np.array([-12, 1, 12, -1])  # what each action adds to the number of a tile
CLIFF = np.isin(np.arange(-12, 60), range(37, 47))  # 12 tiles to a row; beyond the map there is none


def over_the_edge(state: Any, action: Any) -> Any:
    return CLIFF[state[..., 0] + STEP[action] + 12]


student = StudentConfig(network=MLP(hidden=(32,)), learning_rate=3e-3, ent_coef=0.1, rounds_per_unit=1)
task = Task(
    name="shielded-cliff",
    make_env=lambda **options: gymnasium.make("CliffWalking-v1", **options),
    danger=lambda move: move.reward == -100,
    success=lambda move: move.terminated,
    interventions=(
        Intervention(
            name="shield",
            trigger=over_the_edge,  # judged before the act, of the state and what the student is about to do
            reset=Override(lambda state, action: UP + 0 * action),  # done instead
            tau=0.1,
        ),
    ),
    horizon=100,
    training=Training(n_units=2, deployment_steps=500, student=student),
)

if __name__ == "__main__":
    print(audit(task)["shield"].reason)
    (row,) = compare(task, {"shielded": Fixed("shield")}, n_students=1).rows
    print(f"{row.training_failures.mean:.0f} falls in training, {row.rescues.mean:.0f} steps shielded")
