"""The full demo of `manage_commerce.py seed`."""

import io
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from random import Random

import pytest
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models import Count, F, Sum
from django.test.utils import CaptureQueriesContext
from PIL import Image

from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.models import LedgerEntry, PeriodRollup
from commerce.attachments import storage
from commerce.catalog.models import Category, Product
from commerce.demo.feedback import seed_feedback
from commerce.demo.full import seed_catalog, seed_images, seed_orders
from commerce.demo.full_data import CATEGORIES
from commerce.demo.images import SHAPES, draw_image
from commerce.demo.order_history import OrderTerms, SellableItem, generate_orders, orders_per_day
from commerce.demo.services import seed_small
from commerce.moderation.models import AbuseReport
from commerce.orders import bulk_insert
from commerce.orders.bulk_insert import BulkOrder
from commerce.orders.models import Order, OrderLine
from commerce.reviews.models import Question, Review
from commerce.shops.models import Shop
from shared.accounts.models import User

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def unheard(what: str, done: int, of: int) -> None:
    """Discard the progress bars."""


def drawn_orders(seed: int, count: int = 300) -> list[BulkOrder]:
    goods = [
        SellableItem(product_id=n, shop_id=n % 3, price=100 + n, season="summer" if n % 2 else "") for n in range(40)
    ]
    orders = generate_orders(
        count=count,
        until=NOW,
        items=goods,
        customer_ids=range(50),
        terms=OrderTerms(currency="EUR", tax_rate=1000, delivery_fee=490),
        random=Random(seed),
    )
    return list(orders)


class TestHistory:
    def test_the_same_seed_draws_the_same_orders_and_another_draws_others(self):
        assert drawn_orders(7) == drawn_orders(7)
        assert drawn_orders(7) != drawn_orders(8)

    @pytest.mark.parametrize("count", [0, 1, 729, 100_000])
    def test_orders_per_day_sum_up_to_the_total(self, count: int):
        days = list(orders_per_day(count, NOW))

        assert len(days) == 730
        assert sum(orders for _, orders in days) == count
        assert min(orders for _, orders in days) >= 0
        assert (days[0][0], days[-1][0]) == (date(2024, 11, 21), NOW.date())

    def test_orders_increase_at_weekends_before_holidays_and_every_year(self):
        days = dict(orders_per_day(1_000_000, NOW))

        by_weekday = Counter[int]()
        by_month = Counter[tuple[int, int]]()
        for day, orders in days.items():
            by_weekday[day.weekday()] += orders
            by_month[day.year, day.month] += orders
        assert max(by_weekday, key=lambda weekday: by_weekday[weekday]) == 5
        assert by_month[2025, 12] > 1.5 * by_month[2025, 9]
        assert by_month[2026, 6] > 1.2 * by_month[2025, 6]

    def test_today_has_fewer_orders(self):
        morning = dict(orders_per_day(1_000_000, NOW.replace(hour=6)))
        evening = dict(orders_per_day(1_000_000, NOW.replace(hour=18)))

        assert 2.9 < evening[NOW.date()] / morning[NOW.date()] < 3.1

    def test_tents_are_bought_in_summer(self):
        by_season = Counter[tuple[bool, bool]]()
        for order in drawn_orders(7, count=5000):
            for line in order.lines:
                by_season[order.created_at.month in (6, 7, 8), line.product_id % 2 == 1] += 1

        assert by_season[True, True] / by_season[True, False] > 1.5 * by_season[False, True] / by_season[False, False]

    def test_an_order_is_complete_and_in_the_past(self):
        orders = drawn_orders(7)

        assert len(orders) == 300
        assert [order.created_at for order in orders] == sorted(order.created_at for order in orders)
        assert len({order.created_at for order in orders}) == 300
        for order in orders:
            amount = sum(line.quantity * line.unit_price for line in order.lines)
            assert NOW - timedelta(days=731) < order.created_at <= NOW
            assert set(order.statuses) == {line.shop_id for line in order.lines}
            assert (order.sales_tax, order.delivery_fee) == (amount // 10, 490)

    def test_old_orders_have_a_final_status(self):
        settled = {"complete", "cancelled", "refunded", "failed"}
        for order in drawn_orders(7):
            if NOW - order.created_at > timedelta(days=10):
                assert set(order.statuses.values()) <= settled


class TestPictures:
    def test_every_shape_has_its_own_picture(self):
        pictures = {shape: draw_image(shape, 0.3) for shape in SHAPES}

        assert len(set(pictures.values())) == len(SHAPES) == 17
        assert {category.shape for category in CATEGORIES} == set(SHAPES)
        for picture in pictures.values():
            with Image.open(io.BytesIO(picture)) as image:
                assert (image.format, image.size) == ("JPEG", (800, 600))

    def test_the_same_seed_draws_the_same_picture(self):
        assert draw_image("tent", 0.3) == draw_image("tent", 0.3)
        assert draw_image("tent", 0.3) != draw_image("tent", 0.6)


@pytest.mark.django_db
class TestShop:
    def test_the_full_demo_has_nine_shops_and_two_hundred_products_in_twenty_nine_categories(self):
        seed_catalog(seed=7, now=NOW)

        assert Shop.objects.count() == 9
        assert Product.objects.public().count() == 200
        assert Category.objects.annotate(items=Count("products")).filter(items=0).count() == 0
        assert Category.objects.filter(parent=None).count() == 24
        assert Category.objects.filter(depth=1).count() == 5
        assert all(shop.products.exists() for shop in Shop.objects.all())
        variable = Product.objects.filter(product_type="variable")
        assert variable.count() == 35
        for product in variable:
            quantities = [variation.quantity for variation in product.variations.all()]
            assert (product.quantity, len(quantities) in (1, 2, 3, 4, 6)) == (sum(quantities), True)
            assert product.min_price <= product.max_price
            assert all(variation.value_links.exists() for variation in product.variations.all())

    def test_a_second_run_changes_nothing(self):
        def rows() -> list[object]:
            return [list(model.objects.order_by("pk").values_list()) for model in (User, Product, Order, Review)]

        seen = []
        for _ in range(2):
            seed_catalog(seed=7, now=NOW)
            seed_orders(seed=7, count=100, now=NOW, report_progress=unheard)
            seed_feedback(seed=7, now=NOW)
            seen.append(rows())

        assert seen[0] == seen[1]

    def test_the_same_seed_makes_the_same_orders_also_in_several_chunks(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(bulk_insert, "ORDERS_PER_TRANSACTION", 15)
        seed_catalog(seed=7, now=NOW)

        def made(seed: int) -> list[object]:
            with transaction.atomic():
                seed_orders(seed=seed, count=40, now=NOW, report_progress=unheard)
                columns = "tracking_number", "customer__email", "shop__slug", "order_status", "total", "created_at"
                rows = list[object](Order.objects.order_by("pk").values_list(*columns))
                transaction.set_rollback(True)
            return rows

        assert made(7) == made(7)
        assert made(7) != made(8)

    def test_a_second_run_adds_orders_up_to_the_requested_number(self):
        seed_catalog(seed=7, now=NOW)
        for count in (50, 120, 100):
            seed_orders(seed=7, count=count, now=NOW, report_progress=unheard)

        parents = Order.objects.filter(parent=None)
        assert parents.count() == 120
        assert not parents.exclude(total=F("amount") + F("sales_tax") + F("delivery_fee")).exists()
        assert set(parents.values_list("customer__role", flat=True)) == {"CUSTOMER"}

    def test_the_figures_are_those_of_the_orders(self):
        seed_catalog(seed=7, now=NOW)
        seed_orders(seed=7, count=200, now=NOW, report_progress=unheard)

        assert not Shop.objects.annotate(number=Count("orders")).exclude(orders_count=F("number")).exists()
        kept = ["cancelled", "failed", "refunded"]
        sold = OrderLine.objects.exclude(order__order_status__in=kept).aggregate(pieces=Sum("quantity"))["pieces"]
        assert Product.objects.aggregate(pieces=Sum("sold_quantity"))["pieces"] == sold > 0

    def test_the_platforms_rollups_are_aggregated_and_correct(self):
        seed_catalog(seed=7, now=NOW)
        seed_orders(seed=7, count=200, now=NOW, report_progress=unheard)

        assert not LedgerEntry.objects.exists()
        whole = PeriodRollup.objects.filter(grain=PeriodRollup.Grain.ALL, shop_id=0)
        assert whole.aggregate(orders=Sum("orders"))["orders"] == 200
        assert find_differences() == []

    def test_customers_review_ordered_products_ask_and_report(self):
        seed_catalog(seed=7, now=NOW)
        seed_orders(seed=7, count=200, now=NOW, report_progress=unheard)
        seed_feedback(seed=7, now=NOW)

        reviews = Review.objects.select_related("order")
        assert reviews.count() > 100
        for review in reviews:
            assert review.order is not None
            assert review.order.customer_id == review.user_id
            assert review.order.created_at < review.created_at <= NOW
        assert Product.objects.aggregate(total=Sum("rating_count"))["total"] == reviews.count()
        assert Question.objects.count() == 120
        assert Question.objects.exclude(answer="").count() > 50
        reported = Review.objects.aggregate(reports=Sum("abusive_reports_count"))["reports"]
        assert reported == AbuseReport.objects.filter(model_type="Review").count() > 10

    def test_finding_bought_products_does_not_read_all_complete_orders(self):
        seed_catalog(seed=7, now=NOW)
        seed_orders(seed=7, count=50, now=NOW, report_progress=unheard)
        with CaptureQueriesContext(connection) as queries:
            seed_feedback(seed=7, now=NOW)

        reads = [query["sql"] for query in queries if OrderLine._meta.db_table in query["sql"]]
        assert reads
        assert [sql for sql in reads if '"order_status" =' in sql] == []

    def test_products_get_valid_pictures(self):
        seed_small(now=NOW)
        Product.objects.exclude(slug__in=["brunvale-teapot", "ember-camp-stove"]).update(status="draft", deleted_at=NOW)
        told = list[tuple[str, int, int]]()
        seed_images(seed=7, now=NOW, report_progress=lambda *step: told.append(step))

        assert told[-1] == ("Pictures", 2, 2)
        for product in Product.objects.public().select_related("image", "shop"):
            assert product.image is not None
            assert (product.image.width, product.image.owner_id) == (800, product.shop.owner_id)
            assert product.image.name == f"{product.slug}.jpg"
            assert default_storage.exists(storage.original_path(product.image))


def test_too_many_orders_are_refused():
    with pytest.raises(CommandError, match="10000000"):
        call_command("seed", "--orders", "10000001")
