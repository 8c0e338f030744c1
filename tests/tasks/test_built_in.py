"""The table of built-in tasks: a line of it is all that the rest of the library needs."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import pytest
import tiny

from cisr import ConfigError, get_task
from cisr.experiments.reproduce import publication
from cisr.tasks import BUILT_IN, entry_of, papers_kind, usual_kind
from cisr.tasks.entry import EXPLORER, Entry


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_scale_and_kind_of_students_can_be_made(name):
    entry = entry_of(name)
    for scale in entry.scales:
        assert papers_kind(name, scale) in entry.students
        for kind in entry.students:
            task = get_task(name, scale, kind)
            assert (task.name, task.training.scale, task.training.student_kind) == (name, scale, kind)


@pytest.mark.parametrize("name", BUILT_IN)
def test_explorers_are_the_usual_students(name):
    assert get_task(name).training == get_task(name, student=EXPLORER).training
    assert usual_kind(name) == EXPLORER


def test_gymnasium_knows_them_by_name():
    assert {"cisr/FrozenLake-v0", "cisr/LunarLander-v0", "cisr/Highway-v0"} <= set(gymnasium.registry)
    env = gymnasium.make("cisr/FrozenLake-v0", intervention="HR", student="cnn")
    assert env.spec.kwargs == {"task": "frozen-lake", "intervention": "HR", "student": "cnn"}


def test_a_line_of_the_table_is_enough(monkeypatch):
    published = entry_of("frozen-lake").published
    entry = Entry(
        make=lambda scale, kind: replace(tiny.task, name="pond").with_training(scale=scale, student_kind=kind),
        scales={"paper": "frogs"},
        students=("frogs", EXPLORER),
        published=published,
    )
    monkeypatch.setitem(sys.modules, "pond", SimpleNamespace(ENTRY=entry))
    monkeypatch.setitem(BUILT_IN, "pond", "pond")
    assert get_task("pond").training.student_kind == EXPLORER
    assert papers_kind("pond", "paper") == "frogs"
    assert publication(get_task("pond", student="frogs")) is published
    with pytest.raises(ConfigError, match="The scale is 'quick': give one of paper"):
        get_task("pond", "quick")
    with pytest.raises(ConfigError, match="Task 'pond' has no student 'toads': choose one of frogs, explorer"):
        get_task("pond", student="toads")
