"""The compiled lander against Box2D, the judge. The physics' own source runs on NumPy here: nothing to compile."""

import gymnasium
import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.core.training import Training
from cisr.tasks import get_task
from cisr.training.setup import choose_backend

pytest.importorskip("Box2D", reason="Lunar Lander needs Box2D: pip install 'cisr[lander]'")

from gymnasium.envs.box2d.lunar_lander import heuristic

from cisr.tasks.lunar_lander.bodies import read_state
from cisr.tasks.lunar_lander.dump import read_world
from cisr.tasks.lunar_lander.physics import constants
from cisr.tasks.lunar_lander.physics.by_numpy import by_numpy
from cisr.tasks.lunar_lander.physics.launch import fire, launched
from cisr.tasks.lunar_lander.physics.step import origin, step_world
from cisr.tasks.lunar_lander.physics.terrain import heights
from cisr.tasks.lunar_lander.physics.world import World, pack, unpack


class Draws:
    """In the place of Gymnasium's generator: what it drew, as uniforms, of as many bits as JAX draws."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self.drawn = []

    def uniform(self, low=0.0, high=1.0, size=None):
        u = np.floor(self._rng.random(size) * 2**23) / 2**23
        self.drawn.append(np.atleast_1d(u))
        return low + (high - low) * u

    def take(self):
        drawn, self.drawn = np.concatenate(self.drawn), []
        return drawn.astype(np.float32)


def begun(seed):
    """A lander of Gymnasium's with its first observation, its draws, and the uniforms of its reset."""
    game = gymnasium.make("LunarLander-v3").unwrapped
    game.reset(seed=seed)
    game._np_random = draws = Draws(seed)
    observation, _ = game.reset()
    return game, observation, draws, draws.take()


def bodies(world: World):
    """What Gymnasium's task shows of the bodies, (n, 18)."""
    x, y = origin(world.hull)
    hull = world.hull._replace(x=x, y=y)
    return np.stack([*hull, *(part[0] for part in world.legs), *(part[1] for part in world.legs)], axis=-1)


def test_masses_are_box2ds():
    game, *_ = begun(0)
    for body, polygon in ((game.lander, constants.HULL), (game.legs[0], constants.LEG)):
        assert (polygon.mass.mass, *polygon.mass.centre) == (body.mass, *body.localCenter)
        inertia = body.inertia - body.mass * body.localCenter.lengthSquared
        assert polygon.mass.inertia == pytest.approx(inertia, rel=1e-6)
        assert np.allclose(polygon.vertices, body.fixtures[0].shape.vertices)


def test_terrain_reset_and_flight_follow_gymnasiums_own_draws():
    n, steps = 4, 25
    landers = [begun(seed) for seed in range(n)]
    u = np.stack([drawn for *_, drawn in landers])
    rng = np.random.default_rng(0)
    with by_numpy():
        world = launched(heights(u[:, :12].T), 2 * u[:, 12] - 1, 2 * u[:, 13] - 1)
        for k, (game, *_) in enumerate(landers):
            assert np.allclose(
                world.heights[1:, k], [f.shape.vertices[1][1] for f in game.moon.fixtures[1:]], atol=1e-5
            )
        theirs = np.stack([read_state(game)[8:] for game, *_ in landers])
        assert (bodies(world) == theirs).all()
        for _ in range(steps):
            actions = rng.integers(4, size=n)
            for (game, *_), action in zip(landers, actions, strict=True):
                game.step(int(action))
            d = 2 * np.stack([draws.take() for _, _, draws, _ in landers]) - 1
            stepped = step_world(world._replace(hull=fire(world.hull, actions, (d[:, 0], d[:, 1]))))
            world = stepped.world
            assert not stepped.crashed.any() and not stepped.asleep.any()
        theirs = np.stack([read_state(game)[8:] for game, *_ in landers])
        assert (abs(bodies(world) - theirs) / np.maximum(1, abs(theirs))).max() < 2e-5
        motors = [[leg.joint.GetMotorTorque(50) / 50 for leg in game.legs] for game, *_ in landers]
        assert np.allclose(world.joints.motor.T, motors, atol=1e-5)


def test_single_steps_on_the_ground_end_where_box2ds_do():
    """Box2D's own world, impulses included, before each of a landing's last steps: one step on is the same, and so are
    the verdicts; where a leg is on two edges at once it may differ a little."""
    before, actions, drawn, after, over, flags = [], [], [], [], [], []
    for seed in (0, 3):
        game, observation, draws, _ = begun(seed)
        still = np.zeros(3, np.float32)
        terminated = False
        while not terminated:
            action = heuristic(game, observation) if seed == 0 else 0  # one lands, one falls
            near = len(game.world.contacts) > 0
            world = read_world(game, still) if near else None
            observation, _, terminated, _, _ = game.step(action)
            u, state = draws.take(), read_state(game)
            moving = state[8:].reshape(3, 6)
            fast = (np.square(moving[:, 3:5]).sum(1) > 1e-4) | (abs(moving[:, 5]) > constants.SLEEP_SPIN)
            still = np.where(fast, 0, still + np.float32(constants.DT)).astype(np.float32)
            if near:
                before.append(world)
                actions.append(action)
                drawn.append(2 * u - 1)
                after.append(state)
                over.append((game.game_over, not game.lander.awake))
                flags.append(state[6:8])
    assert sum(crash for crash, _ in over) == 1 and sum(asleep for _, asleep in over) == 1
    with by_numpy():
        worlds = unpack(np.stack([pack(world) for world in before]))
        d = np.stack(drawn)
        stepped = step_world(worlds._replace(hull=fire(worlds.hull, np.array(actions), (d[:, 0], d[:, 1]))))
        apart = abs(bodies(stepped.world) - np.stack(after)[:, 8:]).max(axis=1)
    crashed, asleep = np.array(over).T
    assert (stepped.crashed == crashed).all() and (stepped.asleep == asleep).all()
    assert len(before) > 40
    assert (apart[~crashed] < 1e-3).mean() >= 0.95
    assert (np.stack(flags) == stepped.world.on_ground.T)[~crashed].all(1).mean() >= 0.95


def test_the_lander_trains_on_box2d_unless_told_otherwise():
    task = get_task("lunar-lander")
    assert choose_backend(task, "auto") == "gymnasium"
    assert choose_backend(task, "compiled") == "compiled"


def test_a_backend_that_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match="give auto, gymnasium or compiled"):
        Training(backend="cuda")
