"""The smallest thing that is still everything: Frozen Lake with tiny students, a study of five policies."""

import dataclasses
import os
import random

import gymnasium

from cisr import MLP, Execution, StudentConfig, get_task

_quick = get_task("frozen-lake", "quick", "mlp")

student = StudentConfig(
    network=MLP(hidden=(8,)), n_envs=2, n_steps=32, n_minibatches=2, n_epochs=2, updates_per_round=2
)
task = dataclasses.replace(
    _quick,
    name="tiny-lake",
    interventions=_quick.interventions[:3],  # the paper's
    jax_env=None,
    horizon=40,
    training=dataclasses.replace(
        _quick.training,
        n_units=3,
        deployment_steps=100,
        student=student,
        teaching=dataclasses.replace(_quick.training.teaching, interventions=(), n_initial=3, n_rounds=2, class_size=2),
        scale="own",
    ),
)


HERE = Execution(n_workers=0, batch=2)
"""Everything in this process."""


def teaching(**changes):
    """The task's own, but for some things."""
    return dataclasses.replace(task.training.teaching, **changes)


compiled = dataclasses.replace(task, name="compiled-lake", jax_env=_quick.jax_env)

published = (  # as little as can be of the task that the paper has a table for
    dataclasses.replace(task, name="frozen-lake")
    .with_training(scale="quick", n_units=1)
    .with_teaching(n_initial=2, n_rounds=0, class_size=1)
)


def shortened(task):
    """Students of a lander that hardly learn anything."""
    brief = {
        "n_envs": 2,
        "n_steps": 32,
        "n_minibatches": 2,
        "n_epochs": 1,
        "rounds_per_unit": 1,
        "updates_per_round": 1,
    }
    student = dataclasses.replace(task.training.student, **brief)
    return task.with_training(n_units=1, deployment_steps=50, student=student)


lander = shortened(get_task("lunar-lander", student="two-layer"))
small_lander = shortened(get_task("lunar-lander", student="one-layer"))


def explosive_env(**options):
    """A lake whose ice breaks the program after some steps."""
    env = task.make_env(**options)
    step, calls = env.step, [0]

    def step_or_raise(action):
        calls[0] += 1
        if calls[0] > 70:
            raise RuntimeError("the simulator lost its licence")
        return step(action)

    env.step = step_or_raise
    return env


explosive = dataclasses.replace(task, name="explosive-lake", make_env=explosive_env)


class Fragile(gymnasium.Wrapper):
    """A lake that breaks now and then, one step in 700 unless it is said from outside to hold."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._chance = random.Random(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        if self._chance.random() < 1 / 700 and "HOLD" not in os.environ:
            raise RuntimeError("the ice broke")
        return self.env.step(action)


fragile = dataclasses.replace(task, name="fragile-lake", make_env=lambda **options: Fragile(task.make_env(**options)))


def suicidal_env(**options):
    """A lake that takes the whole process with it."""
    import signal

    env = task.make_env(**options)
    env.step = lambda action: os.kill(os.getpid(), getattr(signal, os.environ.get("DEATH", "SIGABRT")))
    return env


suicidal = dataclasses.replace(task, name="suicidal-lake", make_env=suicidal_env)


def hungry_jax_env():
    """A lake that takes more memory than any machine has, while the variable HUNGRY is set."""
    import jax.numpy as jnp

    from cisr.tasks.frozen_lake.jax_env import LakeJaxEnv

    class HungryJaxEnv(LakeJaxEnv):
        def step_env(self, u, state, action, params):
            return super().step_env(jnp.sort(u, axis=-1)[..., :1], state, action, params)

    return HungryJaxEnv(_quick.jax_env().lake, n_step_uniforms=10**13 if "HUNGRY" in os.environ else 1)


hungry = dataclasses.replace(compiled, name="hungry-lake", jax_env=hungry_jax_env)
