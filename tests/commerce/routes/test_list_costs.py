"""Row C7: a list takes as many queries for a thousand rows as for ten, with all that may be sent along. Every route of
many things has a line here."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, models
from django.test.utils import CaptureQueriesContext
from django.urls import resolve
from django.utils import timezone

from commerce.addresses.models import Address
from commerce.analytics.models import SalesReport
from commerce.analytics.reports.sales_reports import read_sales_report
from commerce.attachments.models import Attachment
from commerce.attributes.models import Attribute, AttributeValue
from commerce.catalog.models import Category, Product, ProductType, Tag, Variation, VariationValue
from commerce.descriptions.models import DescriptionDraft, DescriptionJob
from commerce.moderation.models import AbuseReport, Appeal, Decision, Notice, ReportReason, Sanction
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Question, Review
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.models import SignIn, User
from shared.accounts.roles import Role
from shared.webhooks.models import Delivery, Endpoint
from tests.commerce.databases import plan_of
from tests.commerce.routes.route_table import TABLE
from tests.commerce.routes.scenario import IDENTITIES, World
from tests.commerce.routes.test_route_matrix import media, only_world, provider, world

__all__ = ["media", "only_world", "provider", "world"]

MANY = 950  # fewer than those of which a list keeps the count
MAX_QUERIES = 8  # without relations
MAX_QUERIES_PER_RELATION = 2
SORT = re.compile(r"(?<!Incremental )Sort  \(|TEMP B-TREE FOR ORDER BY")  # of all rows
WORLD = 10  # more than the users and decisions that the fixtures create
NOT_LISTS = {
    "/api/me", "/api/analytics", "/api/description-allowance", "/api/settings", "/api/settings/1", "/api/openapi.json",
    "/api/schema", "/api/docs", "/", "/metrics", "/livez", "/readyz", "/api/export-attributes/{shop}",
    "/api/export-products/{shop}", "/api/export-variation-options/{shop}",
    "/api/products/suggest", "/shop", "/shop/", "/shop/products/{product}/",
}  # fmt: skip

pytestmark = pytest.mark.django_db


def multiply(model: Any, count: int, **different: Callable[[int], Any]) -> None:
    """Copy the first row until there are `count`, with different values in unique columns."""
    first = model._base_manager.order_by("pk").first()
    columns = [field for field in model._meta.concrete_fields if not field.primary_key and not field.generated]
    alike = {field.attname: getattr(first, field.attname) for field in columns}
    missing = range(model._base_manager.count(), count)
    model._base_manager.bulk_create(
        model(**alike | {name: make(number) for name, make in different.items()}) for number in missing
    )


PUBLIC_ID: dict[str, Callable[[int], Any]] = {"public_id": "id_{}".format}


def named(name: str) -> Callable[[int], str]:
    return lambda number: f"{name}-{number}"


def ids(model: type[models.Model], count: int, **different: Callable[[int], Any]) -> list[int]:
    multiply(model, count, **different)
    return list(model._base_manager.order_by("pk").values_list("pk", flat=True))


def products(count: int) -> None:
    """Create products with a low stock."""
    Product.objects.update(quantity=3)
    on_shelf, shelf = Product.categories.through, Category.objects.order_by("pk")[0].pk
    multiply(Product, count, slug=named("lamp"))
    missing = Product.objects.exclude(categories=shelf).values_list("pk", flat=True)
    on_shelf._default_manager.bulk_create(on_shelf(product_id=pk, category_id=shelf) for pk in list(missing))


def rated_products(count: int) -> None:
    products(count)
    missing = list(Product.objects.filter(reviews=None).values_list("pk", flat=True))
    have = Review.objects.count()
    multiply(Review, have + len(missing), product_id=lambda number: missing[number - have])


def shelves(count: int) -> None:
    """Each with the same lamp on it."""
    on_shelf, lamp = Product.categories.through, Product.objects.order_by("pk")[0].pk
    multiply(Category, count, slug=named("shelf"))
    missing = Category.objects.exclude(products=lamp).values_list("pk", flat=True)
    on_shelf._default_manager.bulk_create(on_shelf(product_id=lamp, category_id=pk) for pk in list(missing))


def sold_shelves(count: int) -> None:
    shelves(count)
    Order.objects.update(order_status="complete")


def compute_report() -> None:
    """Store the sales report that the owner reads."""
    SalesReport.objects.all().delete()
    shops = Shop.objects.filter(owner__email="owner@example.com").values_list("pk", flat=True)
    read_sales_report(list(shops), now=timezone.now())


def sold_products(count: int) -> None:
    products(count)
    Order.objects.update(order_status="complete")
    missing = list(Product.objects.filter(order_lines=None).values_list("pk", flat=True))
    have = OrderLine.objects.count()
    multiply(OrderLine, have + len(missing), product_id=lambda number: missing[number - have])
    compute_report()


def sold_values(count: int) -> None:
    """Create values of an attribute that one variation has, which was sold."""
    Order.objects.update(order_status="complete")
    multiply(AttributeValue, count, slug=named("value"))
    line = OrderLine.objects.order_by("pk")[0]
    variation, _ = Variation.objects.get_or_create(product_id=line.product_id, title="All", price=100)
    OrderLine.objects.filter(pk=line.pk).update(variation=variation)
    missing = AttributeValue.objects.exclude(variation_links__variation=variation)
    VariationValue.objects.bulk_create(VariationValue(variation=variation, value=value) for value in missing)
    compute_report()


def buyers(count: int) -> None:
    """Create parts of an order, each of another customer."""
    customers = users(count + WORLD)
    part = Order.objects.filter(shop__isnull=False).order_by("pk")[0]
    columns = {field.attname: getattr(part, field.attname) for field in Order._meta.concrete_fields}
    del columns["id"], columns["tracking_number"]
    missing = range(Order.objects.filter(shop__isnull=False).count(), count)
    Order.objects.bulk_create(Order(**columns | {"customer_id": customers[number]}) for number in missing)
    Order.objects.update(order_status="complete")
    compute_report()


def users(count: int) -> list[int]:
    return ids(User, count, email=lambda number: f"{number}@example.com")


def reviews(count: int) -> None:
    """Create reviews of one product, each by another customer."""
    authors = users(count + WORLD)
    multiply(Review, count, user_id=lambda number: authors[WORLD + number])


def staff(count: int) -> None:
    members = users(count + WORLD)
    multiply(ShopStaff, count, user_id=lambda number: members[WORLD + number])


def people(count: int, role: Role) -> None:
    """Create users with a role, beside those of the world."""
    users(count + WORLD)
    User.objects.filter(email__regex="^[0-9]+@").update(role=role)


def inactive_shops(count: int) -> None:
    multiply(Shop, count + WORLD, slug=named("shop"), is_active=lambda number: False)


def drafts(count: int) -> None:
    products(count)
    Product.objects.update(status=Product.Status.DRAFT)


def notices(count: int) -> None:
    decisions = ids(Decision, count + WORLD)
    multiply(Notice, count, decision_id=lambda number: decisions[WORLD + number])


def appeals(count: int) -> None:
    decisions = ids(Decision, count + WORLD)
    multiply(Appeal, count, decision_id=lambda number: decisions[WORLD + number])


def sign_ins(count: int) -> None:
    customer = User.objects.get(email="customer@example.com")
    multiply(SignIn, count + WORLD, user_id=lambda number: customer.pk)


def reports(count: int) -> None:
    multiply(AbuseReport, count, model_id=lambda number: 1_000_000 + number)


# The user who reads each list, and the function that creates its rows.
LISTS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "/api/shops": ("nobody", lambda count: multiply(Shop, count, slug=named("shop"))),
    "/api/my-shops": ("owner", lambda count: multiply(Shop, count, slug=named("shop"))),
    "/api/new-shops": ("super admin", inactive_shops),
    "/api/my-staffs": ("owner", staff),
    "/api/all-staffs": ("super admin", staff),
    "/api/users": ("super admin", users),
    "/api/admin/list": ("super admin", lambda count: people(count, Role.SUPER_ADMIN)),
    "/api/vendors/list": ("super admin", lambda count: people(count, Role.STORE_OWNER)),
    "/api/customers/list": ("super admin", lambda count: people(count, Role.CUSTOMER)),
    "/api/staffs": ("owner", staff),
    "/api/shops/{shop}/staff": ("owner", staff),
    "/api/shops/{shop}/invitations": ("owner", lambda count: multiply(StaffInvitation, count, email=named("x@y.z"))),
    "/api/products": ("nobody", products),
    "/api/products/search": ("nobody", products),
    "/api/best-selling-products": ("nobody", products),
    "/api/popular-products": ("nobody", products),
    "/api/products/{product}/similar": ("nobody", products),
    "/api/categories": ("nobody", shelves),
    "/api/tags": ("nobody", lambda count: multiply(Tag, count, slug=named("tag"))),
    "/api/types": ("nobody", lambda count: multiply(ProductType, count, slug=named("type"))),
    "/api/orders": ("customer", lambda count: multiply(Order, count, tracking_number=named("S"))),
    "/api/refunds": ("customer", lambda count: multiply(Refund, count, status=lambda number: "approved")),
    "/api/reviews": ("nobody", reviews),
    "/api/questions": ("nobody", lambda count: multiply(Question, count)),
    "/api/my-questions": ("customer", lambda count: multiply(Question, count)),
    "/api/abusive_reports": ("super admin", reports),
    "/api/decisions": ("super admin", lambda count: multiply(Decision, count)),
    "/api/my-reports": ("another customer", reports),
    "/api/notices": ("customer", notices),
    "/api/appeals": ("customer", appeals),
    "/api/addresses": ("customer", lambda count: multiply(Address, count, default=lambda number: False)),
    "/api/attachments": ("nobody", lambda count: multiply(Attachment, count, key="{:032x}".format)),
    "/api/attributes": ("nobody", lambda count: multiply(Attribute, count, slug=named("attribute"))),
    "/api/low-stock-products": ("owner", products),
    "/api/products-stock": ("owner", products),
    "/api/draft-products": ("owner", drafts),
    "/api/category-wise-product": ("owner", shelves),
    "/api/category-wise-product-sale": ("owner", sold_shelves),
    "/api/attribute-wise-product-sale": ("owner", sold_values),
    "/api/top-rate-product": ("owner", rated_products),
    "/api/top-products": ("owner", sold_products),
    "/api/top-customers": ("owner", buyers),
    "/api/description-drafts": ("owner", lambda count: multiply(DescriptionDraft, count)),
    "/api/webhooks": ("owner", lambda count: multiply(Endpoint, count, url=named("https://8.8.8.8/"), **PUBLIC_ID)),
    "/api/webhooks/{webhook}/deliveries": ("owner", lambda count: multiply(Delivery, count, **PUBLIC_ID)),
    "/api/description-jobs": ("owner", lambda count: multiply(DescriptionJob, count)),
    "/api/sessions": ("customer", sign_ins),
    "/api/report-reasons": ("nobody", lambda count: multiply(ReportReason, count, code=named("reason"))),
    "/api/sanctions": ("super admin", lambda count: multiply(Sanction, count)),
}


# Lists of which no index has the order: figures, and what depends on several rows of a product.
SORTED = {
    "/api/products/{product}/similar",
    "/api/low-stock-products", "/api/products-stock", "/api/category-wise-product", "/api/category-wise-product-sale",
    "/api/attribute-wise-product-sale", "/api/top-rate-product", "/api/top-products", "/api/top-customers",
}  # fmt: skip
# Lists that end with `limit`, of which there are no pages.
WITHOUT_PAGES = {
    "/api/products/{product}/similar", "/api/category-wise-product", "/api/category-wise-product-sale",
    "/api/attribute-wise-product-sale", "/api/top-rate-product", "/api/top-products", "/api/top-customers",
}  # fmt: skip
# Lists of which there are few rows.
SMALL = {"/api/report-reasons", "/api/sessions", "/api/shops/{shop}/staff", "/api/shops/{shop}/invitations"}
# Orders of the largest lists that clients offer.
INDEXED_ORDERS = {
    "/api/products": ["id", "created_at", "min_price", "max_price", "sold_quantity", "ratings"],
    "/api/orders": ["id", "created_at", "order_status", "total"],
    "/api/reviews": ["id", "created_at", "rating"],
    "/api/questions": ["id", "created_at"],
    "/api/abusive_reports": ["id", "created_at"],
    "/api/attachments": ["id", "created_at"],
    "/api/refunds": ["id", "created_at"],
    "/api/decisions": ["id", "created_at"],
    "/api/users": ["id", "name", "email", "created_at"],
}
needs_plans_without_sorts = pytest.mark.skipif(
    connection.vendor == "sqlite", reason="SQLite sorts few rows even where an index has their order."
)


def lists() -> Iterator[str]:
    """Return the routes of lists: those that do not end with the parameter of one record."""
    yield from (row.route for row in TABLE if row.method == "GET" and not row.route.endswith("}"))


def test_c7_every_list_has_a_row():
    assert LISTS.keys() == set(lists()) - NOT_LISTS


@pytest.mark.no_database
@pytest.mark.parametrize("route", LISTS)
def test_c7_a_list_takes_as_many_queries_for_a_thousand_rows_as_for_ten(world: World, route: str):
    identity, fill = LISTS[route]
    path = route.format(**world.names)
    view: Any = resolve(path).func
    filters = getattr(getattr(view, "cls", None) or view.view_class, "filterset_class", None)
    relations = list(filters.relations) if filters else []

    def cost(rows: int, *named: str) -> tuple[int, int]:
        fill(rows)
        with CaptureQueriesContext(connection) as queries:
            answer = world.request(identity, "GET", f"{path}?limit=100&with={';'.join(named)}")
        assert answer.status_code == 200, answer.content
        body = answer.json()
        shown = body["data"] if isinstance(body, dict) else body
        return len(queries), len(shown)

    (few, some), (many, shown) = cost(10, *relations), cost(MANY, *relations)
    assert (some >= 8, shown) == (True, 100)
    assert many <= few + 1, "one more counts the rows that the page does not show"
    plain, _ = cost(MANY)
    assert plain <= MAX_QUERIES
    assert many <= plain + MAX_QUERIES_PER_RELATION * len(relations)


def test_c7_the_pages_of_every_list_are_the_list(world: World):
    wrong = {}
    for route, (identity, fill) in LISTS.items():
        fill(10)
        if route in WITHOUT_PAGES or route == "/api/sessions":  # each request of this test begins a session
            continue

        def ids(query: str, path: str = route.format(**world.names), identity: str = identity) -> list[Any]:
            answer = world.request(identity, "GET", f"{path}?{query}")
            assert answer.status_code == 200, (path, answer.content)
            body = answer.json()
            return [row.get("id", row) for row in (body["data"] if isinstance(body, dict) else body)]

        whole = ids("limit=100")
        pages = [row for page in range(1, len(whole) // 3 + 2) for row in ids(f"limit=3&page={page}")]
        if pages != whole or len(whole) < 4:
            wrong[route] = (pages, whole)
    assert wrong == {}


def pages_plan(world: World, identity: str, url: str) -> str:
    """Return the plan of the query that reads the rows of a page."""
    with CaptureQueriesContext(connection) as queries:
        answer = world.request(identity, "GET", url)
    assert answer.status_code == 200, answer.content
    pages = [query["sql"] for query in queries if query["sql"].endswith("LIMIT 16")]  # one more than the page shows
    assert len(pages) == 1, [query["sql"] for query in queries]
    return plan_of(pages[0], can_sort=False)


def readers(route: str) -> Iterator[str]:
    """Yield the user of the list, and a super admin, who may read everybody's rows."""
    yield LISTS[route][0]
    row = next(row for row in TABLE if (row.method, row.route) == ("GET", route))
    if row.statuses[list(IDENTITIES).index("super admin")] == 200:
        yield "super admin"


@needs_plans_without_sorts
@pytest.mark.parametrize("route", sorted(LISTS.keys() - SORTED - SMALL))
def test_c7_an_index_has_the_order_of_a_list(world: World, route: str):
    LISTS[route][1](10)
    for identity in readers(route):
        assert not SORT.search(pages_plan(world, identity, f"{route.format(**world.names)}?limit=15"))


@needs_plans_without_sorts
@pytest.mark.parametrize("route", INDEXED_ORDERS)
def test_c7_an_index_has_the_orders_that_clients_choose(world: World, route: str):
    LISTS[route][1](10)
    identity = [*readers(route)][-1]
    orders = [(name, direction) for name in INDEXED_ORDERS[route] for direction in ("asc", "desc")]
    plans = {
        (name, direction): pages_plan(world, identity, f"{route}?orderBy={name}&sortedBy={direction}")
        for name, direction in orders
    }
    assert {order: plan for order, plan in plans.items() if SORT.search(plan)} == {}
