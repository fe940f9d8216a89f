"""Chart columns of the dashboard: their days, labels and geometry."""

from datetime import date

import pytest

from commerce.analytics.dashboard.charts import ChartSeries, column_chart, grid_step, tick_label
from commerce.analytics.dashboard.periods import (
    axis_label,
    comparison_range,
    presets,
    range_label,
    split_into_columns,
    sum_by_column,
    trim_empty_start,
)
from commerce.analytics.reports.date_ranges import DateRange
from commerce.analytics.reports.results import SeriesPoint

pytestmark = pytest.mark.no_database


def point(day: date, revenue: int) -> SeriesPoint:
    return SeriesPoint(starts_on=day, revenue=revenue, refunds=1, orders=2)


@pytest.mark.parametrize(
    ("first", "last", "unit", "count"),
    [(date(2026, 3, 1), date(2026, 3, 1), "day", 1), (date(2026, 2, 14), date(2026, 3, 30), "day", 45),
     (date(2026, 2, 13), date(2026, 3, 30), "week", 7), (date(2025, 9, 22), date(2026, 3, 30), "week", 28),
     (date(2025, 9, 21), date(2026, 3, 30), "month", 7), (date(2021, 4, 30), date(2026, 3, 1), "month", 60),
     (date(2021, 3, 31), date(2026, 3, 1), "year", 6), (date(2000, 1, 1), date(2099, 12, 31), "year", 100)],
)  # fmt: skip
def test_longer_periods_have_split_into_columns_a_longer_unit(first: date, last: date, unit: str, count: int):
    columns = split_into_columns(DateRange(first, last))

    assert (columns.unit, len(columns.ranges)) == (unit, count)
    assert (columns.ranges[0].first, columns.ranges[-1].last) == (first, last)
    assert sum(column.days for column in columns.ranges) == DateRange(first, last).days


def test_points_are_sum_by_column_by_column_and_an_earlier_month_counts_in_the_first():
    weeks = split_into_columns(DateRange(date(2026, 1, 1), date(2026, 2, 28)))
    points = [point(date.fromordinal(weeks.ranges[0].first.toordinal() + number), 10**number) for number in range(9)]
    assert [sums.revenue for sums in sum_by_column(points, weeks)][:3] == [1_111_111, 110_000_000, 0]

    months = split_into_columns(DateRange(date(2025, 1, 15), date(2025, 12, 31)))
    sums = sum_by_column([point(date(2025, 1, 1), 5), point(date(2025, 2, 1), 7)], months)
    assert [(column.revenue, column.refunds, column.orders) for column in sums][:3] == [(5, 1, 2), (7, 1, 2), (0, 0, 0)]


def test_all_time_begins_with_the_first_data_and_has_no_comparison():
    all_time = presets(date(2026, 3, 30))[-1][1]
    empty = SeriesPoint(starts_on=date(2024, 1, 1), revenue=0, refunds=0, orders=0)

    assert comparison_range(all_time) is None
    assert trim_empty_start([empty, point(date(2024, 2, 1), 5)], all_time) == DateRange(
        date(2024, 2, 1), date(2026, 3, 30)
    )
    assert trim_empty_start([empty], all_time) is None
    assert comparison_range(DateRange(date(2026, 3, 30), date(2026, 3, 30))) == DateRange(
        date(2026, 3, 29), date(2026, 3, 29)
    )


def test_labels_are_short_on_the_axis_and_full_in_tables():
    week = DateRange(date(2026, 3, 3), date(2026, 3, 9))

    assert [axis_label(week, unit) for unit in ("day", "week", "month", "year")] == [
        "3 Mar", "3 Mar", "Mar \u201926", "2026",
    ]  # fmt: skip
    assert range_label(week) == "3 Mar 2026 to 9 Mar 2026"
    assert range_label(DateRange(date(2026, 3, 3), date(2026, 3, 3))) == "3 Mar 2026"


@pytest.mark.parametrize(
    ("max_value", "currency", "step"),
    [(0, "", 1), (0, "EUR", 100), (0, "JPY", 1), (4, "", 1), (5, "", 2), (9, "", 5), (123_456, "EUR", 50_000)],
)
def test_grid_steps_are_round_numbers(max_value: int, currency: str, step: int):
    assert grid_step(max_value, currency) == step


@pytest.mark.parametrize(
    ("value", "scale_end", "currency", "label"),
    [(0, 4, "", "0"), (3, 4, "", "3"), (150, 200, "EUR", "1.5"), (100_000, 400_000, "EUR", "1,000"),
     (750_000, 2_000_000, "EUR", "7.5k"), (750_000, 2_000_000, "JPY", "750k"), (0, 2_000_000, "JPY", "0"),
     (2_500_000_000, 10_000_000_000, "EUR", "25M"), (5, 20, "KWD", "0.005")],
)  # fmt: skip
def test_tick_labels_are_short_and_in_major_units(value: int, scale_end: int, currency: str, label: str):
    assert tick_label(value, scale_end, currency) == label


def test_bar_heights_are_proportional_to_their_values():
    chart = column_chart(["a", "b", "c"], ChartSeries(values=[0, 2, 4], texts=["a: 0", "b: 2", "c: 4"]),
                          ChartSeries(values=[1, 3], texts=["x: 1", "y: 3"]))  # fmt: skip

    assert [(bar.height, bar.y, bar.text) for bar in chart.bars] == [
        ("94.0", "108.0", "b: 2"),
        ("188.0", "14.0", "c: 4"),
    ]
    assert [(mark.y, mark.text) for mark in chart.marks] == [("155.0", "x: 1"), ("61.0", "y: 3")]
    assert chart.line == " ".join(f"{mark.x},{mark.y}" for mark in chart.marks)
    assert [tick.text for tick in chart.y_ticks] == ["0", "1", "2", "3", "4"]
    assert [tick.text for tick in chart.x_ticks] == ["a", "b", "c"]


def test_a_single_day_is_one_bar_and_one_mark_without_a_line():
    chart = column_chart(
        ["30 Mar"], ChartSeries(values=[5], texts=["5"]), ChartSeries(values=[2], texts=["2"]), currency="EUR"
    )

    assert (len(chart.bars), len(chart.marks), chart.line) == (1, 1, "")
    assert chart.bars[0].width == "56.0"


def test_at_most_five_columns_are_labelled_always_the_last():
    labels = [str(number) for number in range(45)]
    chart = column_chart(labels, ChartSeries(values=[1] * 45, texts=labels), ChartSeries(values=[], texts=[]))

    assert [tick.text for tick in chart.x_ticks] == ["8", "17", "26", "35", "44"]
    assert chart.marks == []
