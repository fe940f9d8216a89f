"""New customers of owner groups, as orders and shops change."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from commerce.analytics import services
from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.aggregation.owner_groups import find_group
from commerce.analytics.aggregation.rebuild import rebuild_step
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.models import FirstOrder, OwnerGroupShop, RollupState
from commerce.shops.models import Shop
from tests.commerce.analytics.factories import Market, assert_analytics_correct, delete_order_tree, get_json, make_order


@pytest.fixture
def aggregated_market(market: Market, now: datetime) -> Market:
    """Return a market where Ada ordered from the owner's first shop 40 days ago and from the second today, Grace from
    the second today."""
    lamp, stool = market.products[0], market.products[2]
    make_order(market.customers[0], [lamp], at=now - timedelta(days=40))
    make_order(market.customers[0], [stool], at=now)
    make_order(market.customers[1], [stool], at=now)
    services.run_maintenance(now=now)
    return market


def group_shops() -> set[tuple[int, int]]:
    return set(
        OwnerGroupShop.objects.filter(generation=RollupState.objects.get().generation).values_list(
            "owner_id", "shop_id"
        )
    )


def test_maintenance_creates_a_group_for_each_owner_of_several_shops(aggregated_market: Market, now: datetime):
    owner, shops = aggregated_market.owners[0].pk, [shop.pk for shop in aggregated_market.shops[:2]]

    assert group_shops() == {(owner, shop) for shop in shops}
    assert find_group(shops, 1) == -owner
    assert find_group(shops[:1], 1) is None
    assert FirstOrder.objects.filter(shop_id=-owner).count() == 2
    assert find_differences() == []
    assert_analytics_correct(aggregated_market, now)


def test_new_customers_of_a_group_are_not_looked_up_one_by_one(aggregated_market: Market):
    with CaptureQueriesContext(connection) as queries:
        assert get_json(aggregated_market.clients["owner"], "analytics")["newCustomers"] == 1

    assert not any(query["sql"].count(f'FROM "{FirstOrder._meta.db_table}"') > 1 for query in queries)


def test_added_and_deleted_orders_move_the_first_order_of_a_group(aggregated_market: Market, now: datetime):
    earlier = make_order(aggregated_market.customers[1], aggregated_market.products[:1], at=now - timedelta(days=60))
    aggregate_ledger(now=now)
    assert get_json(aggregated_market.clients["owner"], "analytics")["newCustomers"] == 0
    delete_order_tree(earlier)
    aggregate_ledger(now=now)

    assert get_json(aggregated_market.clients["owner"], "analytics")["newCustomers"] == 1
    assert find_differences() == []
    assert_analytics_correct(aggregated_market, now)


@pytest.mark.parametrize(("shop", "to"), [(0, 1), (1, 1), (2, 0)], ids=["a first", "a second", "a third"])
def test_a_sold_shop_counts_for_its_new_owner_at_once(aggregated_market: Market, now: datetime, shop: int, to: int):
    make_order(aggregated_market.customers[0], aggregated_market.products[4:5], at=now - timedelta(days=3))
    Shop.objects.filter(pk=aggregated_market.shops[shop].pk).update(owner=aggregated_market.owners[to])
    assert_analytics_correct(aggregated_market, now)
    services.run_maintenance(now=now)

    owned = {owner.pk: Shop.objects.filter(owner=owner) for owner in aggregated_market.owners}
    assert group_shops() == {(owner, row.pk) for owner, rows in owned.items() if len(rows) > 1 for row in rows}
    assert {-pk for pk in FirstOrder.objects.filter(shop_id__lt=0).values_list("shop_id", flat=True)} == {
        owner for owner, _ in group_shops()
    }
    assert find_differences() == []
    assert_analytics_correct(aggregated_market, now)


def test_swapped_shops_join_their_new_groups(aggregated_market: Market, now: datetime):
    """Two owners with a group each swap one shop."""
    other = aggregated_market.owners[1]
    Shop.objects.create(owner=other, name="Fourth", slug="fourth")
    services.run_maintenance(now=now)
    Shop.objects.filter(pk=aggregated_market.shops[0].pk).update(owner=other)
    Shop.objects.filter(pk=aggregated_market.shops[2].pk).update(owner=aggregated_market.owners[0])
    assert_analytics_correct(aggregated_market, now)
    services.run_maintenance(now=now)

    assert group_shops() == set(Shop.objects.values_list("owner_id", "pk"))
    assert find_differences() == []
    assert_analytics_correct(aggregated_market, now)


def test_groups_are_created_again_after_a_rebuild(aggregated_market: Market, now: datetime):
    while not rebuild_step(now=now, limit=2).is_complete:
        pass
    assert group_shops() == set()
    assert_analytics_correct(aggregated_market, now)
    services.run_maintenance(now=now)

    assert len(group_shops()) == 2
    assert not OwnerGroupShop.objects.filter(generation=1).exists()
    assert not FirstOrder.objects.filter(generation=1).exists()
    assert_analytics_correct(aggregated_market, now)


def test_a_wrong_first_order_of_a_group_is_reported(aggregated_market: Market):
    owner, customer = aggregated_market.owners[0].pk, aggregated_market.customers[0].pk
    FirstOrder.objects.filter(shop_id=-owner, customer_id=customer).delete()

    (difference,) = find_differences()
    assert difference.startswith(f"owner group {owner}, customer {customer}: first order is at None, expected")


def test_a_release_without_owner_groups_may_aggregate_meanwhile(aggregated_market: Market, now: datetime):
    """Both releases serve during a rolling restart or after a rollback."""
    make_order(aggregated_market.customers[1], aggregated_market.products[:1], at=now - timedelta(days=60))
    before = list(FirstOrder.objects.filter(shop_id__lt=0).values())
    aggregate_ledger(now=now)
    FirstOrder.objects.filter(shop_id__lt=0).delete()
    FirstOrder.objects.bulk_create(FirstOrder(**row) for row in before)
    RollupState.objects.update(aggregated_at=now + timedelta(seconds=1))

    assert find_differences() == []
    assert_analytics_correct(aggregated_market, now)
    for _ in range(2):
        services.run_maintenance(now=now + timedelta(seconds=2))
    assert len(group_shops()) == 2
    assert find_differences() == []
    assert_analytics_correct(aggregated_market, now)
