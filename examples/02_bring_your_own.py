"""Bring your own: CliffWalking from Gymnasium, two interventions in plain numpy, students with and without them."""

from typing import Any

import gymnasium
import numpy as np

from cisr import MLP, Fixed, Intervention, Rewind, StudentConfig, Switching, Task, Threshold, Training, compare

BESIDE_CLIFF = np.isin(np.arange(48), [*range(25, 35), 36])  # tiles, 12 to a row, from which one step can fall


def make_env(**options: Any) -> Any:
    env: Any = gymnasium.make("CliffWalking-v1", **options)
    env.unwrapped.initial_state_distrib = np.eye(48)[24]  # one tile higher: the stock start, 36, touches the cliff
    return env


student = StudentConfig(network=MLP(hidden=(32,)), learning_rate=3e-3, ent_coef=0.1, multiplier_bound=20.0)
task = Task(
    name="cliff-walking",
    make_env=make_env,
    danger=lambda move: move.reward == -100,  # what CliffWalking pays for a fall
    success=lambda move: move.terminated,
    interventions=(  # a state is [tile]
        Intervention(name="one back", trigger=lambda s: BESIDE_CLIFF[s[..., 0]], reset=Rewind(1), tau=0.1),
        Intervention(name="five back", trigger=lambda s: BESIDE_CLIFF[s[..., 0]], reset=Rewind(5), tau=0.0),
    ),
    horizon=100,
    training=Training(n_units=5, deployment_steps=1000, student=student),
)
taught = Switching(interventions=task.intervention_names, thresholds=(Threshold(min_return=-40, max_violation=-0.05),))

if __name__ == "__main__":
    for row in compare(task, {"taught": taught, "none": Fixed("none")}, n_students=4).rows:
        falls, final = row.training_failures.mean, row.mean_return.mean
        print(f"{row.curriculum}: {falls:.0f} falls in training, return {final:.1f}")
