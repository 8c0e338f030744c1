"""The benchmark measures something on every backend and says it in the promised form. How fast is nobody's test."""

import json

import pytest
import tiny

from cisr import MLP, CisrError, Population
from cisr.cli import main
from cisr.experiments.bench import measure
from cisr.experiments.bench.measure import bench
from cisr.experiments.bench.throughput import BACKENDS
from cisr.students.kinds import student_of
from cisr.view.bench_table import what_is_compared


def test_every_backend_has_a_rate_and_each_of_ours_a_ratio():
    pytest.importorskip("stable_baselines3")
    said = []
    found = bench(tiny.compiled, seconds=0.5, repetitions=1, cores=1, students=2, say=said.append)
    record = json.loads(json.dumps(found.to_json()))
    assert list(record["lanes"]) == list(BACKENDS) and min(record["lanes"].values()) > 0
    assert set(record["ratios"]) == {
        f"{own}/{other}" for own in ("compiled", "gymnasium") for other in ("sb3", "sb3-plain")
    }
    for name, ratio in record["ratios"].items():
        own, other = (record["lanes"][backend] for backend in name.split("/"))
        assert ratio == pytest.approx(own / other)
    assert (record["task"], found.intervention) == ("compiled-lake", "SR1")
    assert set(record) == {"task", "scale", "machine", "lanes", "ratios"}
    assert record["machine"]["cores"] == 1
    assert len(said) == 8
    assert found.tabulated and "finitely many observations" in what_is_compared(found)


def test_without_stable_baselines3_there_are_rates_but_no_ratios(monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(measure, "installed", lambda name: name != "stable_baselines3")
    monkeypatch.setattr(measure.os, "cpu_count", lambda: 1)
    with pytest.raises(SystemExit) as stop:
        main(
            ["bench", "tiny:task", "--seconds", "0.5", "--repetitions", "1", "--json", str(tmp_path / "bench.json")],
        )
    assert stop.value.code == 0
    printed = capfd.readouterr()
    assert "pip install 'cisr[sb3]'" in printed.out
    assert "task 'tiny-lake' has no JAX environment" in printed.out
    assert "turn 1 of 1: gymnasium" in printed.err
    record = json.loads((tmp_path / "bench.json").read_text())
    assert list(record["lanes"]) == ["gymnasium"] and record["lanes"]["gymnasium"] > 0
    assert record["ratios"] == {}


def test_a_student_that_fails_is_an_error_and_not_a_rate():
    with pytest.raises(CisrError, match="the simulator lost its licence"):
        bench(tiny.explosive, backends=["gymnasium"], seconds=60, repetitions=1, cores=1)


def test_of_a_population_its_base_is_measured():
    varied = Population(base=tiny.student, vary={"network": [MLP()]})
    assert student_of(tiny.task.with_training(student=varied)) == tiny.student


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--backends", "compiled,warp"),
            "There is no backend 'warp' to measure: choose from compiled, gymnasium, sb3, sb3-plain",
        ),
        (("--backends", "compiled"), "task 'tiny-lake' has no JAX environment"),
        (("--seconds", "-1"), "The time to measure is -1 seconds"),
        (("--seconds", "nan"), "The time to measure is nan seconds"),
        (("--repetitions", "0"), "The number of repetitions is 0"),
        (("--students", "0"), "The number of students in a batch is 0"),
        (("--intervention", "SR9"), "has no intervention 'SR9'"),
        (("--seed", "-1"), "The seed is -1"),
    ],
)
def test_wrong_names_and_numbers_get_one_line(capfd, words, says):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "tiny:task", *words])
    assert stop.value.code == 2
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert line.startswith("cisr: ") and says in line
