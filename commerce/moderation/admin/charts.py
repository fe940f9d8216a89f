"""Charts as figures for an SVG template. Pure: numbers in, places out. All lengths are in the units of the view box."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log10

WIDTH, HEIGHT = 480, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 24, 12, 50
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
LABELS_AT_MOST = 6
BAR_SHARE = 0.7  # of the room that a category has
WIDEST_BAR = 56.0


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One piece of a column; `series` numbers its colour, `text` is what it says."""

    x: float
    y: float
    width: float
    height: float
    series: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Point:
    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """`lines`: each a run of neighbouring points, as an SVG `points` attribute."""

    bars: Sequence[Bar] = ()
    points: Sequence[Point] = ()
    lines: Sequence[str] = ()
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


def stacked_bars(labels: Sequence[str], columns: Sequence[Sequence[int]], names: Sequence[str]) -> Chart:
    """A column for each label, with a piece for each name, from the bottom up."""
    top = nice_top(max((sum(column) for column in columns), default=0))
    room = PLOT_WIDTH / max(len(labels), 1)
    width = min(room * BAR_SHARE, WIDEST_BAR)
    bars = []
    for number, (label, column) in enumerate(zip(labels, columns, strict=True)):
        x, reached = LEFT + room * (number + 0.5) - width / 2, 0
        for series, (name, count) in enumerate(zip(names, column, strict=True)):
            reached += count
            if count:
                height = PLOT_HEIGHT * count / top
                text = f"{label}: {name} {count}"
                bars.append(Bar(x=x, y=_y(reached / top), width=width, height=height, series=series, text=text))
    y_ticks = [Tick(at=_y(part / 4), label=_number(top * part / 4)) for part in range(5) if (top * part) % 4 == 0]
    return Chart(bars=bars, x_ticks=_x_ticks(labels), y_ticks=y_ticks)


def share_line(labels: Sequence[str], shares: Sequence[float | None]) -> Chart:
    """A share from 0 to 1 for each label; None leaves a gap."""
    room = PLOT_WIDTH / max(len(labels), 1)
    points: list[Point] = []
    lines: list[list[str]] = [[]]
    for number, (label, share) in enumerate(zip(labels, shares, strict=True)):
        if share is None:
            lines.append([])
            continue
        point = Point(x=LEFT + room * (number + 0.5), y=_y(share), text=f"{label}: {share:.0%}")
        points.append(point)
        lines[-1].append(f"{point.x:.1f},{point.y:.1f}")
    y_ticks = [Tick(at=_y(part / 4), label=f"{part * 25} %") for part in range(5)]
    runs = [" ".join(line) for line in lines if len(line) > 1]
    return Chart(points=points, lines=runs, x_ticks=_x_ticks(labels), y_ticks=y_ticks)


def nice_top(largest: int) -> int:
    """The end of a scale that holds `largest`: 4, or 1, 2, 4 or 8 times a power of ten."""
    if largest <= 4:
        return 4
    power: int = 10 ** int(log10(largest))
    return next(power * step for step in (1, 2, 4, 8, 10) if power * step >= largest)


def _x_ticks(labels: Sequence[str]) -> list[Tick]:
    """Every label, or every so manyth, the last one always."""
    room, every = PLOT_WIDTH / max(len(labels), 1), max(ceil(len(labels) / LABELS_AT_MOST), 1)
    shown = [number for number in range(len(labels)) if (len(labels) - 1 - number) % every == 0]
    return [Tick(at=LEFT + room * (number + 0.5), label=labels[number]) for number in shown]


def _y(share: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - share)


def _number(value: float) -> str:
    return f"{value:,.0f}"
