"""Charts as coordinates for an SVG template, in units of its view box. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log10

from django.utils.formats import number_format

WIDTH, HEIGHT = 480, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 24, 12, 50
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
MAX_LABELS = 6
BAR_SHARE = 0.7  # of the width of a category
MAX_BAR_WIDTH = 56.0


@dataclass(frozen=True, kw_only=True)
class ChartBar:
    """A segment of a column. `series` chooses its colour, `text` is its label."""

    x: float
    y: float
    width: float
    height: float
    series: int
    text: str


@dataclass(frozen=True, kw_only=True)
class ChartPoint:
    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True)
class ChartTick:
    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart. Each of `lines` is the SVG `points` attribute of an unbroken line."""

    bars: Sequence[ChartBar] = ()
    points: Sequence[ChartPoint] = ()
    lines: Sequence[str] = ()
    x_ticks: Sequence[ChartTick]
    y_ticks: Sequence[ChartTick]


def stacked_bars(labels: Sequence[str], columns: Sequence[Sequence[int]], names: Sequence[str]) -> Chart:
    """Return a chart with a column per label and in it a segment per name, from the bottom up."""
    top = nice_top(max((sum(column) for column in columns), default=0))
    category_width = PLOT_WIDTH / max(len(labels), 1)
    width = min(category_width * BAR_SHARE, MAX_BAR_WIDTH)
    bars = []
    for number, (label, column) in enumerate(zip(labels, columns, strict=True)):
        x, reached = LEFT + category_width * (number + 0.5) - width / 2, 0
        for series, (name, count) in enumerate(zip(names, column, strict=True)):
            reached += count
            if count:
                height = PLOT_HEIGHT * count / top
                text = f"{label}: {name} {count}"
                bars.append(ChartBar(x=x, y=_y(reached / top), width=width, height=height, series=series, text=text))
    y_ticks = [ChartTick(at=_y(part / 4), label=_number(top * part / 4)) for part in range(5) if (top * part) % 4 == 0]
    return Chart(bars=bars, x_ticks=_x_ticks(labels), y_ticks=y_ticks)


def share_line(labels: Sequence[str], shares: Sequence[float | None]) -> Chart:
    """Return a line chart of shares from 0 to 1, one per label; None leaves a gap."""
    category_width = PLOT_WIDTH / max(len(labels), 1)
    points: list[ChartPoint] = []
    lines: list[list[str]] = [[]]
    for number, (label, share) in enumerate(zip(labels, shares, strict=True)):
        if share is None:
            lines.append([])
            continue
        point = ChartPoint(x=LEFT + category_width * (number + 0.5), y=_y(share), text=f"{label}: {share:.0%}")
        points.append(point)
        lines[-1].append(f"{point.x:.1f},{point.y:.1f}")
    y_ticks = [ChartTick(at=_y(part / 4), label=f"{part * 25} %") for part in range(5)]
    runs = [" ".join(line) for line in lines if len(line) > 1]
    return Chart(points=points, lines=runs, x_ticks=_x_ticks(labels), y_ticks=y_ticks)


def nice_top(largest: int) -> int:
    """Return the end of a scale up to `largest`: 4, or 1, 2, 4 or 8 times a power of ten."""
    if largest <= 4:
        return 4
    power: int = 10 ** int(log10(largest))
    return next(power * step for step in (1, 2, 4, 8, 10) if power * step >= largest)


def _x_ticks(labels: Sequence[str]) -> list[ChartTick]:
    """Return at most MAX_LABELS ticks, evenly spaced and always with the last label."""
    category_width, every = PLOT_WIDTH / max(len(labels), 1), max(ceil(len(labels) / MAX_LABELS), 1)
    shown = [number for number in range(len(labels)) if (len(labels) - 1 - number) % every == 0]
    return [ChartTick(at=LEFT + category_width * (number + 0.5), label=labels[number]) for number in shown]


def _y(share: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - share)


def _number(value: float) -> str:
    """Return a number for people, in the form of the current language."""
    return number_format(round(value), use_l10n=True, force_grouping=True)
