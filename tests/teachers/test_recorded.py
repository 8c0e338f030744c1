"""The benchmark of teachers on recorded students asks everyone the same question."""

import gzip

import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.teachers.base import random_point
from recorded import TABLE, Recorded
from teachers import MadeUp, differences_of, rows_of, search, sign_flip_p


@pytest.fixture(scope="module")
def lake():
    return Recorded.load(TABLE)


def test_a_table_loads_plain_and_with_gzip_and_may_have_other_columns(lake, tmp_path):
    lines = gzip.decompress(TABLE.read_bytes()).decode().splitlines()
    plain = tmp_path / "plain.csv"
    plain.write_text("\n".join([lines[0] + ",met", *(line + ",SR1*3 HR*8" for line in lines[1:])]))
    assert Recorded.load(plain).policies == lake.policies
    assert len(lake.policies) == 240 and {len(policy.returns) for policy in lake.policies} == {16}


def test_a_table_without_some_combination_of_interventions_is_an_error(lake):
    with pytest.raises(ConfigError, match="No policy with SR1, SR1, HR is recorded"):
        Recorded([p for p in lake.policies if [*p.parameters.values()][4:] != ["SR1", "SR1", "HR"]])


def test_the_nearest_policy_has_the_same_interventions_and_no_other_of_these_is_nearer(lake):
    scale = {"return_1": 6.0, "violation_1": 0.2, "return_2": 6.0, "violation_2": 0.2}
    for number in range(50):
        point = random_point(lake.space, 7, number)
        same = [
            k
            for k, policy in enumerate(lake.policies)
            if all(policy.parameters[choice.name] == point[choice.name] for choice in lake.space.choices)
        ]
        distances = [
            sum(((lake.policies[k].parameters[name] - point[name]) / width) ** 2 for name, width in scale.items())
            for k in same
        ]
        assert lake.nearest(point) == same[int(np.argmin(distances))]


def test_a_recorded_policy_is_nearest_to_itself(lake):
    assert [lake.nearest(policy.parameters) for policy in lake.policies] == list(range(240))


def test_students_come_without_replacement_and_then_anew(lake):
    policy, train = lake.policies[3], lake.students(seed=1)
    tried, scores = zip(*(train(policy.parameters) for _ in range(32)), strict=True)
    assert all(parameters == policy.parameters for parameters in tried)
    assert sorted(scores[:16]) == sorted(policy.returns)
    assert scores[16:] == scores[:16] != policy.returns


def test_teachers_meet_the_students_of_a_policy_in_the_same_order_whatever_else_they_try(lake):
    one, two, other_seed = lake.students(seed=1), lake.students(seed=1), lake.students(seed=2)
    here, there = lake.policies[3].parameters, lake.policies[4].parameters
    alone = [one(here) for _ in range(5)]
    mixed = [(two(there), two(here))[1] for _ in range(5)]
    assert alone == mixed != [other_seed(here) for _ in range(5)]


def test_the_best_recorded_policy_has_no_regret_and_all_others_have_some(lake):
    regrets = sorted(lake.highest - lake.truth(policy.parameters) for policy in lake.policies)
    assert regrets[0] == 0 and regrets[1] > 0


def test_teachers_are_told_what_was_tried_and_judged_after_every_student(lake):
    recorded = [policy.parameters for policy in lake.policies]
    result = search(lake, 12, "random", seed=0)
    train, seen = lake.students(seed=0), []
    for k in range(12):
        tried, score = train(random_point(lake.space, 0, k))
        assert tried in recorded
        seen.append((score, lake.truth(tried)))
    assert result.found == [max(seen[: k + 1])[1] for k in range(12)]
    assert len(result.seconds) == 12


def test_optuna_sees_the_tried_policies_and_nothing_else(lake):
    pytest.importorskip("optuna")
    from optuna_teacher import OptunaTeacher

    teacher, train = OptunaTeacher(lake.space, seed=0, sampler="tpe", n_initial=10), lake.students(seed=0)
    told = []
    for _ in range(15):
        (point,) = teacher.ask()
        lake.space.check(point)
        told.append(train(point))
        teacher.tell(*told[-1])
    complete = [trial for trial in teacher.study.trials if trial.value is not None]
    assert [(trial.params, trial.value) for trial in complete] == told
    assert search(lake, 15, "tpe", seed=0).found == search(lake, 15, "tpe", seed=0).found


def test_rows_and_differences_by_hand():
    class Found:
        def __init__(self, *found):
            self.found, self.seconds = found, [0.001, 0.003]

    results = {"random": [Found(1.0, 2.0), Found(3.0, 0.0)], "ours": [Found(1.0, 4.0), Found(3.0, 4.0)]}
    first, second = rows_of(results, [1, 2], highest=5.0)[:2]
    assert (first.regret, first.mean, first.lowest, first.never_works) == (3.0, 2.0, 1.0, 0.0)
    assert (second.regret, second.never_works, second.ms_per_ask) == (4.0, 0.5, pytest.approx(3.0))
    same, better = differences_of(results, [1, 2])
    assert (same.mean, same.interval, same.p) == (0.0, (0.0, 0.0), 1.0)
    assert better.mean == -3.0


def test_random_signs_part_ten_equal_differences_as_far_in_two_of_1024_cases():
    assert sign_flip_p(np.full(10, -0.3)) == pytest.approx(2 / 1024, rel=0.2)


def test_the_made_up_score_is_highest_where_it_says():
    world = MadeUp()
    numbers = {"return_1": 2.5, "violation_1": 0.08, "return_2": 2.0, "violation_2": 0.1}
    options = {"intervention_1": "1", "intervention_2": "2", "intervention_3": "0"}
    assert world.truth(numbers | options) == pytest.approx(world.highest)
    assert search(world, 3, "random", seed=0) != search(world, 3, "random", seed=1)
