"""A shop of SIZE products, orders, reports and reviews on DATABASE_URL, and the cost of each request to its API.

Usage: `python -m tests.benchmarks.growth._growth_requests SIZE DEPTH`. When the shop is there, it prints the seconds
that it took. A line of the input, `{"times": 3, "only": ["GET /api/tags", ...]}`, is then answered by a line of results
by the request's name: milliseconds of each time, and pages of tables and indexes that PostgreSQL read for the last.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")
import django

django.setup()

from django.conf import settings  # noqa: E402 - what needs Django's apps comes after them
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.http.response import HttpResponseBase  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import resolve  # noqa: E402
from django.utils import timezone  # noqa: E402
from django.utils.functional import cached_property  # noqa: E402
from django_filters import ChoiceFilter  # noqa: E402

from commerce.analytics.aggregation.batches import aggregate_ledger  # noqa: E402
from commerce.analytics.aggregation.owner_groups import update_next_group  # noqa: E402
from commerce.analytics.reports.sales_reports import compute_next_report, read_sales_report  # noqa: E402
from commerce.catalog.search.indexing import update_index  # noqa: E402
from commerce.descriptions.models import DescriptionJob  # noqa: E402
from commerce.moderation.models import Decision  # noqa: E402
from commerce.shops.models import Shop  # noqa: E402
from shared.accounts.email.links import LIFETIMES  # noqa: E402
from tests.benchmarks.commerce._analytics_shop import settle  # noqa: E402
from tests.benchmarks.commerce._search_shop import without_gin_indexes  # noqa: E402
from tests.benchmarks.growth._growth_rows import ShopRows  # noqa: E402
from tests.commerce.descriptions.provider.fake_server import ProviderServer  # noqa: E402
from tests.commerce.routes.example_recording import fill_lists  # noqa: E402
from tests.commerce.routes.route_table import TABLE, Row  # noqa: E402
from tests.commerce.routes.scenario import IDENTITIES, World, make_world  # noqa: E402
from tests.commerce.routes.test_list_costs import LISTS  # noqa: E402

ROWS = 15  # of a page
VALID = timedelta(days=1)  # what is valid for an hour only: larger shops take longer
# Who read a list beside its user in LISTS: of a shop of many rows, of few and of all; and who read a public one.
READERS, PUBLIC_READERS = ("owner", "other owner", "super admin"), ("owner",)
# Values of filters, with the names of the world. A filter with choices takes its first.
FILTERS = {
    "shop_id": "{shop}", "type_id": "{product_type}", "type_slug": "home", "category_id": "{popular_category_id}",
    "tag_id": "{popular_tag_id}", "attribute_value_id": "1", "price_from": "25", "price_to": "50", "rating_from": "4",
    "in_stock": "1", "language": "de", "q": "word77", "parent": "null", "product_id": "{product}", "answer": "null",
    "order_id": "{order}", "rating": "5", "model_type": "Review", "model_id": "{reported}", "reason": "spam",
    "is_active": "1", "job_id": "{job}", "user_id": "{another_customer}",
}  # fmt: skip
# The answer of an export is a whole shop; the others do not read the shop's rows.
UNMEASURED = {
    "/api/export-attributes/{shop}", "/api/export-products/{shop}", "/api/export-variation-options/{shop}",
    "/api/openapi.json", "/api/schema", "/api/docs",
}  # fmt: skip
PAGES_READ = "SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0) FROM pg_class WHERE relkind IN ('r', 'i')"


@dataclass(frozen=True)
class Request:
    """A request to the API as one of the world's users."""

    name: str
    identity: str
    row: Row
    query: str = ""


def able(row: Row) -> list[str]:
    """Return the users who get a response of success."""
    return [name for name, status in zip(IDENTITIES, row.statuses, strict=True) if 200 <= status < 300]


def requests(world: World, depth: int) -> Iterator[Request]:
    """Yield the requests to every route: lists in all their forms, the others as in the route table."""
    for row in TABLE:
        users = able(row)
        if not users or not row.route.startswith("/api/") or row.route in UNMEASURED:
            continue
        if row.method != "GET" or row.route not in LISTS:
            yield Request(row.name, users[0], row)
            continue
        readers = PUBLIC_READERS if "nobody" in users else READERS
        for identity in dict.fromkeys((LISTS[row.route][0], *readers)):
            if identity in users:
                for form, query in forms(filters_of(row.path.format(**world.names)), depth):
                    yield Request(f"{row.name}, {identity}, {form}", identity, row, f"limit={ROWS}&{query}")


def forms(filters: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the forms of a list: the first page, a deep page, each filter, and each order."""
    yield "first page", ""
    yield "deep page", f"page={depth // ROWS}"
    for name, filter_ in filters.base_filters.items() if filters else ():
        choices = filter_.extra.get("choices") if isinstance(filter_, ChoiceFilter) else None
        yield name, f"{name}={choices[0][0] if choices else FILTERS[name]}"
    if hasattr(filters, "text_parameter"):
        yield "search", f"search={FILTERS['q']}"
    for name in filters.order_fields if filters else ():
        yield f"by {name}", f"orderBy={name}&sortedBy=desc"


def filters_of(path: str) -> Any:
    """Return the allow-lists of a list, or None."""
    view: Any = resolve(path).func
    view_class = getattr(view, "cls", None) or view.view_class
    return getattr(view, "initkwargs", {}).get("filterset_class") or getattr(view_class, "filterset_class", None)


class GrownShop:
    """A world with its rows multiplied, and the clients of its users."""

    def __init__(self, size: int) -> None:
        call_command("migrate", verbosity=0)
        LIFETIMES.update(dict.fromkeys(LIFETIMES, VALID))
        self.world = make_world()
        young = Decision.objects.filter(pk=self.world.names["young_decision"])
        young.update(undo_until=timezone.now() + VALID)
        fill_lists(self.world)
        # Without a worker, jobs are processed at once, and what is due when it is read; these stay open for the run.
        DescriptionJob.objects.update(
            state=DescriptionJob.State.WAITING, error="", ended_at=None, next_check_at=timezone.now() + VALID
        )
        while update_index():
            pass
        with without_gin_indexes():
            ShopRows(self.world, size).insert()
        assert update_index() == 0, "the copies are indexed"
        settle()  # what follows needs the statistics of the copies
        aggregate_ledger(now=timezone.now())
        while update_next_group():
            pass
        for shop_ids in (None, list(Shop.objects.filter(owner=self.world.users["owner"]).values_list("pk", flat=True))):
            read_sales_report(shop_ids, now=timezone.now())
        while compute_next_report(now=timezone.now()):
            pass
        settle()

    @cached_property
    def clients(self) -> dict[str, Client]:
        return {
            name: Client(raise_request_exception=False, headers=self.world.headers(name), SERVER_NAME="localhost")
            for name in IDENTITIES
        }

    def send(self, request: Request) -> HttpResponseBase:
        row = request.row
        path = f"{row.path}?{request.query}" if request.query else row.path
        return self.world.request(request.identity, row.method, path, row.body, client=self.clients[request.identity])

    def cost(self, request: Request) -> tuple[float, int] | None:
        """Return the milliseconds of a request, and the pages that PostgreSQL read. Its changes are rolled back.

        Return None if it is refused, as by a limit of what a shop may have or of the time of a query.
        """
        outermost = transaction.atomic()
        outermost._from_testcase = True  # type: ignore[attr-defined]  # services may begin the outermost transaction
        with outermost:
            before, began = pages_read(), time.perf_counter()
            response = self.send(request)
            content = response.getvalue() if hasattr(response, "getvalue") else b""
            milliseconds = (time.perf_counter() - began) * 1000
            pages = pages_read() - before
            transaction.set_rollback(True)
        if 200 <= response.status_code < 300:
            return milliseconds, pages
        assert response.status_code in (409, 413, 422, 429), (request, response.status_code, content)
        print(f"Not measured: {request.name}: {response.status_code} {content!r}", file=sys.stderr, flush=True)
        return None

    def measure(self, all_requests: dict[str, Request], times: int, only: list[str] | None) -> dict[str, Any]:
        results = {}
        for name in only or all_requests:
            costs = [cost for _ in range(times) if (cost := self.cost(all_requests[name]))]
            if costs:
                results[name] = {"ms": [milliseconds for milliseconds, _ in costs], "pages": costs[-1][1]}
        return results


def pages_read() -> int:
    """Return the pages that this connection has read, of tables and indexes."""
    with connection.cursor() as cursor:
        cursor.execute(PAGES_READ)
        return int(cursor.fetchone()[0])


def main() -> None:
    size, depth = map(int, sys.argv[1:])
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the shop's log is written to standard output
    settings.LOGIN_LIMIT = settings.EMAIL_LIMIT = 10**9
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    settings.DESCRIPTIONS_API_KEY = "sk-bench"
    provider = ProviderServer()
    provider.start()
    settings.DESCRIPTIONS_BASE_URL = provider.url("good")
    began = time.perf_counter()
    shop = GrownShop(size)
    all_requests = {request.name: request for request in requests(shop.world, depth)}
    shop.measure(all_requests, 1, None)  # fills caches
    gc.collect()
    gc.freeze()  # as the server does after its start
    print(json.dumps({"seconds": time.perf_counter() - began}), file=results, flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        print(json.dumps(shop.measure(all_requests, given["times"], given.get("only"))), file=results, flush=True)
    provider.stop()


if __name__ == "__main__":
    main()
