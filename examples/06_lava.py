"""MiniGrid's LavaCrossing, by copies of the environment: whoever faces lava is back where it was a step ago."""

import gymnasium
import minigrid
import numpy as np

from cisr import Fixed, Intervention, Rewind, StudentConfig, Task, Training, audit, compare


class LookUp(gymnasium.Wrapper):  # at the wall: a rescue answers a move, and the first one might lead into lava
    def reset(self, **options):
        _, info = self.env.reset(**options)
        self.unwrapped.agent_dir = 3
        return self.unwrapped.gen_obs(), info


def make_env(**options):
    env = LookUp(gymnasium.make("MiniGrid-LavaCrossingS9N1-v0", **options))
    return gymnasium.wrappers.FlattenObservation(minigrid.wrappers.ImgObsWrapper(env))


def read_state(env):  # what the trigger needs to know, by no means all that there is
    ahead = env.unwrapped.grid.get(*env.unwrapped.front_pos)
    return np.array([*env.unwrapped.agent_pos, ahead is not None and ahead.type == "lava"])


task = Task(
    name="lava",
    make_env=make_env,
    read_state=read_state,
    danger=lambda move: move.terminated & (move.reward == 0),
    success=lambda move: move.terminated & (move.reward > 0),
    interventions=(Intervention(name="back", trigger=lambda s: s[..., 2] == 1, reset=Rewind(1), tau=0.1),),
    horizon=100,
    training=Training(n_units=2, deployment_steps=200, student=StudentConfig(n_envs=2, n_steps=128, rounds_per_unit=1)),
)
if __name__ == "__main__":
    (row,) = compare(task, {"back": Fixed("back")}, n_students=1).rows
    print(f"{row.training_failures.mean:.0f} failures in training, {row.rescues.mean:.0f} rescues")
    print(audit(task, budget=2_000)["back"].reason)
