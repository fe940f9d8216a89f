"""Expected values of analytics: every row of the shop's tables is read and summed in Python.

This module knows nothing of triggers, the ledger or rollups.
"""

from calendar import month_name
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from commerce.catalog.models import Category, Product
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.money import to_number

WIRE_STATUS = {"at-local-facility": "localFacility", "out-for-delivery": "outForDelivery"}
Days = Callable[[date], bool]


@dataclass
class BruteForce:
    """The expected responses for some shops, or for the platform if `shop_ids` is None."""

    shop_ids: Sequence[int] | None
    now: datetime
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    currency: str = "EUR"

    def __post_init__(self) -> None:
        self.orders = {order.pk: order for order in Order.objects.all()}
        self.today = self.now.astimezone(self.zone).date()

    def day(self, moment: datetime) -> date:
        return moment.astimezone(self.zone).date()

    def root(self, order: Order) -> Order | None:
        parent = self.orders.get(order.parent_id or 0)
        return parent if parent is not None and parent.parent_id is None else None

    def counted_orders(self) -> list[tuple[date, Order]]:
        """Return the orders that count, with their days: parents for the platform, children for shops."""
        rows = []
        for order in self.orders.values():
            if self.shop_ids is None and order.parent_id is None:
                rows.append((self.day(order.created_at), order))
            elif self.shop_ids is not None and order.shop_id in self.shop_ids and (root := self.root(order)):
                rows.append((self.day(root.created_at), order))
        return rows

    def revenue(self, days: Days, currency: str = "") -> int:
        money = 0
        for order in self.orders.values():
            if order.currency != (currency or self.currency) or order.order_status != "complete":
                continue
            if order.parent_id is None:
                if self.shop_ids is None and days(self.day(order.created_at)):
                    money += order.sales_tax + order.delivery_fee
            elif self.shop_ids is None or order.shop_id in self.shop_ids:
                root = self.root(order)
                if root is not None and root.order_status == "complete" and days(self.day(root.created_at)):
                    money += order.total
        return money

    def refunds(self, days: Days) -> int:
        return sum(
            refund.amount
            for refund in Refund.objects.all()
            if refund.status == "approved"
            and refund.order_id in self.orders
            and self.orders[refund.order_id].currency == self.currency
            and (self.shop_ids is None or refund.shop_id in self.shop_ids)
            and days(self.day(refund.updated_at))
        )

    def by_status(self, days: Days) -> dict[str, int]:
        counted = Counter(
            order.order_status for day, order in self.counted_orders() if order.currency == self.currency and days(day)
        )
        return {WIRE_STATUS.get(status, status): counted[status] for status in Order.Status.values}

    def new_customers(self, days: Days) -> int:
        customers = User.objects.filter(role="CUSTOMER")
        joined = {user.pk for user in customers if days(self.day(user.created_at))}
        if self.shop_ids is None:
            return len(joined)
        firsts: dict[int, datetime] = {}
        for order in self.orders.values():
            root = self.root(order)
            if order.shop_id in self.shop_ids and root is not None:
                firsts[order.customer_id] = min(firsts.get(order.customer_id, root.created_at), root.created_at)
        return sum(days(self.day(first)) for customer_id, first in firsts.items() if customer_id in joined)

    def average_order_value(self, days: Days) -> float:
        complete = self.by_status(days)["complete"] if self.shop_ids is None else self.sold_orders(days)
        return self.money(int(Decimal(self.revenue(days)) / complete + Decimal("0.5"))) if complete else 0

    def is_sold(self, order: Order | None) -> bool:
        root = self.root(order) if order else None
        return root is not None and {order.order_status, root.order_status} == {"complete"}  # type: ignore[union-attr]

    def sold_orders(self, days: Days) -> int:
        return sum(
            order.currency == self.currency and self.is_sold(order) and days(day)
            for day, order in self.counted_orders()
        )

    def placed(self, days: Days) -> int:
        money = 0
        for order in self.orders.values():
            root = self.root(order) if order.parent_id else order
            if order.currency != self.currency or root is None or not days(self.day(root.created_at)):
                continue
            if order.parent_id is None:
                money += order.sales_tax + order.delivery_fee if self.shop_ids is None else 0
            elif self.shop_ids is None or order.shop_id in self.shop_ids:
                money += order.total
        return money

    def returning_rate(self) -> float:
        placed: dict[int, set[int]] = defaultdict(set)
        for _, order in self.counted_orders():
            placed[order.customer_id].add(order.parent_id or order.pk)
        returning = sum(len(parents) > 1 for parents in placed.values())
        return round(returning / len(placed), 4) if placed else 0

    def top_customers(self) -> list[tuple[int, str, int, int]]:
        """Return id, name, orders and revenue of each customer."""
        placed, revenue = defaultdict(set), Counter[int]()
        for _, order in self.counted_orders():
            if order.currency == self.currency:
                placed[order.customer_id].add(order.parent_id or order.pk)
        for order in self.orders.values():
            if order.currency != self.currency or order.order_status != "complete":
                continue
            if self.shop_ids is None and order.parent_id is None:
                revenue[order.customer_id] += order.sales_tax + order.delivery_fee
            elif self.is_sold(order) and (self.shop_ids is None or order.shop_id in self.shop_ids):
                revenue[order.customer_id] += order.total
        names = dict(User.objects.values_list("pk", "name"))
        ranked = sorted((pk for pk in revenue if revenue[pk]), key=lambda pk: (-revenue[pk], pk))
        return [(pk, names[pk], len(placed[pk]), revenue[pk]) for pk in ranked[:9]]

    def sold_lines(self) -> list[OrderLine]:
        return [
            line
            for line in OrderLine.objects.all()
            if (child := self.orders.get(line.order_id)) is not None
            and self.is_sold(child)
            and child.currency == self.currency
            and (self.shop_ids is None or child.shop_id in self.shop_ids)
        ]

    def top_products(self) -> list[tuple[int, int, int]]:
        """Return id, units and revenue of each product."""
        return self._best_lines(lambda line: [line.product_id] if line.product.language == "en" else [])

    def attribute_sales(self) -> list[tuple[int, int, int]]:
        """Return id, units and revenue of each value of an attribute."""

        def values(line: OrderLine) -> list[int]:
            links = line.variation.value_links.all() if line.variation else []
            return [link.value_id for link in links if link.value.attribute.language == "en"]

        return self._best_lines(values)

    def _best_lines(self, keys: Callable[[OrderLine], list[int]]) -> list[tuple[int, int, int]]:
        units, revenue = Counter[int](), Counter[int]()
        for line in self.sold_lines():
            for key in keys(line):
                units[key] += line.quantity
                revenue[key] += line.subtotal
        ranked = sorted(units, key=lambda pk: (-revenue[pk], pk))
        return [(pk, units[pk], revenue[pk]) for pk in ranked[:9]]

    def last(self, count: int) -> Days:
        first = self.today - timedelta(days=count - 1)
        return lambda day: first <= day <= self.today

    def money(self, minor: int) -> float:
        return to_number(minor, self.currency)

    def totals(self, days: Days, new_customer_days: Days) -> dict[str, Any]:
        return {
            "totalRevenue": self.money(self.revenue(days)),
            "totalRefunds": self.money(self.refunds(days)),
            "totalOrders": sum(self.by_status(days).values()),
            "newCustomers": self.new_customers(new_customer_days),
            "averageOrderValue": self.average_order_value(days),
            "placedRevenue": self.money(self.placed(days)),
        }

    def overview(self, first: date | None = None, last: date | None = None, compare: bool = False) -> dict[str, Any]:
        """Return the body of GET /analytics."""

        def today(day: date) -> bool:
            return day == self.today

        def in_range(day: date) -> bool:
            return (first or date.min) <= day <= (last or self.today)

        has_range = first is not None or last is not None
        months = [
            self.money(self.revenue(lambda day, m=month: (day.year, day.month) == (self.today.year, m)))  # type: ignore[misc]
            for month in range(1, 13)
        ]
        shops = Shop.objects.all() if self.shop_ids is None else Shop.objects.filter(pk__in=self.shop_ids)
        body = {
            **self.totals(in_range if has_range else lambda day: True, in_range if has_range else self.last(30)),
            "totalShops": shops.count(),
            "totalVendors": len({shop.owner_id for shop in shops}) if self.shop_ids is None else 0,
            "todaysRevenue": self.money(self.revenue(today)),
            "totalYearSaleByMonth": [{"month": n, "total": t} for n, t in zip(month_name[1:], months, strict=True)],
            "todayTotalOrderByStatus": self.by_status(today),
            "weeklyTotalOrderByStatus": self.by_status(self.last(7)),
            "monthlyTotalOrderByStatus": self.by_status(self.last(30)),
            "yearlyTotalOrderByStatus": self.by_status(self.last(365)),
            "currency": self.currency,
            "currencies": sorted({order.currency for _, order in self.counted_orders()} - {self.currency}),
            "returningCustomerRate": self.returning_rate(),
            "pending": False,
        }
        if has_range:
            body |= {"from": str(first or date(2000, 1, 1)), "to": str(last or self.today)}
        if first is not None and last is not None and compare:
            days = (last - first).days + 1
            begin, end = first - timedelta(days=days), first - timedelta(days=1)

            def before(day: date) -> bool:
                return begin <= day <= end

            body["previous"] = {"from": str(begin), "to": str(end), **self.totals(before, before)}
        return body

    def products(self, language: str = "en") -> list[Product]:
        rows = Product.objects.filter(deleted_at=None, language=language).order_by("pk")
        return [row for row in rows if self.shop_ids is None or row.shop_id in self.shop_ids]

    def category_products(self, limit: int = 15) -> list[dict[str, Any]]:
        counted: Counter[tuple[int, int]] = Counter()
        for product in Product.objects.filter(deleted_at=None):
            if self.shop_ids is None or product.shop_id in self.shop_ids:
                counted.update((pk, product.shop_id) for pk in product.categories.values_list("pk", flat=True))
        return self._ranked(counted, "product_count", limit)

    def category_sales(self, limit: int = 15) -> list[dict[str, Any]]:
        counted: Counter[tuple[int, int]] = Counter()
        categories: dict[int, list[int]] = defaultdict(list)
        for product_id, category_id in Product.categories.through.objects.values_list("product_id", "category_id"):
            categories[product_id].append(category_id)
        for line in OrderLine.objects.all():
            child = self.orders.get(line.order_id)
            root = self.root(child) if child else None
            if child is None or root is None or {child.order_status, root.order_status} != {"complete"}:
                continue
            assert child.shop_id is not None
            if self.shop_ids is None or child.shop_id in self.shop_ids:
                for category_id in categories[line.product_id]:
                    counted[category_id, child.shop_id] += line.quantity
        rows = self._ranked(counted, "total_sales", limit)
        revenue: Counter[tuple[int, str]] = Counter()
        for line in self.sold_lines():
            for category_id in categories[line.product_id]:
                shop = self.orders[line.order_id].shop
                assert shop is not None
                revenue[category_id, shop.name] += line.subtotal
        return [row | {"total_revenue": self.money(revenue[row["category_id"], row["shop_name"]])} for row in rows]

    def _ranked(self, counted: Counter[tuple[int, int]], name: str, limit: int) -> list[dict[str, Any]]:
        categories = Category.objects.filter(language="en").in_bulk()
        shops = Shop.objects.in_bulk()
        ranked = sorted(
            (key for key in counted if key[0] in categories and counted[key]), key=lambda key: (-counted[key], key)
        )
        return [
            {
                "category_id": category,
                "category_name": categories[category].name,
                "shop_name": shops[shop].name,
                name: counted[category, shop],
            }
            for category, shop in ranked[:limit]
        ]

    def top_rated(self, limit: int = 10) -> list[tuple[int, float, int, int]]:
        """Return id, actual_rating, rating_count and total_rating of each product."""
        stars: dict[int, list[int]] = defaultdict(list)
        for review in Review.objects.visible():
            stars[review.product_id].append(review.rating)
        rated = [product.pk for product in self.products() if stars[product.pk]]
        rated.sort(key=lambda pk: (-sum(stars[pk]) / len(stars[pk]), -len(stars[pk]), pk))
        return [(pk, round(sum(stars[pk]) / len(stars[pk]), 2), len(stars[pk]), sum(stars[pk])) for pk in rated[:limit]]
