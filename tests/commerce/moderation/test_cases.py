"""Weights of reporters, standings of reports, and brigades."""

from datetime import timedelta

import pytest

from commerce.moderation.cases import BRIGADE_WINDOW, MIN_BRIGADE_SIZE, is_brigade, report_standing
from commerce.moderation.models import Reporter
from tests.commerce.moderation.factories import DAY, MINUTE, NOON

pytestmark = pytest.mark.no_database


@pytest.mark.parametrize(
    ("agreed", "disagreed", "expected"),
    [(0, 0, 500), (1, 0, 600), (0, 1, 400), (2, 2, 500), (8, 0, 833), (0, 8, 167), (96, 0, 980), (10**9, 0, 1000)],
)
def test_a_weight_is_the_share_of_agreement_with_a_prior_of_four_decisions(agreed: int, disagreed: int, expected: int):
    assert Reporter(agreed=agreed, disagreed=disagreed).weight == expected


def test_a_weight_rises_with_agreement_and_falls_with_disagreement():
    weights = [Reporter(agreed=agreed, disagreed=3).weight for agreed in range(50)]
    assert weights == sorted(set(weights))
    weights = [Reporter(agreed=3, disagreed=disagreed).weight for disagreed in range(50)]
    assert weights == sorted(set(weights), reverse=True)


@pytest.mark.parametrize(
    ("weighs", "age", "is_involved", "expected"),
    [
        (500, 7 * DAY, False, "trusted"),
        (1000, 7 * DAY - timedelta(microseconds=1), False, "new_account"),
        (499, 7 * DAY, False, "unreliable"),
        (1000, 900 * DAY, True, "involved"),
        (100, DAY, True, "involved"),
        (100, -DAY, False, "new_account"),
    ],
)
def test_a_standing_is_the_first_reason_not_to_count(weighs: int, age: timedelta, is_involved: bool, expected: str):
    assert report_standing(weight=weighs, account_age=age, is_involved=is_involved) == expected


def test_a_brigade_is_five_reports_within_an_hour_in_any_order():
    times = [NOON + number * BRIGADE_WINDOW / (MIN_BRIGADE_SIZE - 1) for number in range(MIN_BRIGADE_SIZE)]

    assert is_brigade(times)
    assert is_brigade(reversed([NOON - DAY, *times]))
    assert not is_brigade(times[1:])
    assert not is_brigade([*times[:-1], times[-1] + timedelta(microseconds=1)])
    assert not is_brigade(NOON + number * 16 * MINUTE for number in range(100))
    assert not is_brigade([])
