"""Which days a column of the dashboard stands for, and where it is drawn."""

from datetime import date

import pytest

from commerce.analytics.calendars import Span
from commerce.analytics.dashboard_charts import Series, columns_chart, scale_step, tick_label
from commerce.analytics.dashboard_periods import (
    before,
    columns_of,
    long_label,
    presets,
    short_label,
    summed,
    without_years_before,
)
from commerce.analytics.reports import Point


def point(day: date, revenue: int) -> Point:
    return Point(starts_on=day, revenue=revenue, refunds=1, orders=2)


@pytest.mark.parametrize(
    ("first", "last", "unit", "count"),
    [(date(2026, 3, 1), date(2026, 3, 1), "day", 1), (date(2026, 2, 14), date(2026, 3, 30), "day", 45),
     (date(2026, 2, 13), date(2026, 3, 30), "week", 7), (date(2025, 9, 22), date(2026, 3, 30), "week", 28),
     (date(2025, 9, 21), date(2026, 3, 30), "month", 7), (date(2021, 4, 30), date(2026, 3, 1), "month", 60),
     (date(2021, 3, 31), date(2026, 3, 1), "year", 6), (date(2000, 1, 1), date(2099, 12, 31), "year", 100)],
)  # fmt: skip
def test_the_longer_the_period_the_more_days_a_column_has(first: date, last: date, unit: str, count: int):
    columns = columns_of(Span(first, last))

    assert (columns.unit, len(columns.spans)) == (unit, count)
    assert (columns.spans[0].first, columns.spans[-1].last) == (first, last)
    assert sum(span.days for span in columns.spans) == Span(first, last).days


def test_every_point_is_added_to_its_column_and_a_month_that_began_before_to_the_first():
    weeks = columns_of(Span(date(2026, 1, 1), date(2026, 2, 28)))
    points = [point(date.fromordinal(weeks.spans[0].first.toordinal() + number), 10**number) for number in range(9)]
    assert [sold.revenue for sold in summed(points, weeks)][:3] == [1_111_111, 110_000_000, 0]

    months = columns_of(Span(date(2025, 1, 15), date(2025, 12, 31)))
    sold = summed([point(date(2025, 1, 1), 5), point(date(2025, 2, 1), 7)], months)
    assert [(column.revenue, column.refunds, column.orders) for column in sold][:3] == [(5, 1, 2), (7, 1, 2), (0, 0, 0)]


def test_all_time_begins_with_the_first_figure_and_is_compared_with_nothing():
    all_time = presets(date(2026, 3, 30))[-1][1]
    quiet = Point(starts_on=date(2024, 1, 1), revenue=0, refunds=0, orders=0)

    assert before(all_time) is None
    assert without_years_before([quiet, point(date(2024, 2, 1), 5)], all_time) == Span(
        date(2024, 2, 1), date(2026, 3, 30)
    )
    assert without_years_before([quiet], all_time) is None
    assert before(Span(date(2026, 3, 30), date(2026, 3, 30))) == Span(date(2026, 3, 29), date(2026, 3, 29))


def test_days_are_named_on_the_axis_in_short_and_in_tables_in_full():
    week = Span(date(2026, 3, 3), date(2026, 3, 9))

    assert [short_label(week, unit) for unit in ("day", "week", "month", "year")] == [
        "3 Mar", "3 Mar", "Mar \u201926", "2026",
    ]  # fmt: skip
    assert long_label(week) == "3 Mar 2026 to 9 Mar 2026"
    assert long_label(Span(date(2026, 3, 3), date(2026, 3, 3))) == "3 Mar 2026"


@pytest.mark.parametrize(
    ("largest", "currency", "step"),
    [(0, "", 1), (0, "EUR", 100), (0, "JPY", 1), (4, "", 1), (5, "", 2), (9, "", 5), (123_456, "EUR", 50_000)],
)
def test_the_grid_has_round_steps(largest: int, currency: str, step: int):
    assert scale_step(largest, currency) == step


@pytest.mark.parametrize(
    ("value", "top", "currency", "label"),
    [(0, 4, "", "0"), (3, 4, "", "3"), (150, 200, "EUR", "1.5"), (100_000, 400_000, "EUR", "1,000"),
     (750_000, 2_000_000, "EUR", "7.5k"), (750_000, 2_000_000, "JPY", "750k"), (0, 2_000_000, "JPY", "0"),
     (2_500_000_000, 10_000_000_000, "EUR", "25M"), (5, 20, "KWD", "0.005")],
)  # fmt: skip
def test_the_axis_is_in_major_units_and_short(value: int, top: int, currency: str, label: str):
    assert tick_label(value, top, currency) == label


def test_a_bar_is_as_high_as_its_share_of_the_scale():
    chart = columns_chart(["a", "b", "c"], Series(values=[0, 2, 4], texts=["a: 0", "b: 2", "c: 4"]),
                          Series(values=[1, 3], texts=["x: 1", "y: 3"]))  # fmt: skip

    assert [(bar.height, bar.y, bar.text) for bar in chart.bars] == [
        ("94.0", "108.0", "b: 2"),
        ("188.0", "14.0", "c: 4"),
    ]
    assert [(mark.y, mark.text) for mark in chart.marks] == [("155.0", "x: 1"), ("61.0", "y: 3")]
    assert chart.line == " ".join(f"{mark.x},{mark.y}" for mark in chart.marks)
    assert [tick.text for tick in chart.y_ticks] == ["0", "1", "2", "3", "4"]
    assert [tick.text for tick in chart.x_ticks] == ["a", "b", "c"]


def test_one_day_is_one_bar_and_one_mark_without_a_line():
    chart = columns_chart(["30 Mar"], Series(values=[5], texts=["5"]), Series(values=[2], texts=["2"]), currency="EUR")

    assert (len(chart.bars), len(chart.marks), chart.line) == (1, 1, "")
    assert chart.bars[0].width == "56.0"


def test_of_many_columns_five_are_named_and_the_last_always():
    labels = [str(number) for number in range(45)]
    chart = columns_chart(labels, Series(values=[1] * 45, texts=labels), Series(values=[], texts=[]))

    assert [tick.text for tick in chart.x_ticks] == ["8", "17", "26", "35", "44"]
    assert chart.marks == []
