"""Who is new to all the shops of an owner, as shops come and go."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from commerce.analytics import chains, reconcile, services
from commerce.analytics.models import Books, ChainShop, FirstOrder
from commerce.shops.models import Shop
from tests.commerce.analytics.market import Market, assert_right, delete_tree, make_order, told


@pytest.fixture
def kept_up(market: Market, now: datetime) -> Market:
    """The first customer bought in the owner's first shop 40 days ago and in the second one today, the other one in
    the second shop today."""
    lamp, stool = market.products[0], market.products[2]
    make_order(market.customers[0], [lamp], at=now - timedelta(days=40))
    make_order(market.customers[0], [stool], at=now)
    make_order(market.customers[1], [stool], at=now)
    services.keep_up(now=now)
    return market


def made() -> set[tuple[int, int]]:
    return set(ChainShop.objects.filter(generation=Books.objects.get().generation).values_list("owner_id", "shop_id"))


def test_a_round_makes_the_chain_of_each_owner_of_several_shops(kept_up: Market, now: datetime):
    owner, shops = kept_up.owners[0].pk, [shop.pk for shop in kept_up.shops[:2]]

    assert made() == {(owner, shop) for shop in shops}
    assert chains.find(shops, 1) == -owner
    assert chains.find(shops[:1], 1) is None
    assert FirstOrder.objects.filter(shop_id=-owner).count() == 2
    assert reconcile.differences() == []
    assert_right(kept_up, now)


def test_who_is_new_to_a_chain_is_not_looked_for_one_by_one(kept_up: Market):
    with CaptureQueriesContext(connection) as queries:
        assert told(kept_up.clients["owner"], "analytics")["newCustomers"] == 1

    assert not any("EXISTS" in query["sql"] and FirstOrder._meta.db_table in query["sql"] for query in queries)


def test_orders_that_come_and_go_move_the_first_one_of_a_chain(kept_up: Market, now: datetime):
    earlier = make_order(kept_up.customers[1], kept_up.products[:1], at=now - timedelta(days=60))
    services.fold(now=now)
    assert told(kept_up.clients["owner"], "analytics")["newCustomers"] == 0
    delete_tree(earlier)
    services.fold(now=now)

    assert told(kept_up.clients["owner"], "analytics")["newCustomers"] == 1
    assert reconcile.differences() == []
    assert_right(kept_up, now)


@pytest.mark.parametrize(("shop", "to"), [(0, 1), (1, 1), (2, 0)], ids=["a first", "a second", "a third"])
def test_a_shop_that_is_sold_counts_for_its_new_owner_at_once(kept_up: Market, now: datetime, shop: int, to: int):
    make_order(kept_up.customers[0], kept_up.products[4:5], at=now - timedelta(days=3))
    Shop.objects.filter(pk=kept_up.shops[shop].pk).update(owner=kept_up.owners[to])
    assert_right(kept_up, now)
    services.keep_up(now=now)

    owned = {owner.pk: Shop.objects.filter(owner=owner) for owner in kept_up.owners}
    assert made() == {(owner, row.pk) for owner, rows in owned.items() if len(rows) > 1 for row in rows}
    assert {-pk for pk in FirstOrder.objects.filter(shop_id__lt=0).values_list("shop_id", flat=True)} == {
        owner for owner, _ in made()
    }
    assert reconcile.differences() == []
    assert_right(kept_up, now)


def test_shops_that_change_hands_crosswise_end_in_their_new_chains(kept_up: Market, now: datetime):
    """Each of the two owners has a chain, and one of the other's shops afterwards."""
    other = kept_up.owners[1]
    Shop.objects.create(owner=other, name="Fourth", slug="fourth")
    services.keep_up(now=now)
    Shop.objects.filter(pk=kept_up.shops[0].pk).update(owner=other)
    Shop.objects.filter(pk=kept_up.shops[2].pk).update(owner=kept_up.owners[0])
    assert_right(kept_up, now)
    services.keep_up(now=now)

    assert made() == set(Shop.objects.values_list("owner_id", "pk"))
    assert reconcile.differences() == []
    assert_right(kept_up, now)


def test_after_a_rebuild_chains_are_made_anew(kept_up: Market, now: datetime):
    while not services.rebuild_some(now=now, most=2).is_complete:
        pass
    assert made() == set()
    assert_right(kept_up, now)
    services.keep_up(now=now)

    assert len(made()) == 2
    assert not ChainShop.objects.filter(generation=1).exists()
    assert not FirstOrder.objects.filter(generation=1).exists()
    assert_right(kept_up, now)


def test_a_wrong_first_order_of_a_chain_is_named(kept_up: Market):
    owner, customer = kept_up.owners[0].pk, kept_up.customers[0].pk
    FirstOrder.objects.filter(shop_id=-owner, customer_id=customer).delete()

    (difference,) = reconcile.differences()
    assert difference.startswith(f"chain {owner}, customer {customer}: the first order is told as of None, and is of")


def test_a_version_that_knew_no_chains_may_have_folded_meanwhile(kept_up: Market, now: datetime):
    """As while processes are restarted one after the other, or after a rollback."""
    make_order(kept_up.customers[1], kept_up.products[:1], at=now - timedelta(days=60))
    before = list(FirstOrder.objects.filter(shop_id__lt=0).values())
    services.fold(now=now)
    FirstOrder.objects.filter(shop_id__lt=0).delete()
    FirstOrder.objects.bulk_create(FirstOrder(**row) for row in before)
    Books.objects.update(folded_at=now + timedelta(seconds=1))

    assert reconcile.differences() == []
    assert_right(kept_up, now)
    for _ in range(2):
        services.keep_up(now=now + timedelta(seconds=2))
    assert len(made()) == 2
    assert reconcile.differences() == []
    assert_right(kept_up, now)
