"""Views of the transparency report: a page over a period, and its statements of reasons as CSV."""

from datetime import UTC, date, timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from commerce.moderation.models import Sanction
from commerce.moderation.queue.statements import (
    MAX_STATEMENTS,
    ReportingPeriod,
    newest_statements,
    write_statements,
)
from commerce.moderation.queue.transparency import Action, transparency_report
from shared.request_threads import response_chunks

MAX_DAYS = 366
MAX_SHOWN_STATEMENTS = 25
MIN_DATE, MAX_DATE = date(2000, 1, 1), date(2099, 12, 31)


class PeriodForm(forms.Form):
    """The days of a report, at most a year."""

    since = forms.DateField(label=gettext_lazy("From"))
    until = forms.DateField(label=gettext_lazy("To"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget = forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"})

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        since, until = data.get("since"), data.get("until")
        if since and until:
            if not MIN_DATE <= since <= until <= MAX_DATE:
                self.add_error("until", _("Choose a day that is not before the first one, between 2000 and 2099."))
            elif (until - since).days >= MAX_DAYS:
                self.add_error("until", _("Choose at most %(max)d days.") % {"max": MAX_DAYS})
        return data


def show_transparency(request: HttpRequest) -> HttpResponse:
    """Show the report of a period, by default of this month; 422 with the form for an invalid period."""
    form = _period_form(request)
    context = admin.site.each_context(request) | {
        "title": _("Transparency report"),
        "form": form,
        "presets": _presets(),
    }
    if not form.is_valid():
        return render(request, "moderation/transparency.html", context, status=422)
    period = _period(form)
    report = transparency_report(period)
    context |= {
        "report": report,
        "period": period,
        "query": f"since={period.first.isoformat()}&until={period.last.isoformat()}",
        "overturned": report.count(Action.APPEAL_OVERTURNED),
        "sanctions": [(Sanction.Kind(kind).label, count) for kind, count in sorted(report.sanctions.items())],
        "statements": newest_statements(period, MAX_SHOWN_STATEMENTS),
        "max_statements": MAX_STATEMENTS,
        "is_cut": report.statements > MAX_STATEMENTS,
    }
    return render(request, "moderation/transparency.html", context)


def download_statements(request: HttpRequest) -> HttpResponseBase:
    """Send the statements of reasons of a period as CSV; an invalid period is answered by the page."""
    form = _period_form(request)
    if not form.is_valid():
        return show_transparency(request)
    period = _period(form)
    name = f"statements-of-reasons-{period.first.isoformat()}-{period.last.isoformat()}.csv"
    return StreamingHttpResponse(
        response_chunks(request, write_statements(period)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _period_form(request: HttpRequest) -> PeriodForm:
    if "since" in request.GET or "until" in request.GET:
        return PeriodForm(request.GET)
    today = _today()
    return PeriodForm({"since": today.replace(day=1), "until": today})


def _period(form: PeriodForm) -> ReportingPeriod:
    return ReportingPeriod(first=form.cleaned_data["since"], last=form.cleaned_data["until"])


def _presets() -> list[tuple[str, str]]:
    """Return the name and the query of each period that is offered."""
    today = _today()
    month, year = today.replace(day=1), today.replace(month=1, day=1)
    last_month = month - timedelta(days=1)
    periods = [
        (_("This month"), month, today),
        (_("Last month"), last_month.replace(day=1), last_month),
        (_("This year"), year, today),
        (_("Last year"), year.replace(year=year.year - 1), year - timedelta(days=1)),
    ]
    return [(name, f"since={first.isoformat()}&until={last.isoformat()}") for name, first, last in periods]


def _today() -> date:
    return timezone.now().astimezone(UTC).date()
