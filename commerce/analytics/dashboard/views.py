"""Views of the dashboard."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework.request import Request

from commerce.analytics.dashboard import panels
from commerce.analytics.dashboard.access import SignInForm, shop_page_context
from commerce.analytics.dashboard.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from commerce.analytics.dashboard.csv_export import csv_chunks, csv_rows
from commerce.analytics.dashboard.data import SALES_REPORT_TABLES, TABLES, DashboardData
from commerce.analytics.dashboard.periods import default_range, presets, range_label
from commerce.analytics.query_params import parse_currency, parse_date_range, parse_language, parse_shop_id
from commerce.analytics.reports.date_ranges import DateRange
from commerce.analytics.reports.report import open_report
from commerce.analytics.reports.sales_reports import COLUMNS
from commerce.analytics.reports.scopes import scope_for_user
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ApiError, ValidationFailed
from shared.request_threads import response_chunks

MAX_SHOP_CHOICES = 200  # with more shops, the form has an input for an id
MAX_CSV_ROWS = 10_000
CHART_FRAME = {
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
class PeriodPreset:
    name: str
    query: str
    is_chosen: bool


class SignInView(LoginView):
    form_class: Any = SignInForm
    template_name = "accounts/sign_in.html"
    next_page = "dashboard"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        site = admin.site.each_context(self.request)
        page = {"title": _("Sign in to the dashboard"), "app_path": self.request.get_full_path()}
        return site | super().get_context_data(**kwargs) | page


def show_dashboard(request: HttpRequest) -> HttpResponse:
    """Render the dashboard; an invalid query is answered with 422 and the form with its errors."""
    try:
        with _open_data(request) as data:
            context = _dashboard_context(request, data)
    except ValidationFailed as error:
        context = _page_context(request) | {"errors": error.problem.errors}
        return render(request, "analytics/dashboard.html", context, status=error.problem.status)
    return render(request, "analytics/dashboard.html", context)


def show_shops(request: HttpRequest) -> HttpResponse:
    """Render the table of shops alone: summing very many of them would delay the page."""
    with _open_data(request) as data:
        panel = panels.shops_panel(data, urlencode(_query_without_shop(data)))
    context = {"panel": panel, "csv_query": urlencode(_query(request, data))}
    return render(request, "analytics/_panel.html", context)


def download_table(request: HttpRequest, table: str) -> StreamingHttpResponse:
    """Send the first MAX_CSV_ROWS rows of a table as CSV. Raise ApiError 503 while its sales report is pending."""
    if table not in TABLES:
        raise Http404
    row_type, read = TABLES[table]
    with _open_data(request) as data:
        if data.figures is None and table in SALES_REPORT_TABLES:
            message = "This table is being computed. Try again in a few seconds."
            raise ApiError(503, message, headers={"Retry-After": "5"})
        rows = read(data, MAX_CSV_ROWS)
        currency, date_range = data.report.scope.currency, data.date_range
    chunks: Any = csv_chunks(csv_rows(rows, row_type, currency=currency))
    name = f"{table}-{date_range.first}-{date_range.last}.csv"
    return StreamingHttpResponse(
        response_chunks(request, chunks),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@contextmanager
def _open_data(request: HttpRequest) -> Iterator[DashboardData]:
    """Raise ValidationFailed for an invalid query, and ApiError 404 for a shop of another owner."""
    query, now = Request(request), timezone.now()
    scope = scope_for_user(_user(request), shop_id=parse_shop_id(query), currency=parse_currency(query))
    with open_report(scope, now=now, sales_columns=COLUMNS) as report:
        date_range = parse_date_range(query, report.today) or default_range(report.today)
        yield DashboardData(report, date_range=date_range, chosen_language=parse_language(query))


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)  # `shop_users_only` has checked it


def _page_context(request: HttpRequest) -> dict[str, Any]:
    """Return the context that does not depend on the report."""
    user = _user(request)
    shops = Shop.objects.managed_by(user).order_by("name", "pk").values_list("pk", "name")
    choices = list(shops[: MAX_SHOP_CHOICES + 1])
    return shop_page_context(request) | {
        "title": _("Dashboard"),
        "submitted": request.GET,
        "shop_choices": choices if len(choices) <= MAX_SHOP_CHOICES else [],
        "has_shop_id_input": len(choices) > MAX_SHOP_CHOICES,
        "is_platform": user.is_superuser,
    }


def _dashboard_context(request: HttpRequest, data: DashboardData) -> dict[str, Any]:
    report, date_range, scope = data.report, data.date_range, data.report.scope
    page, shop_id, query = _page_context(request), _chosen_shop_id(request, data), _query(request, data)
    return page | {
        "data": data,
        "tiles": panels.tiles(data),
        "charts": panels.chart_panels(data),
        "panels": _panels(data, is_platform=page["is_platform"], with_shops=not page["has_shop_id_input"]),
        "loads_shops_later": page["has_shop_id_input"] and scope.is_platform,
        "frame": CHART_FRAME,
        "days": range_label(date_range),
        "previous_days": range_label(data.previous_range) if data.previous_range else "",
        "from": date_range.first.isoformat(),
        "to": date_range.last.isoformat(),
        "shop_id": shop_id,
        "shop_name": Shop.objects.get(pk=shop_id).name if shop_id else "",
        "currency": scope.currency,
        "currencies": sorted({str(settings.CURRENCY), scope.currency, *report.other_currencies()}),
        "language": data.language,
        "languages": data.languages,
        "presets": _presets(report.today, date_range, query),
        "csv_query": urlencode(query),
    }


def _panels(data: DashboardData, *, is_platform: bool, with_shops: bool) -> list[panels.Panel]:
    shop_ids = data.report.scope.shop_ids
    has_several_shops = len(shop_ids) > 1 if shop_ids is not None else with_shops
    return [
        panels.statuses_panel(data),
        *([panels.shops_panel(data, urlencode(_query_without_shop(data)))] if has_several_shops else []),
        panels.low_stock_panel(data, with_links=is_platform),
        panels.top_products_panel(data, with_links=is_platform),
        panels.top_customers_panel(data, with_links=is_platform),
        panels.category_sales_panel(data),
        panels.attribute_sales_panel(data),
        panels.top_rated_panel(data, with_links=is_platform),
        panels.category_products_panel(data),
    ]


def _chosen_shop_id(request: HttpRequest, data: DashboardData) -> int | None:
    shop_ids = data.report.scope.shop_ids
    return shop_ids[0] if request.GET.get("shop_id") and shop_ids else None


def _query_without_shop(data: DashboardData) -> dict[str, str]:
    query = {"currency": data.report.scope.currency} | _date_query(data.date_range)
    return query | ({"language": data.chosen_language} if data.chosen_language else {})


def _query(request: HttpRequest, data: DashboardData) -> dict[str, str]:
    """Return the query of links that keep the page's choices."""
    shop_id = _chosen_shop_id(request, data)
    return ({"shop_id": str(shop_id)} if shop_id else {}) | _query_without_shop(data)


def _date_query(date_range: DateRange) -> dict[str, str]:
    return {"from": date_range.first.isoformat(), "to": date_range.last.isoformat()}


def _presets(today: date, chosen: DateRange, query: dict[str, str]) -> list[PeriodPreset]:
    return [
        PeriodPreset(name=name, query=urlencode(query | _date_query(date_range)), is_chosen=date_range == chosen)
        for name, date_range in presets(today)
    ]
