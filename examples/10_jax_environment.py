"""Your own JAX environment, written as gymnax's are, on the compiled backend: a puck on ice that must not slide off."""

from typing import Any, NamedTuple

import jax

from cisr import Fixed, GymnaxEnv, Intervention, Rewind, compare


class State(NamedTuple):
    x: Any
    velocity: Any


class Puck:
    num_actions, default_params = 3, {"ice": 0.9, "wind": 0.01}

    def reset_env(self, key: Any, params: Any) -> Any:
        state = State(x=jax.random.uniform(key, minval=-0.3, maxval=0.3), velocity=jax.numpy.zeros(()))
        return self.get_obs(state, params), state

    def step_env(self, key: Any, state: State, action: Any, params: Any) -> Any:
        velocity = params["ice"] * state.velocity + 0.03 * (action - 1) + params["wind"] * jax.random.normal(key)
        after = State(x=state.x + velocity, velocity=velocity)
        return self.get_obs(after, params), after, 1 - abs(after.x - 0.6), abs(after.x) > 1, {}

    def get_obs(self, state: State, params: Any) -> Any:
        return jax.numpy.stack([state.x, state.velocity])


task = GymnaxEnv(Puck(), vector=("x", "velocity")).task(
    name="puck",
    danger=lambda move: abs(move.state[..., 0]) > 1,
    success=lambda move: move.reward > 9,  # there is none: it is paid for being near 0.6
    interventions=(Intervention(name="rope", trigger=lambda s: abs(s[..., 0]) > 0.7, reset=Rewind(1), tau=0.0),),
    horizon=60,
)
if __name__ == "__main__":
    for row in compare(task, {"rope": Fixed("rope"), "none": Fixed("none")}, n_students=2).rows:
        print(f"{row.curriculum}: {row.training_failures.mean:.0f} falls, return {row.mean_return.mean:.1f}")
