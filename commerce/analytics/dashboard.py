"""The dashboard: a page of the admin with the figures that the API tells, for the platform and the people of shops."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from rest_framework.request import Request

from commerce.analytics import dashboard_panels as panels
from commerce.analytics import reports, scopes
from commerce.analytics.calendars import Span
from commerce.analytics.dashboard_access import SignInForm
from commerce.analytics.dashboard_charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from commerce.analytics.dashboard_figures import TABLES, DashboardFigures
from commerce.analytics.dashboard_periods import default_span, long_label, presets
from commerce.analytics.filters import asked_currency, asked_language, asked_shop, asked_span
from commerce.analytics.spreadsheets import csv_pieces, csv_rows
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ValidationFailed

MOST_SHOPS_TO_CHOOSE = 200  # of more, one types an id or follows the table's links
MOST_ROWS = 10_000  # of a CSV file
FRAME = {
    "width": WIDTH,
    "height": HEIGHT,
    "left": LEFT,
    "right": WIDTH - RIGHT,
    "bottom": HEIGHT - BOTTOM,
    "middle": (LEFT + WIDTH - RIGHT) // 2,
    "center": (TOP + HEIGHT - BOTTOM) // 2,
    "labels": HEIGHT - BOTTOM + 20,
}


@dataclass(frozen=True, kw_only=True)
class Preset:
    name: str
    query: str
    is_chosen: bool


class SignInView(LoginView):
    form_class: Any = SignInForm
    template_name = "analytics/sign_in.html"
    next_page = "dashboard"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        site = admin.site.each_context(self.request)
        page = {"title": "Sign in to the dashboard", "app_path": self.request.get_full_path()}
        return site | super().get_context_data(**kwargs) | page


def show_dashboard(request: HttpRequest) -> HttpResponse:
    try:
        with _opened(request) as figures:
            context = _context(request, figures)
    except ValidationFailed as error:
        shown = _page(request) | {"errors": error.problem.errors}
        return render(request, "analytics/dashboard.html", shown, status=error.problem.status)
    return render(request, "analytics/dashboard.html", context)


def show_shops(request: HttpRequest) -> HttpResponse:
    """The table of shops alone: with very many of them, adding them up would hold the page up."""
    with _opened(request) as figures:
        panel = panels.shops(figures, urlencode(_asked_but_the_shop(figures)))
    return render(
        request, "analytics/_panel.html", {"panel": panel, "csv_query": urlencode(_asked_again(request, figures))}
    )


def download_table(request: HttpRequest, table: str) -> StreamingHttpResponse:
    """A table of the page as CSV, with its first 10,000 rows."""
    if table not in TABLES:
        raise Http404
    kind, read = TABLES[table]
    with _opened(request) as figures:
        rows = read(figures, MOST_ROWS)
        currency, span = figures.report.scope.currency, figures.span
    pieces: Any = csv_pieces(csv_rows(rows, kind, currency=currency))
    name = f"{table}-{span.first}-{span.last}.csv"
    return StreamingHttpResponse(
        _one_by_one(pieces) if isinstance(request, ASGIRequest) else pieces,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@contextmanager
def _opened(request: HttpRequest) -> Iterator[DashboardFigures]:
    """Raises ValidationFailed for what cannot be asked, and ApiError 404 for a shop of somebody else."""
    asked, now = Request(request), timezone.now()
    scope = scopes.scope_of(_asker(request), shop_id=asked_shop(asked), currency=asked_currency(asked))
    with reports.opened(scope, now=now) as report:
        span = asked_span(asked, report.today) or default_span(report.today)
        yield DashboardFigures(report, span=span, asked_language=asked_language(asked))


def _asker(request: HttpRequest) -> User:
    return cast(User, request.user)  # the guard of these routes has seen to it


async def _one_by_one(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """For ASGI, where a stream that is not asynchronous is read to its end before anything is sent."""
    while piece := await sync_to_async(_next_or_nothing)(pieces):
        yield piece


def _next_or_nothing(pieces: Iterator[bytes]) -> bytes:
    return next(pieces, b"")


def _page(request: HttpRequest) -> dict[str, Any]:
    """What the page has whatever the figures are."""
    user = _asker(request)
    managed = list(
        Shop.objects.managed_by(user).order_by("name", "pk").values_list("pk", "name")[: MOST_SHOPS_TO_CHOOSE + 1]
    )
    return admin.site.each_context(request) | {
        "title": "Dashboard",
        "is_nav_sidebar_enabled": user.is_staff,
        "asked": request.GET,
        "shop_choices": managed if len(managed) <= MOST_SHOPS_TO_CHOOSE else [],
        "types_shop": len(managed) > MOST_SHOPS_TO_CHOOSE,
        "is_platform": user.is_superuser,
    }


def _context(request: HttpRequest, figures: DashboardFigures) -> dict[str, Any]:
    report, span, scope = figures.report, figures.span, figures.report.scope
    page, shop_id, asked_again = _page(request), _chosen_shop(request, figures), _asked_again(request, figures)
    return page | {
        "figures": figures,
        "tiles": panels.tiles(figures),
        "charts": panels.charts(figures),
        "panels": _panels(figures, is_platform=page["is_platform"], with_shops=not page["types_shop"]),
        "shops_apart": page["types_shop"] and scope.is_platform,
        "frame": FRAME,
        "days": long_label(span),
        "days_before": long_label(figures.span_before) if figures.span_before else "",
        "from": span.first.isoformat(),
        "to": span.last.isoformat(),
        "shop_id": shop_id,
        "shop_name": Shop.objects.get(pk=shop_id).name if shop_id else "",
        "currency": scope.currency,
        "currencies": sorted({str(settings.CURRENCY), scope.currency, *report.other_currencies()}),
        "language": figures.language,
        "languages": figures.languages,
        "presets": _presets(report.today, span, asked_again),
        "csv_query": urlencode(asked_again),
    }


def _panels(figures: DashboardFigures, *, is_platform: bool, with_shops: bool) -> list[panels.Panel]:
    scope = figures.report.scope
    shown = [
        panels.statuses(figures),
        panels.low_stock(figures, with_links=is_platform),
        panels.category_sales(figures),
        panels.top_rated(figures, with_links=is_platform),
        panels.category_products(figures),
    ]
    has_several = len(scope.shop_ids) > 1 if scope.shop_ids is not None else with_shops
    return (
        [shown[0], panels.shops(figures, urlencode(_asked_but_the_shop(figures))), *shown[1:]] if has_several else shown
    )


def _chosen_shop(request: HttpRequest, figures: DashboardFigures) -> int | None:
    shop_ids = figures.report.scope.shop_ids
    return shop_ids[0] if request.GET.get("shop_id") and shop_ids else None


def _asked_but_the_shop(figures: DashboardFigures) -> dict[str, str]:
    asked = {"currency": figures.report.scope.currency} | _days(figures.span)
    return asked | ({"language": figures.asked_language} if figures.asked_language else {})


def _asked_again(request: HttpRequest, figures: DashboardFigures) -> dict[str, str]:
    """The query of a link to another part of what this page shows."""
    shop_id = _chosen_shop(request, figures)
    return ({"shop_id": str(shop_id)} if shop_id else {}) | _asked_but_the_shop(figures)


def _days(span: Span) -> dict[str, str]:
    return {"from": span.first.isoformat(), "to": span.last.isoformat()}


def _presets(today: Any, chosen: Span, asked_again: dict[str, str]) -> list[Preset]:
    return [
        Preset(name=name, query=urlencode(asked_again | _days(span)), is_chosen=span == chosen)
        for name, span in presets(today)
    ]
