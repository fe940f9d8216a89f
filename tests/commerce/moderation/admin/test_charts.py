"""Coordinates of the bars and lines of charts."""

import pytest
from django.utils import translation

from commerce.moderation.admin.charts import (
    HEIGHT,
    LEFT,
    MAX_BAR_WIDTH,
    PLOT_HEIGHT,
    TOP,
    nice_top,
    share_line,
    stacked_bars,
)

pytestmark = pytest.mark.no_database

BOTTOM_LINE = TOP + PLOT_HEIGHT


@pytest.mark.parametrize(
    ("largest", "top"), [(0, 4), (4, 4), (5, 8), (8, 8), (9, 10), (10, 10), (11, 20), (99, 100), (401, 800)]
)
def test_a_scale_ends_at_a_round_number_from_the_largest_value_up(largest: int, top: int):
    assert nice_top(largest) == top


def test_the_segments_of_a_column_are_stacked():
    chart = stacked_bars(["Monday"], [[1, 3]], ["kept", "taken down"])

    low, high = chart.bars
    assert (low.height, high.height) == (PLOT_HEIGHT / 4, PLOT_HEIGHT * 3 / 4)
    assert low.y + low.height == pytest.approx(BOTTOM_LINE)
    assert high.y + high.height == pytest.approx(low.y)
    assert (low.text, high.text) == ("Monday: kept 1", "Monday: taken down 3")
    assert low.width == MAX_BAR_WIDTH
    assert [tick.label for tick in chart.y_ticks] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(("language", "label"), [("en", "2,000"), ("de", "2.000")])
def test_numbers_of_an_axis_are_in_the_language_of_the_page(language: str, label: str):
    with translation.override(language):
        assert stacked_bars(["Monday"], [[1_900]], ["kept"]).y_ticks[-1].label == label


def test_zero_has_no_bar():
    assert stacked_bars(["Monday", "Tuesday"], [[0], [0]], ["kept"]).bars == []
    assert stacked_bars([], [], []).bars == []


def test_some_of_many_labels_are_shown_with_the_last_one():
    chart = stacked_bars([str(day) for day in range(30)], [[1]] * 30, ["kept"])
    assert [tick.label for tick in chart.x_ticks] == ["4", "9", "14", "19", "24", "29"]


def test_a_line_has_gaps_for_missing_values():
    chart = share_line(["a", "b", "c", "d"], [1.0, 0.5, None, 0.0])

    assert [point.text for point in chart.points] == ["a: 100%", "b: 50%", "d: 0%"]
    assert chart.points[0].y == TOP
    assert chart.points[2].y == BOTTOM_LINE
    assert len(chart.lines) == 1
    assert chart.lines[0].count(",") == 2


def test_a_single_day_is_a_point_inside_the_frame():
    (point,) = share_line(["today"], [0.25]).points
    assert point.x > LEFT
    assert point.y < HEIGHT
