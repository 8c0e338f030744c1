"""Bring your own: CliffWalking from Gymnasium, two interventions in plain numpy, students with and without them."""

from typing import Any

import gymnasium
import numpy as np

from cisr import MLP, Fixed, Intervention, Rewind, StudentConfig, Switching, Task, Threshold, compare

BESIDE_CLIFF = np.zeros(48, bool)  # a state is [tile number]; tiles count row by row, 12 to a row
BESIDE_CLIFF[[*range(25, 35), 36]] = True  # every tile from which one step can fall; 36 is the stock start


def make_env(**options: Any) -> Any:
    env: Any = gymnasium.make("CliffWalking-v1", **options)
    env.unwrapped.initial_state_distrib = np.eye(48)[24]  # one tile higher: the stock start touches the cliff
    return env


task = Task(
    name="cliff-walking",
    make_env=make_env,
    danger=lambda move: move.reward == -100,  # what CliffWalking pays for a fall
    success=lambda move: move.terminated,
    interventions=(
        Intervention(name="one back", trigger=lambda s: BESIDE_CLIFF[s[..., 0]], reset=Rewind(1), tau=0.1),
        Intervention(name="five back", trigger=lambda s: BESIDE_CLIFF[s[..., 0]], reset=Rewind(5), tau=0.0),
    ),
    horizon=100,
    n_units=5,
    deployment_steps=1000,
    student=StudentConfig(network=MLP(hidden=(32,)), learning_rate=3e-3, ent_coef=0.1, multiplier_bound=20.0),
)
taught = Switching(interventions=task.intervention_names, thresholds=(Threshold(min_return=-40, max_violation=-0.05),))

if __name__ == "__main__":
    for row in compare(task, {"taught": taught, "none": Fixed("none")}, n_students=4).rows:
        print(
            f"{row.curriculum}: {row.training_failures.mean:.0f} falls in training, return {row.mean_return.mean:.1f}"
        )
