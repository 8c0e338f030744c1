"""Keep your learner: a teacher over students of Stable-Baselines3 on Frozen Lake, and how new ones do under it."""

from dataclasses import replace

from cisr import Fixed, SB3Student, Study, compare, get_task

if __name__ == "__main__":
    task = get_task("frozen-lake", scale="quick")
    student = SB3Student(
        "PPO",  # or A2C, DQN, SAC, TD3, DDPG; settings go by Stable-Baselines3's names
        settings={"learning_rate": 3e-3, "n_steps": 32, "batch_size": 128, "n_epochs": 4, "ent_coef": 0.1},
        n_envs=16,
        steps_per_round=4_608,
    )
    teaching = replace(task.training.teaching, n_switches=1, n_initial=3, n_rounds=3)
    store = "runs/sb3.sqlite"  # stop and run again at will: replay buffers and optimisers are kept, too
    found = Study(task, student=student, teaching=teaching, store=store).run().best_policy
    curricula = {"optimized": found, "SR1": Fixed("SR1"), "none": Fixed("none")}
    for row in compare(task, curricula, student=student, n_students=3, store=store).rows:
        print(
            f"{row.curriculum}: success {row.success.mean:.2f}, failures {row.training_failures.mean:.0f} in training"
        )
