"""Tasks on Gymnasium's classic environments, as a user would write them."""

import gymnasium
import numpy as np

from cisr import Intervention, Place, Rewind, Task, ToStart


def read(env):
    return np.array(env.unwrapped.state, float)


def place(env, state):
    env.unwrapped.state = np.array(state)
    return np.array(state, np.float32)


cart_pole = Task(
    name="cart-pole",
    make_env=lambda **options: gymnasium.make("CartPole-v1", **options),
    danger={
        "fell": lambda move: abs(move.state[..., 2]) > 0.2094,
        "left": lambda move: abs(move.state[..., 0]) > 2.4,
    },
    success=lambda move: move.terminated & False,
    interventions=(
        Intervention(name="back", trigger=lambda s: abs(s[..., 2]) > 0.1, reset=Rewind(5), tau=0.1),
        Intervention(
            name="upright",
            trigger=lambda s: abs(s[..., 2]) > 0.1,
            reset=Place(lambda s, history, u: 0.01 * s + 0.02 * u[..., :1], n_uniforms=1),
            tau=0.1,
        ),
    ),
    horizon=200,
    read_state=read,
    place=place,
)

mountain_car = Task(
    name="mountain-car",
    make_env=lambda **options: gymnasium.make("MountainCar-v0", **options),
    danger=lambda move: move.state[..., 0] < -1.15,
    success=lambda move: move.terminated,
    interventions=(Intervention(name="start", trigger=lambda s: s[..., 0] < -1.0, reset=ToStart(), tau=0.0),),
    horizon=200,
    read_state=read,
    place=place,
)


def taxi(**options):
    return Task(
        name="taxi",
        make_env=lambda **more: gymnasium.make("Taxi-v4", **options, **more),
        danger=lambda move: move.reward == -10,  # an illegal pickup or drop-off
        success=lambda move: move.terminated,
        interventions=(
            Intervention(name="aboard", trigger=lambda s: s[..., 0] // 4 % 5 == 4, reset=ToStart(), tau=0.1),
        ),
        horizon=200,
    )
