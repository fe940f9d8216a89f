"""Columns over time as places in an SVG. Pure: numbers in, text for attributes out, in units of the view box."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from shared.api.money import to_major

WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 14, 58
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
LABELS_AT_MOST = 5
BAR_SHARE = 0.7  # of the room that a column has
WIDEST_BAR = 56.0
GRID_LINES = 4


@dataclass(frozen=True, kw_only=True)
class Bar:
    x: str
    y: str
    width: str
    height: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point of a line, or a place on an axis; `text` is what it says."""

    x: str = ""
    y: str = ""
    text: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """`bars` are the period, `marks` and the `line` through them the one before."""

    bars: Sequence[Bar]
    marks: Sequence[Mark]
    line: str
    x_ticks: Sequence[Mark]
    y_ticks: Sequence[Mark]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Values with what each of them says when pointed at."""

    values: Sequence[int]
    texts: Sequence[str]


def columns_chart(labels: Sequence[str], now: Series, earlier: Series, *, currency: str = "") -> Chart:
    """A bar for each label, and a mark for each value of `earlier`, which may be fewer. With a currency the values
    are its minor units."""
    step = scale_step(max([*now.values, *earlier.values], default=0), currency)
    top = step * max(-(-max([*now.values, *earlier.values], default=0) // step), 1)
    room = PLOT_WIDTH / max(len(labels), 1)
    width = min(room * BAR_SHARE, WIDEST_BAR)
    middles = [LEFT + room * (number + 0.5) for number in range(len(labels))]
    bars = [
        Bar(
            x=_f(x - width / 2), y=_f(_y(value / top)), width=_f(width), height=_f(PLOT_HEIGHT * value / top), text=text
        )
        for x, value, text in zip(middles, now.values, now.texts, strict=True)
        if value > 0
    ]
    marks = [
        Mark(x=_f(x), y=_f(_y(value / top)), text=text)
        for x, value, text in zip(middles, earlier.values, earlier.texts, strict=False)
    ]
    y_ticks = [Mark(y=_f(_y(value / top)), text=tick_label(value, top, currency)) for value in range(0, top + 1, step)]
    return Chart(
        bars=bars,
        marks=marks,
        line=" ".join(f"{mark.x},{mark.y}" for mark in marks) if len(marks) > 1 else "",
        x_ticks=_x_ticks(labels, middles),
        y_ticks=y_ticks,
    )


def scale_step(largest: int, currency: str = "") -> int:
    """How far the lines of the grid are apart: 1, 2 or 5 times a power of ten, so that four of them hold `largest`."""
    if largest <= 0:
        return int(1 / to_major(1, currency)) if currency else 1
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if step * GRID_LINES >= largest:
                return step
        power *= 10


def tick_label(value: int, top: int, currency: str = "") -> str:
    """In major units, in thousands or millions where the scale is long: "7.5k"."""
    major, end = (to_major(number, currency) if currency else Decimal(number) for number in (value, top))
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if end >= 10 * size:
            return f"{_plain(major / size)}{letter}" if value else "0"
    return _plain(major)


def _plain(number: Decimal) -> str:
    return f"{number.normalize():,f}"


def _x_ticks(labels: Sequence[str], middles: Sequence[float]) -> list[Mark]:
    """Every label, or every so manyth, the last one always."""
    every = max(-(-len(labels) // LABELS_AT_MOST), 1)
    shown = [number for number in range(len(labels)) if (len(labels) - 1 - number) % every == 0]
    return [Mark(x=_f(middles[number]), text=labels[number]) for number in shown]


def _y(share: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - max(share, 0))


def _f(number: float) -> str:
    """As an attribute, which knows no language."""
    return f"{number:.1f}"
