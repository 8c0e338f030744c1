"""Wrong calls from Python by the hundred, each with the error of cisr's own that it must raise."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tiny

import cisr
from cisr import Appearance, Intervention, Place, Rewind, Switching, Task, Teaching, Threshold, Training
from cisr.auditing.exact import exact_audit
from cisr.curricula.space import Choice
from cisr.experiments.bench.measure import bench


class Call(NamedTuple):
    """A call, what it raises and a part of what that says."""

    name: str
    call: Callable[[], Any]
    error: type[Exception]
    says: str


def _task(**changes: Any) -> Task:
    return dataclasses.replace(tiny.task, **changes)


def _intervention(**changes: Any) -> Intervention:
    return dataclasses.replace(tiny.task.interventions[0], **changes)


def _student(**changes: Any) -> cisr.StudentConfig:
    return dataclasses.replace(tiny.student, **changes)


def _compare(curricula: Any = None, task: Any = tiny.task, **options: Any) -> Any:
    given = {"none": cisr.Fixed("none")} if curricula is None else curricula
    return cisr.compare(task, given, **{"execution": tiny.HERE, **options})


def _calls() -> list[Call]:
    calls: list[Call] = []

    def add(name: str, call: Callable[[], Any], says: str, error: type[Exception] = cisr.ConfigError) -> None:
        calls.append(Call(re.sub(r" at 0x[0-9a-f]+", "", name), call, error, says))  # processes must agree on names

    wrong = {
        "name": (5, None), "make_env": (None, "FrozenLake-v1"), 
        "danger": ("hole", None, {}, {"a": 1}, {1: tiny.task.success}),
        "success": ("goal", 1), "interventions": ("SR1", None, ("SR1",), tiny.task.interventions[0], (1,)),
        "horizon": (0, -1, 1.5, "100", None, True, 10**30), "reward": ("r", 5), "jax_env": (1,), "model": ("m",),
        "read_state": (None,), "place": ("p",), "kappa": ("0", -1, float("nan"), None),
        "max_reward": ("1", float("inf")), "constraint_form": ("median", 3), "safe_evaluation": (5, b"SR1"),
        "version": (1.5, object(), ["1"]), "training": (None, "quick", {}), "appearance": (None, "a lake", {}),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            add(f"Task({field}={value!r:.40})", lambda f=field, v=value: _task(**{f: v}), "give ")
    wrong = {
        "n_units": (0, 2.0, 10**12, "x"), "deployment_steps": (0, 0.5, None), "student": ("PPO", {"n_envs": 3}, 5),
        "teaching": (None, "ours", {}), "student_kind": (5,), "scale": (5, None),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            add(f"Training({field}={value!r:.40})", lambda f=field, v=value: Training(**{f: v}), "give ")
    wrong = {
        "description": (None, 7),
        "floor_plan": (5, {"rows": 5}, {"rows": ["S"], "zones": 3}, {"rows": np.zeros(3), "zones": {}}, "SFFG"),
        "state_plot": (5, {"axes": ["x", "y"]}, {"axes": object()}, "x", {"axes": ["x"], "limits": [], "lines": {}}),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            add(f"Appearance({field}={value!r:.40})", lambda f=field, v=value: Appearance(**{f: v}), "give ")
    wrong = {
        "name": (5, None, "", " a"), "trigger": ("t", None, {}, {"a": 1}, 5), "reset": ("start", None, Rewind, 3),
        "tau": ("0.1", -1, None, float("nan")), "kappa": ("x", -0.5), "horizon": (0, 1.5, "3", True),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            add(f"Intervention({field}={value!r:.40})", lambda f=field, v=value: _intervention(**{f: v}), "give ")
    wrong = {
        "n_initial": (0, 1.5, "3"), "n_rounds": (-1, 10**9), "class_size": (0, None), "at_once": (0.5,),
        "n_switches": (-1, 10**6), "patience": (0, "1"), "return_range": (5, (1,), (2, 1), ("a", "b")),
        "violation_range": ((0, float("nan")),), "teacher": ("theirs", 1), "interventions": ("SR1", 5),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            add(f"Teaching({field}={value!r:.40})", lambda f=field, v=value: Teaching(**{f: v}), "give ")
    wrong = {
        "network": ("mlp", None, (64, 64)), "n_envs": (0, 2.0, "4", True), "n_steps": (-1,),
        "learning_rate": ("fast", -1),
        "gamma": (None, float("nan")), "deterministic": (1, "yes"), "bootstrap_time_limit": ("no",),
        "last_learning_rate": ("0", 5.0), "n_candidates": (0,), "n_minibatches": (7,),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            add(f"StudentConfig({field}={value!r:.40})", lambda f=field, v=value: _student(**{f: v}), "give ")
    add("MLP(hidden=64)", lambda: cisr.MLP(hidden=64), "give a tuple")
    add("MLP(hidden=[64])", lambda: cisr.MLP(hidden=[64]), "give a tuple")
    add("MLP(hidden=())", lambda: cisr.MLP(hidden=()), "give a tuple")
    add("MLP(hidden=(0,))", lambda: cisr.MLP(hidden=(0,)), "give a whole number")
    add("MLP(hidden=(1.5,))", lambda: cisr.MLP(hidden=(1.5,)), "give a whole number")
    add("MLP(activation=None)", lambda: cisr.MLP(activation=None), "give 'relu'")
    add("CNN(kernel_size='3')", lambda: cisr.CNN(kernel_size="3"), "give a whole number")
    add("Population(base='PPO')", lambda: cisr.Population(base="PPO", vary={}), "give a cisr.StudentConfig")
    add("Population(vary=3)", lambda: cisr.Population(base=tiny.student, vary=3), "give a dictionary")
    add("Population(vary unknown)", lambda: cisr.Population(base=tiny.student, vary={"x": (1, 2)}), "students have")
    add("Population(vary text)", lambda: cisr.Population(base=tiny.student, vary={"gamma": "01"}), "give (low, high)")
    add("Population(vary nan)", lambda: cisr.Population(base=tiny.student, vary={"gamma": ("a", 1)}), "give a finite")
    add("explorer('PPO')", lambda: cisr.explorer("PPO"), "give a cisr.StudentConfig")
    for steps in (0, -1, 1.5, "2", None, True, 10**30):
        add(f"Rewind({steps!r})", lambda s=steps: Rewind(s), "give a whole number")
    add("Place(None)", lambda: Place(None), "give a function")
    add("Place(n_history=0)", lambda: Place(lambda s, h, u: s, n_history=0), "give a whole number")
    add("Place(n_uniforms=0.5)", lambda: Place(lambda s, h, u: s, n_uniforms=0.5), "give a whole number")
    add("Fixed(3)", lambda: cisr.Fixed(3), "give a text")
    add("Fixed(None)", lambda: cisr.Fixed(None), "give a text")
    add("Schedule('SR1')", lambda: cisr.Schedule("SR1"), "give a list or tuple of names")
    add("Schedule((1,))", lambda: cisr.Schedule((1,)), "give a list or tuple of names")
    add("Bandit('SR1')", lambda: cisr.Bandit("SR1"), "give a list or tuple of names")
    add("Bandit(())", lambda: cisr.Bandit(()), "give at least one")
    for names in ("held", "", b"held", 5, None):
        add(
            f"task_elsewhere({names!r})", lambda n=names: cisr.task_elsewhere("arm", n), "give a list or tuple of names"
        )
    add("Choice('held')", lambda: Choice(name="first", options="held"), "give a list or tuple of names")
    add("Patient('SR1')", lambda: cisr.Patient(interventions="SR1", thresholds=(), patience=1), "give a list or tuple")
    add("exact_audit('SR1')", lambda: exact_audit(tiny.task, "SR1"), "give a list or tuple of names")
    add("bench('compiled')", lambda: bench(tiny.task, backends="compiled"), "give a list or tuple of names")
    for act in ("set_aside", "start_over"):
        add(f"{act}('study')", lambda a=act: getattr(cisr.Store(None), a)("study"), "give a list or tuple of names")
    add("Threshold('1')", lambda: Threshold(min_return="1", max_violation=0), "give a finite number")
    add("Threshold(nan)", lambda: Threshold(min_return=0, max_violation=float("nan")), "give a finite number")
    add("Switching(text)", lambda: Switching(interventions="SR1", thresholds=()), "give a list or tuple of names")
    add("Switching(numbers)", lambda: Switching(interventions=("a", "b"), thresholds=(1.0,)), "give a cisr.Threshold")
    add("Switching(none)", lambda: Switching(interventions=("a",), thresholds=None), "give a tuple of Thresholds")
    add("Patient(1.5)", lambda: cisr.Patient(interventions=("a",), thresholds=(), patience=1.5), "give a whole number")
    for curricula in (
        {"none": "none"},
        {"none": None},
        {"none": cisr.Fixed},
        {1: cisr.Fixed("none")},
        ["none"],
        "none",
        {},
    ):
        add(f"compare({curricula!r:.40})", lambda c=curricula: _compare(c), ": ")
    for task in ("frozen-lake", None, cisr.Task, 5):
        add(f"compare({task!r:.40}, …)", lambda t=task: _compare(task=t), "give a cisr.Task")
        add(f"Study({task!r:.40})", lambda t=task: cisr.Study(t), "give a cisr.Task")
    for number in (0, -1, 1.5, "3", None, True, 10**12):
        add(f"compare(n_students={number!r})", lambda n=number: _compare(n_students=n), "give a whole number")
    for seed in (-1, 1.5, "0", None, True, 2**31, 10**40, [1]):
        add(f"compare(seed={seed!r})", lambda s=seed: _compare(seed=s), "give a whole number")
        add(f"Study(seed={seed!r})", lambda s=seed: cisr.Study(tiny.task, seed=s), "give a whole number")
    for batch in (0, 1.5, "x", 10**9):
        add(f"Execution(batch={batch!r})", lambda b=batch: cisr.Execution(batch=b), "give a whole number")
    for workers in (-1, 0.5, "x", 10**9):
        add(f"Execution(n_workers={workers!r})", lambda w=workers: cisr.Execution(n_workers=w), "give a whole number")
    for executor in ("slurm", None, 3, cisr.Execution):
        given = f"Execution(executor={executor!r:.40})"
        add(given, lambda e=executor: cisr.Execution(executor=e), "give serial, processes, ray or a cisr.Ray")
    add("Ray(address=3)", lambda: cisr.Ray(address=3), "give a text")
    add("Ray(gpus=2)", lambda: cisr.Ray(gpus=2), "give True or False")
    add("compare(execution=2)", lambda: _compare(execution=2), "give a cisr.Execution")
    add("compare(evaluate_safely=None)", lambda: _compare(evaluate_safely=None), "give True or False")
    add("compare(name=3)", lambda: _compare(name=3), "give a text")
    add("compare(name='a/b')", lambda: _compare(name="a/b"), "without a slash")
    add("Teaching(n_rounds=10**12)", lambda: tiny.teaching(n_rounds=10**12), "give a whole number")
    many = tiny.teaching(n_rounds=60_000, class_size=2)
    add("Study(too many)", lambda: cisr.Study(tiny.task, teaching=many), "students in all")
    add("Study(teaching=5)", lambda: cisr.Study(tiny.task, teaching=5), "give a cisr.Teaching")
    add("Study(execution=2)", lambda: cisr.Study(tiny.task, execution=2), "give a cisr.Execution")
    add("Study(teacher='GP')", lambda: cisr.Study(tiny.task, teacher="GP"), "give a function")
    add("Study(score=3)", lambda: cisr.Study(tiny.task, score=3), "give a function")
    add("Study(name=[])", lambda: cisr.Study(tiny.task, name=[]), "give a text")
    add("Study(teacher that makes none)", cisr.Study(tiny.task, teacher=lambda *_: None).run, "give a cisr.Teacher")
    for wrong in (1, "x"):
        add(
            f"Study.run({wrong!r})", lambda w=wrong: cisr.Study(tiny.task).run(w), "give a function of a progress event"
        )
        add(f"compare(callback={wrong!r})", lambda w=wrong: _compare(callback=w), "of a progress event")
    for store in (1, [], 3.5):
        add(
            f"Study(store={store!r})",
            cisr.Study(tiny.task, store=store).run,
            "give the path of a file",
            cisr.StoreError,
        )
        add(f"compare(store={store!r})", lambda s=store: _compare(store=s), "give the path of a file", cisr.StoreError)
    for points in ("x", -1, (1,)):
        add(f"Teaching(initial={points!r})", lambda p=points: tiny.teaching(initial=p), "give a tuple of points")
    for priors in ("x", 1, ((1,),), ((1, -1),)):
        add(f"Teaching(hyperpriors={priors!r})", lambda p=priors: tiny.teaching(hyperpriors=p), "(mean, variance)")
    for backend in ([], -1, "x", None):
        add(f"Execution(backend={backend!r})", lambda b=backend: cisr.Execution(backend=b), "give auto, gymnasium or")
    add("InducedCMDP(1, 'x')", lambda: cisr.InducedCMDP(1, "x"), "give a cisr.Task")
    add("InducedCMDP(task, 1)", lambda: cisr.InducedCMDP(tiny.task, 1), "give a name, or a cisr.Intervention")
    add("load_student(1, …)", lambda: cisr.load_student(1, tiny.task, "x"), "give a cisr.Store")
    add("save_policy(1, …)", lambda: cisr.save_policy(1, "p.json"), "give a curriculum policy")
    for task in (None, "frozen-lake"):
        add(f"check_task({task!r})", lambda t=task: cisr.check_task(t), "give a cisr.Task")
    add("get_task(5)", lambda: cisr.get_task(5), "give a text")
    add("get_task(scale)", lambda: cisr.get_task("frozen-lake", "tiny"), "give one of paper, quick")
    add("get_task(student=PPO)", lambda: cisr.get_task("frozen-lake", student="PPO"), "choose one of")
    add("load_policy(None)", lambda: cisr.load_policy(None), "Cannot read the curriculum file None")
    add("load_policy(nul)", lambda: cisr.load_policy("a\0b"), "Cannot read the curriculum file")
    add("save_policy(folder)", lambda: cisr.save_policy(cisr.Fixed("none"), "/"), "Cannot write /")

    _of_wrapped_environments(add)
    _of_models_and_teachers(add)
    _of_users_own(add)

    def audit(**options: Any) -> Any:
        from cisr.auditing import audit

        return audit(**{"task": tiny.task, **options})

    add("audit(backend='x')", lambda: audit(backend="x"), "give auto, gymnasium or compiled")
    add("audit(callback=1)", lambda: audit(callback=1), "of a progress event")

    add("audit(task='x')", lambda: audit(task="x"), "give a cisr.Task")
    add("audit(interventions='SR1')", lambda: audit(interventions="SR1"), "give a list or tuple of names")
    add("audit(interventions=[1])", lambda: audit(interventions=[1]), "give a list or tuple of names")
    add("audit(budget='x')", lambda: audit(budget="x"), "give a whole number")
    add("audit(confidence='x')", lambda: audit(confidence="x"), "give a finite number")
    add("audit(attackers=[])", lambda: audit(attackers=["x"]), "give a dictionary")
    add("audit(attackers={})", lambda: audit(attackers={"up": 1}), "give a function")

    def indexing(**changes: Any) -> Any:
        return _compare(task=_task(**changes), n_students=1)

    def first(state: Any) -> Any:
        return state[0] > 1

    triggered = tuple(dataclasses.replace(i, trigger=first) for i in tiny.task.interventions)
    add(
        "trigger: s[0] > 1",
        lambda: indexing(interventions=triggered),
        "was bool of shape (2,)",
        cisr.TaskError,
    )
    add("danger: s[0] > 1", lambda: indexing(danger=lambda m: m.state[0] > 1), "state[..., 0]", cisr.TaskError)
    add("danger: a number", lambda: indexing(danger=lambda m: m.state[..., 0]), "answered int64", cisr.TaskError)
    add("danger: if", lambda: indexing(danger=lambda m: bool(m.state[..., 0] > 1)), "raised ValueError", cisr.TaskError)
    add("success: None", lambda: indexing(success=lambda m: None), "answered object of shape ()", cisr.TaskError)
    add("make_env: None", lambda: indexing(make_env=lambda **o: None), "return a gymnasium.Env", cisr.TaskError)
    return calls


ROWS = [[1], [1, 2]]
"""Of several lengths: no array."""
ANYTHING = (None, "x", b"x", [], {}, 1.5, float("nan"), object(), np.zeros(3), ROWS, [None])


def _of_wrapped_environments(add: Callable[..., None]) -> None:
    one = {"failures": 1.0, "rescues": 1.0}

    def lagrangian(task: Any = tiny.task) -> Any:
        return cisr.Lagrangian(cisr.InducedCMDP(task, "SR1"), one)

    def ended(env: Any) -> Any:
        env.reset(seed=0)
        while not any(env.step(1)[2:4]):
            pass
        env.step(1)

    def stepped(env: Any, action: Any) -> Any:
        env.reset(seed=0)
        env.step(action)

    for name, make in (("InducedCMDP", lambda: cisr.InducedCMDP(tiny.task, "SR1")), ("Lagrangian", lagrangian)):
        add(f"{name}: step before reset", lambda m=make: m().step(0), "call reset")
        add(f"{name}: step after the end", lambda m=make: ended(m()), "call reset")
        for action in (*ANYTHING, 4, -1, 2**70, [0], "0"):
            says = "give one of Discrete(4)"
            add(f"{name}: step({action!r:.30})", lambda m=make, a=action: stepped(m(), a), says)
        for seed in ("x", -1, 1.5, [], True):
            add(f"{name}: reset({seed!r})", lambda m=make, s=seed: m().reset(seed=s), "give a whole number")
    add("InducedCMDP(cost=array)", lambda: cisr.InducedCMDP(tiny.task, cost=np.zeros(3)), "give 'failures' or")
    add("Lagrangian(None)", lambda: cisr.Lagrangian(None, one), "give a cisr.InducedCMDP")
    add("Lagrangian(a task's own)", lambda: cisr.Lagrangian(tiny.task.make_env(), one), "wrap a cisr.InducedCMDP")
    for values in (*ANYTHING, [1.0], [1.0, float("inf")]):
        for what in ("add", "move"):
            shared = cisr.Multipliers(("failures", "rescues"))
            add(
                f"Multipliers.{what}({values!r:.30})",
                lambda s=shared, w=what, v=values: getattr(s, w)(v),
                "give 2 finite",
            )


def _of_models_and_teachers(add: Callable[..., None]) -> None:
    from cisr.cmdp.finite import model_of

    model = model_of(tiny.task)
    for field in ("states", "source", "action", "probability", "target", "reward", "terminated", "start"):
        for value in (None, "x", ROWS, {}, 5, np.zeros(3)):
            change = {field: value}
            add(f"FiniteModel({field}={value!r:.20})", lambda c=change: dataclasses.replace(model, **c), "give ")
    for value in (None, 0, 1.5, "4", 10**30, np.zeros(3)):
        change = {"n_actions": value}
        add(f"FiniteModel(n_actions={value!r:.20})", lambda c=change: dataclasses.replace(model, **c), "a whole number")
    space = Switching.space(("a", "b"), 1, (0.0, 1.0), (0.0, 1.0))
    wrong = {
        "interventions": (None, 5, "ab", (1,), ()), "n_switches": (None, -1, 1.5, 10**30),
        "return_range": (None, 5, "01", (1, 0), ROWS), "violation_range": (("a", "b"), (0, float("nan"))),
    }  # fmt: skip
    fine = {"interventions": ("a",), "n_switches": 1, "return_range": (0, 1), "violation_range": (0, 1)}
    for field, values in wrong.items():
        for value in values:
            given = fine | {field: value}
            add(f"Switching.space({field}={value!r:.20})", lambda g=given: Switching.space(**g), "give ")
    for point in ANYTHING:
        add(
            f"Switching.from_parameters({point!r:.20})",
            lambda p=point: Switching.from_parameters(p),
            "give one by name",
        )
    for teacher in (cisr.GPUCB, cisr.RandomSearch, cisr.TopTwo):
        name = teacher.__name__
        for seed in (None, -1, 1.5, "0", True, np.zeros(3)):
            add(f"{name}(seed={seed!r})", lambda t=teacher, s=seed: t(space, seed=s), "give a whole number")
        add(f"{name}(space=None)", lambda t=teacher: t(None, seed=0), "give a search space")
        for n in (None, 0, 1.5, "1", 10**30, np.zeros(3)):
            add(f"{name}.ask({n!r})", lambda t=teacher, n=n: t(space, seed=0).ask(n), "give a whole number")

        def told(teacher: Any = teacher, **changes: Any) -> Any:
            one = teacher(space, seed=0)
            return one.tell(**{"parameters": one.ask(1)[0], "score": 0.0, **changes})

        for what in ("parameters", "score", "sem", "each"):
            for value in (
                "x",
                [None],
                object(),
                np.zeros(3) if what != "each" else 5,
                10**400 if what != "each" else None,
            ):
                change = {what: value}
                add(f"{name}.tell({what}={value!r:.20})", lambda told=told, c=change: told(**c), "give ")
    wrong = {"n_initial": (None, -1, "3"), "initial": (None, 5, "x", [1]), "priors": (5, "x"), "beta": (None, "2", -1)}
    for field, values in wrong.items():
        for value in values:
            given = {field: value}
            add(f"GPUCB({field}={value!r})", lambda g=given: cisr.GPUCB(space, seed=0, **g), "give ")


class _Curriculum:
    """One of a user's own."""

    first_stage = 0

    def __init__(self, used: Any = ("SR1",), stage: Any = 0, intervention: Any = "SR1", json: Any = None) -> None:
        self.interventions_used, self._stage, self._intervention = used, stage, intervention
        self._json = {"kind": "own"} if json is None else json

    def next_stage(self, stage: Any, observed: Any, rng: Any) -> Any:
        return self._stage

    def intervention(self, stage: Any) -> Any:
        return self._intervention

    def to_json(self) -> Any:
        return self._json


class _Silent(cisr.Teacher):
    """One of a user's own."""

    answer: Any = None

    def _propose(self, n: int) -> Any:
        return self.answer


def _of_users_own(add: Callable[..., None]) -> None:
    brief = tiny.task.with_training(n_units=1, deployment_steps=20)
    alone = tiny.teaching(n_initial=1, n_rounds=0, class_size=1, return_range=(0, 1), violation_range=(0, 1))

    def study(task: Task = brief, **options: Any) -> Any:
        return cisr.Study(task, teaching=alone, execution=tiny.HERE, **options).run()

    def boom(*_: Any) -> Any:
        raise ValueError("boom")

    for answer in (None, "x", float("nan"), [1, 2], 1e308):
        add(
            f"Study(score: {answer!r})",
            lambda a=answer: study(score=lambda t: a),
            "The score of student 'study/000/00'",
        )
    add("Study(score that raises)", lambda: study(score=boom), "raised ValueError: boom")
    two = brief.with_training(n_units=2)
    for answer in (None, "x", cisr.Observation(float("nan")), cisr.Observation(0.0, "a")):
        says = "The observe of a study, asked about unit 1"
        add(f"Study(observe: {answer!r})", lambda a=answer: study(two, observe=lambda u: a), says)
    add("Study(observe that raises)", lambda: study(two, observe=boom), "raised ValueError: boom")
    add("Study(teacher that raises)", lambda: study(teacher=boom), "raised ValueError: boom")
    for answer in (None, [], [{}], [1], "x"):
        made = type("Silent", (_Silent,), {"answer": answer})
        add(f"Study(teacher: {answer!r})", lambda m=made: study(teacher=lambda s, seed: m(s, seed=seed)), "give ")
    wrong = {
        "used": (None, "SR1", [1]),
        "stage": (object(), {1, 2}),
        "intervention": (None, 5),
        "json": (5, [1], object()),
    }
    for what, values in wrong.items():
        for value in values:
            policy = _Curriculum(**{what: value})
            add(
                f"curriculum({what}={value!r:.20})",
                lambda p=policy: _compare({"own": p}, brief, n_students=1),
                "urriculum" if what != "intervention" else "give a text",
            )
    store = cisr.Store(None)
    for name in ("nobody", ""):
        add(f"Store.transcript({name!r})", lambda n=name: store.transcript(n), "has no student", cisr.StoreError)
    for name in (None, 5, b"x", [], 10**400, "\ud800"):
        for what in ("transcript", "transcripts", "weights", "spec", "trials", "curricula"):
            add(f"Store.{what}({name!r:.20})", lambda w=what, n=name: getattr(store, w)(n), "give a text")
    add("Store(surrogate)", lambda: cisr.Store("\ud800"), "There is no store", cisr.StoreError)
    for name in (*ANYTHING[:1], *ANYTHING[2:]):
        add(f"Task.intervention({name!r:.20})", lambda n=name: tiny.task.intervention(n), "give a text")
    for kind in (5, b"x", [], np.zeros(3)):
        add(f"get_task(student={kind!r})", lambda k=kind: cisr.get_task("frozen-lake", student=k), "give a text")
    many = np.zeros(3)
    for name, call in {
        "MLP(activation)": lambda: cisr.MLP(activation=many),
        "Execution(executor)": lambda: cisr.Execution(executor=many),
        "Execution(backend)": lambda: cisr.Execution(backend=many),
        "SB3Student(algorithm)": lambda: cisr.SB3Student(many),
        "SB3Student(policy)": lambda: cisr.SB3Student("PPO", many),
        "SB3Student.like": lambda: cisr.SB3Student.like(None, "PPO"),
        "Task(constraint_form)": lambda: _task(constraint_form=many),
        "Training(backend)": lambda: Training(backend=many),
        "Teaching(teacher)": lambda: Teaching(teacher=many),
        "get_task(scale)": lambda: cisr.get_task("frozen-lake", many),
        "Execution(step_timeout)": lambda: cisr.Execution(step_timeout=10**400),
        "task_elsewhere(text)": lambda: cisr.task_elsewhere("arm", "held"),
        "task_elsewhere(None)": lambda: cisr.task_elsewhere("arm", None),
    }.items():
        add(f"{name}, an array or else", call, "give ")
    for env in (None, 5, object()):
        add(f"GymnaxEnv({env!r:.20})", lambda e=env: cisr.GymnaxEnv(e, vector=("x",)), "is no environment of gymnax's")


CALLS = _calls()
