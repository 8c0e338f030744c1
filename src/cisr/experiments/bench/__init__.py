"""How fast students learn: cisr's backends and Stable-Baselines3 on the same work, in one run.

The work is a task's student (the same network, rollouts, minibatches and epochs) under one intervention. Steps per
second, summed over processes, count rollouts and updates; starting processes, compilation and warm-up are left out.
The sides take turns, because machines are noisy: ratios are taken within each turn.

- compiled: a classroom with one single-threaded worker process and one batch of students for each core; on an
  accelerator one large batch in this process.
- gymnasium: a classroom with one single-threaded worker process and one batch of students for each core.
- sb3: `PPO.learn` in one single-threaded process for each core, with one student each: it knows no batches of students.
- sb3-plain: the same without any intervention, on the task's own environment, which is less work.

Not equal, to Stable-Baselines3's advantage: cisr runs its whole classroom (Lagrangian reward, multipliers, new
environments each unit, checkpoints), the other side only `PPO.learn`. To the disadvantage of sb3: `InducedCMDP` judges
each environment on its own, where cisr judges those of many students together. That costs little on a lake and a lot
on a lander; sb3-plain is without it. To that of both: the value is evaluated once more where the time limit ends an
episode. Where a task has finitely many observations, the compiled backend runs the network once for each of them, not
for each sample (`cisr.students.observation_table`): the same updates with less arithmetic, which no task with other
observations gets.
"""
