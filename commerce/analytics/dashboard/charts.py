"""Column charts over time for an SVG template. Pure functions; all lengths are in units of the view box, as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from shared.api.money import to_major

WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 14, 58  # margins
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
MAX_X_LABELS = 5
BAR_WIDTH_RATIO = 0.7  # of a column's width
MAX_BAR_WIDTH = 56.0
GRID_LINES = 4


@dataclass(frozen=True, kw_only=True)
class ColumnBar:
    x: str
    y: str
    width: str
    height: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ChartMark:
    """A point of the line, or a tick of an axis, with its label."""

    x: str = ""
    y: str = ""
    text: str


@dataclass(frozen=True, kw_only=True)
class ColumnChart:
    """Bars for the chosen period, on which others may stand; marks, and a line through them, for the previous one."""

    bars: Sequence[ColumnBar]
    upper_bars: Sequence[ColumnBar]
    marks: Sequence[ChartMark]
    line: str
    x_ticks: Sequence[ChartMark]
    y_ticks: Sequence[ChartMark]


@dataclass(frozen=True, kw_only=True)
class ChartSeries:
    """Values with their tooltips."""

    values: Sequence[int]
    texts: Sequence[str]


def column_chart(
    labels: Sequence[str],
    current: ChartSeries,
    previous: ChartSeries,
    *,
    upper: ChartSeries | None = None,
    currency: str = "",
) -> ColumnChart:
    """Return a chart with a bar for each label and a mark for each value of `previous`, which may be fewer.

    The values of `upper` are those of bars that stand on the others. With a currency, values are in its minor units.
    """
    upper = upper or ChartSeries(values=[0] * len(labels), texts=[""] * len(labels))
    tops = [max(value, 0) + more for value, more in zip(current.values, upper.values, strict=True)]
    max_value = max([*tops, *previous.values], default=0)
    step = grid_step(max_value, currency)
    scale_end = step * max(-(-max_value // step), 1)
    column_width = PLOT_WIDTH / max(len(labels), 1)
    bar_width = min(column_width * BAR_WIDTH_RATIO, MAX_BAR_WIDTH)
    centers = [LEFT + column_width * (index + 0.5) for index in range(len(labels))]

    def stack(series: ChartSeries, tops: Sequence[int]) -> list[ColumnBar]:
        return [
            ColumnBar(
                x=_format(center - bar_width / 2),
                y=_format(_y(top / scale_end)),
                width=_format(bar_width),
                height=_format(PLOT_HEIGHT * value / scale_end),
                text=text,
            )
            for center, top, value, text in zip(centers, tops, series.values, series.texts, strict=True)
            if value > 0
        ]

    marks = [
        ChartMark(x=_format(center), y=_format(_y(value / scale_end)), text=text)
        for center, value, text in zip(centers, previous.values, previous.texts, strict=False)
    ]
    y_ticks = [
        ChartMark(y=_format(_y(value / scale_end)), text=tick_label(value, scale_end, currency))
        for value in range(0, scale_end + 1, step)
    ]
    return ColumnChart(
        bars=stack(current, current.values),
        upper_bars=stack(upper, tops),
        marks=marks,
        line=" ".join(f"{mark.x},{mark.y}" for mark in marks) if len(marks) > 1 else "",
        x_ticks=_x_ticks(labels, centers),
        y_ticks=y_ticks,
    )


def grid_step(max_value: int, currency: str = "") -> int:
    """Return the distance of the grid lines: 1, 2 or 5 times a power of ten, so that four lines cover the values."""
    if max_value <= 0:
        return int(1 / to_major(1, currency)) if currency else 1
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if step * GRID_LINES >= max_value:
                return step
        power *= 10


def tick_label(value: int, scale_end: int, currency: str = "") -> str:
    """Return the value in major units, on a long scale in thousands or millions, such as "7.5k"."""
    major, end = (to_major(number, currency) if currency else Decimal(number) for number in (value, scale_end))
    for size, suffix in ((1_000_000, "M"), (1_000, "k")):
        if end >= 10 * size:
            return f"{_format_decimal(major / size)}{suffix}" if value else "0"
    return _format_decimal(major)


def _format_decimal(number: Decimal) -> str:
    return f"{number.normalize():,f}"


def _x_ticks(labels: Sequence[str], centers: Sequence[float]) -> list[ChartMark]:
    """Return a tick for every label, or for every n-th one, always including the last."""
    step = max(-(-len(labels) // MAX_X_LABELS), 1)
    shown = [index for index in range(len(labels)) if (len(labels) - 1 - index) % step == 0]
    return [ChartMark(x=_format(centers[index]), text=labels[index]) for index in shown]


def _y(ratio: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - max(ratio, 0))


def _format(number: float) -> str:
    """Return an attribute's value, independent of the locale."""
    return f"{number:.1f}"
