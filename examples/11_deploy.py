"""Take a student elsewhere: exported as two files, it acts without cisr and JAX, by numpy alone."""

import subprocess
import sys

from cisr import Fixed, compare, export_student, get_task

ELSEWHERE = """
import sys
from numpy_policy import NumpyPolicy  # the program that was written beside the policy

policy = NumpyPolicy("student.npz")
print("sees", policy.about["observation"]["shape"], "without cisr and jax:", not {"cisr", "jax"} & set(sys.modules))
"""

if __name__ == "__main__":
    task = get_task("frozen-lake", scale="quick")
    comparison = compare(task, {"SR1": Fixed("SR1")}, n_students=1, store="runs/deploy.sqlite")
    student = comparison.student("SR1")
    export_student(student, "runs/student.npz")
    export_student(student, "runs/student.onnx")  # for any runtime of ONNX
    subprocess.run([sys.executable, "-c", ELSEWHERE], cwd="runs", check=True)

    sys.path.append("runs")
    from numpy_policy import NumpyPolicy

    policy, env, total = NumpyPolicy("runs/student.npz"), task.make_env(), 0.0
    observation, info = env.reset(seed=0)
    for _ in range(task.horizon):
        observation, reward, terminated, truncated, info = env.step(policy.predict(observation))
        total += float(reward)
        if terminated or truncated:
            break
    print(f"An episode of the exported policy: return {total:.1f}")
