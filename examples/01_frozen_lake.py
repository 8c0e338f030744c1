"""Train a teacher on Frozen Lake and compare what it found with two baselines, at the quick scale."""

from dataclasses import replace

from cisr import Fixed, Store, Study, compare, get_task, save_policy

if __name__ == "__main__":
    task = get_task("frozen-lake", scale="quick")
    with Store("runs/example.sqlite") as store:  # stop and run again at will: nothing is lost
        teaching = replace(task.training.teaching, n_initial=4, n_rounds=2)
        result = Study(task, teaching=teaching, store=store).run()
        save_policy(result.best_policy, "runs/example-curriculum.json")
        curricula = {"optimized": result.best_policy, "SR1": Fixed("SR1"), "none": Fixed("none")}
        comparison = compare(task, curricula, n_students=4, store=store)
    for row in comparison.rows:
        print(
            f"{row.curriculum}: success {row.success.mean:.2f}, failures in training {row.training_failures.mean:.0f}"
        )
