"""View of the queue's statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from commerce.moderation.admin.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, share_line, stacked_bars
from commerce.moderation.queue.second_looks import second_look_figures
from commerce.moderation.queue.statistics import QueueStatistics, queue_statistics
from commerce.moderation.suggestions.reading import suggestion_figures

FRAME: dict[str, float] = {
    "width": WIDTH,
    "height": HEIGHT,
    "left": LEFT,
    "right": WIDTH - RIGHT,
    "top": TOP,
    "bottom": HEIGHT - BOTTOM,
}
FRAME |= {"middle": (LEFT + WIDTH - RIGHT) / 2, "center": (TOP + HEIGHT - BOTTOM) / 2, "labels": HEIGHT - BOTTOM + 18}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart with its labels, and the same numbers as a table."""

    name: str
    title: str
    x_title: str
    y_title: str
    chart: Chart
    legend: list[str]
    header: list[str]
    rows: list[list[str]]
    is_empty: bool
    empty: str


def show_statistics(request: HttpRequest) -> HttpResponse:
    """Show the statistics of the queue and of the last 30 days."""
    now = timezone.now()
    figures = queue_statistics(now=now)
    context = admin.site.each_context(request) | {
        "title": _("Moderation statistics"),
        "figures": figures,
        "today": figures.days[-1],
        "second_looks": second_look_figures(now=now),
        "suggestions": suggestion_figures(since=now - timedelta(days=30)),
        "charts": [_ages(figures.ages), _decisions(figures), _agreement(figures)],
        "frame": FRAME,
    }
    return render(request, "moderation/statistics.html", context)


def _ages(counts: Sequence[int]) -> Figure:
    labels = [_("under an hour"), _("under a day"), _("under a week"), _("a week or more")]
    return Figure(
        name="ages",
        title=_("How long items have waited"),
        x_title=_("since the first report"),
        y_title=_("items"),
        chart=stacked_bars(labels, [[count] for count in counts], [_("items")]),
        legend=[],
        header=[_("Waiting"), _("Items")],
        rows=[[label, str(count)] for label, count in zip(labels, counts, strict=True)],
        is_empty=not any(counts),
        empty=_("Nothing waits."),
    )


def _decisions(figures: QueueStatistics) -> Figure:
    labels = [date_format(day.day, "j M") for day in figures.days]
    names = [_("taken down"), _("kept"), _("appeals")]
    columns = [[day.accepted, day.rejected, day.appeals] for day in figures.days]
    return Figure(
        name="decisions",
        title=_("Decisions a day"),
        x_title=_("day (UTC)"),
        y_title=_("decisions"),
        chart=stacked_bars(labels, columns, names),
        legend=names,
        header=[_("Day"), *names],
        rows=[[label, *map(str, column)] for label, column in zip(labels, columns, strict=True)],
        is_empty=not any(map(sum, columns)),
        empty=_("Nothing was decided in these days."),
    )


def _agreement(figures: QueueStatistics) -> Figure:
    labels = [date_format(day.day, "j M") for day in figures.days]
    shares = [day.agreement for day in figures.days]
    return Figure(
        name="agreement",
        title=_("Agreement with reporters"),
        x_title=_("day (UTC)"),
        y_title=_("reports agreed with"),
        chart=share_line(labels, shares),
        legend=[],
        header=[_("Day"), _("Agreed"), _("Decided")],
        rows=[
            [
                label,
                "-" if day.agreement is None else f"{day.agreement:.0%}",
                str(day.reports_accepted + day.reports_rejected),
            ]
            for label, day in zip(labels, figures.days, strict=True)
        ],
        is_empty=all(share is None for share in shares),
        empty=_("No reports were decided about in these days."),
    )
