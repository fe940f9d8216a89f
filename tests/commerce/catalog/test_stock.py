"""Taking stock and returning it."""

import threading
from collections.abc import Sequence

import pytest
from django.db import connection
from django.utils import timezone

from commerce.catalog.models import Product, Variation
from commerce.catalog.services import change_rating
from commerce.catalog.stock import OutOfStock, StockLine, return_stock, take_stock
from commerce.catalog.variations import set_variations
from commerce.shops.models import Shop
from tests.commerce.catalog.factories import make_product, make_variable_product


def figures(goods: Product | Variation) -> tuple[int, int]:
    goods.refresh_from_db()
    return goods.quantity, goods.sold_quantity


def line(product: Product, quantity: int, variation: Variation | None = None) -> StockLine:
    return StockLine(product_id=product.pk, quantity=quantity, variation_id=variation.pk if variation else None)


@pytest.mark.django_db
class TestOneAtATime:
    def test_taken_stock_counts_as_sold_and_returned_stock_does_not(self, shop: Shop):
        lamp = make_product(shop, quantity=5)

        take_stock(lines=[line(lamp, 3)])
        assert figures(lamp) == (2, 3)

        return_stock(lines=[line(lamp, 2)])
        assert figures(lamp) == (4, 1)

    def test_a_product_is_low_on_stock_while_one_of_its_variations_is(self, shop: Shop):
        shirt = make_variable_product(shop, S=11, L=50)
        small, large = shirt.variations.order_by("title").reverse()
        make_product(shop, slug="chair", quantity=11)

        take_stock(lines=[line(shirt, 30, large)])
        assert not Product.objects.low_stock().exists()
        take_stock(lines=[line(shirt, 2, small)])
        assert list(Product.objects.low_stock()) == [shirt]
        return_stock(lines=[line(shirt, 1, small)])
        assert not Product.objects.low_stock().exists()

    def test_all_lines_are_taken_or_none(self, shop: Shop):
        lamp = make_product(shop, quantity=5)
        chair = make_product(shop, slug="chair", quantity=1)

        with pytest.raises(OutOfStock) as refused:
            take_stock(lines=[line(lamp, 1), line(chair, 2)])

        assert refused.value.problem.errors == {"products.1": ["This product is not in stock in this quantity."]}
        assert figures(lamp) == (5, 0)

    def test_two_lines_of_one_product_are_summed(self, shop: Shop):
        lamp = make_product(shop, quantity=5)

        with pytest.raises(OutOfStock):
            take_stock(lines=[line(lamp, 3), line(lamp, 3)])
        take_stock(lines=[line(lamp, 3), line(lamp, 2)])

        assert figures(lamp) == (0, 5)

    def test_a_variation_is_taken_from_its_product_too(self, shop: Shop):
        shirt = make_variable_product(shop, small=3, large=4)
        small, large = shirt.variations.all()

        take_stock(lines=[line(shirt, 2, small), line(shirt, 1, large)])

        assert (figures(small), figures(large), figures(shirt)) == ((1, 2), (3, 1), (4, 3))

    def test_a_variation_out_of_stock_leaves_the_product_unchanged(self, shop: Shop):
        shirt = make_variable_product(shop, small=3, large=4)
        small = shirt.variations.all()[0]

        with pytest.raises(OutOfStock):
            take_stock(lines=[line(shirt, 4, small)])

        assert figures(shirt) == (7, 0)

    def test_stock_is_taken_with_a_variation_exactly_from_variable_products(self, shop: Shop):
        shirt = make_variable_product(shop, small=3)
        lamp = make_product(shop, quantity=5)

        for wrong in (line(shirt, 1), line(lamp, 1, shirt.variations.get())):
            with pytest.raises(OutOfStock):
                take_stock(lines=[wrong])

    def test_deleted_products_cannot_be_taken_but_can_be_returned(self, shop: Shop):
        lamp = make_product(shop, quantity=5)
        take_stock(lines=[line(lamp, 1)])
        Product.objects.update(deleted_at=lamp.created_at)

        with pytest.raises(OutOfStock):
            take_stock(lines=[line(lamp, 1)])
        return_stock(lines=[line(lamp, 1)])

        assert figures(lamp) == (5, 0)

    def test_stock_returned_to_a_deleted_variation_is_not_for_sale(self, shop: Shop):
        shirt = make_variable_product(shop, small=4, large=2)
        small, large = shirt.variations.all()
        take_stock(lines=[line(shirt, 3, small), line(shirt, 2, large)])
        shirt.refresh_from_db()
        kept = {"id": large.pk, "title": "large", "price": 2100}
        set_variations(product=shirt, items=[kept], now=timezone.now())

        return_stock(lines=[line(shirt, 3, small), line(shirt, 1, large)])

        assert (figures(small), figures(large), figures(shirt)) == ((4, 0), (1, 1), (1, 1))

    def test_returns_from_before_a_product_had_variations_are_not_their_stock(self, shop: Shop):
        shirt = make_product(shop, quantity=5)
        take_stock(lines=[line(shirt, 2)])
        shirt.refresh_from_db()
        shirt.product_type = Product.Kind.VARIABLE
        set_variations(product=shirt, items=[{"title": "small", "price": 20, "quantity": 3}], now=timezone.now())

        return_stock(lines=[line(shirt, 2)])

        assert figures(shirt) == (3, 0)

    def test_a_line_of_less_than_one_is_a_programming_error(self, shop: Shop):
        with pytest.raises(ValueError, match="at least 1"):
            take_stock(lines=[line(make_product(shop), 0)])

    def test_the_rating_is_the_average_of_its_stars(self, shop: Shop):
        lamp = make_product(shop)

        change_rating(product_id=lamp.pk, stars=5, count=1)
        change_rating(product_id=lamp.pk, stars=2, count=1)
        lamp.refresh_from_db()
        assert (lamp.ratings, lamp.total_reviews) == (3.5, 2)

        change_rating(product_id=lamp.pk, stars=-7, count=-2)
        lamp.refresh_from_db()
        assert (lamp.ratings, lamp.total_reviews) == (0.0, 0)


def take_in_threads(orders: Sequence[Sequence[StockLine]]) -> int:
    """Place these orders concurrently; return how many succeeded."""
    ready, taken = threading.Barrier(len(orders)), []

    def order(lines: Sequence[StockLine]) -> None:
        ready.wait()
        try:
            take_stock(lines=lines)
            taken.append(lines)
        except OutOfStock:
            pass
        finally:
            connection.close()

    threads = [threading.Thread(target=order, args=[lines]) for lines in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(taken)


@pytest.mark.django_db(transaction=True)
class TestAllAtOnce:
    def test_five_of_twelve_concurrent_orders_get_the_last_five_pieces(self, shop: Shop):
        lamp = make_product(shop, quantity=5)

        assert take_in_threads([[line(lamp, 1)]] * 12) == 5
        assert figures(lamp) == (0, 5)

    def test_orders_of_the_same_products_in_another_order_never_deadlock(self, shop: Shop):
        lamp = make_product(shop, quantity=100)
        shirt = make_variable_product(shop, small=100)
        chair = make_product(shop, slug="chair", quantity=100)
        lines = [line(lamp, 1), line(shirt, 1, shirt.variations.get()), line(chair, 1)]

        assert take_in_threads([lines, lines[::-1]] * 6) == 12
        assert (figures(lamp), figures(shirt), figures(chair)) == ((88, 12), (88, 12), (88, 12))
