"""`Back-x` and `Incremental-x`: what their names say, and which intervention they are like."""

from dataclasses import replace

import pytest
import tiny

from cisr import ConfigError, Rewind
from cisr.core.rewinds import RewindName, back, first_rewind, read_rewind

SR1, SR2, HR = tiny.task.interventions


def test_names_say_by_how_many_steps_and_whether_that_grows():
    assert read_rewind("Back-6") == RewindName(steps=6, grows=False)
    assert read_rewind("Incremental-2") == RewindName(steps=2, grows=True)


@pytest.mark.parametrize("name", ["SR1", "none", "Back-", "Back-x", "back-2", "Back--1", "Back-2 ", "Back-9999999999"])
def test_other_names_say_nothing(name):
    assert read_rewind(name) is None


def test_an_incremental_rewind_is_longer_in_every_unit():
    assert [read_rewind("Incremental-3").in_unit(unit) for unit in (1, 2, 3)] == ["Back-3", "Back-6", "Back-9"]
    assert read_rewind("Back-3").in_unit(7) == "Back-3"


def test_back_x_is_like_the_first_rewind():
    assert first_rewind((HR, SR2, SR1)) == SR2
    assert back("Back-4", (HR, SR2, SR1)) == replace(SR2, name="Back-4", reset=Rewind(4))


def test_without_a_rewind_there_is_no_back_x():
    assert back("Back-4", (HR,)) is None
    with pytest.raises(ConfigError, match="has no intervention 'Back-4': choose one of HR, none"):
        replace(tiny.task, interventions=(HR,)).intervention("Back-4")


def test_an_incremental_rewind_is_a_curriculum_and_no_intervention():
    with pytest.raises(ConfigError, match="has no intervention 'Incremental-2'"):
        tiny.task.intervention("Incremental-2")


def test_a_tasks_own_intervention_comes_first():
    own = replace(HR, name="Back-2")
    assert replace(tiny.task, interventions=(SR1, own), safe_evaluation=None).intervention("Back-2") is own
