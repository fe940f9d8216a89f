"""The column lists of the ledger against the models and the SQL that they are copied from."""

import re

import pytest
from django.apps import apps

from commerce.analytics.aggregation.rebuild import ROLLUP_MODELS
from commerce.analytics.ledger import entries, sqlite
from commerce.analytics.models import LedgerEntry, PeriodRollup, ProductRollup, RollupState

SELECTS = (
    entries.select_parent_orders,
    entries.select_shop_orders,
    entries.select_order_lines,
    entries.select_refunds,
    entries.select_customers,
    entries.select_reviews,
)
# The columns that triggers watch, by the letters that stand for the table in the SELECTs.
WATCHED_COLUMNS = {
    "rco": entries.ORDER_COLUMNS,
    "l": entries.LINE_COLUMNS,
    "f": entries.REFUND_COLUMNS,
    "u": entries.USER_COLUMNS,
    "v": entries.REVIEW_COLUMNS,
}
# The table that a trigger of SQLite is on, as its SELECTs call it.
SQLITE_TRIGGERS = {
    "order_own": "rc",
    "order_lines": "c",
    "order_parts": "r",
    "order_refunds": "o",
    "line_all": "l",
    "refund_all": "f",
    "user_all": "u",
    "review_all": "v",
}


def columns_used(sql: str, letters: str) -> set[str]:
    return set(re.findall(rf"\b[{letters}]\.(\w+)", sql))


def field_names(model: type) -> set[str]:
    return {field.name for field in model._meta.concrete_fields}  # type: ignore[attr-defined]


def test_every_field_of_an_entry_is_written():
    assert field_names(LedgerEntry) == {*entries.COLUMNS, "id", "written_at"}


def test_every_measure_has_a_rollup():
    keys = {"id", "generation", "grain", "starts_on", "shop_id", "product_id", "currency", "status", "average"}
    assert field_names(PeriodRollup) | field_names(ProductRollup) == {*entries.MEASURES, *keys}


def test_every_model_with_a_generation_is_cleaned_up():
    models = {model for model in apps.get_models() if "generation" in field_names(model)}
    assert models == {*ROLLUP_MODELS, RollupState}


@pytest.mark.parametrize("letters", WATCHED_COLUMNS)
def test_triggers_watch_exactly_the_columns_that_entries_use(letters: str):
    sql = " ".join(select("TRUE") for select in SELECTS)
    assert columns_used(sql, letters) | {"id"} == set(WATCHED_COLUMNS[letters])


@pytest.mark.parametrize("name", SQLITE_TRIGGERS)
@pytest.mark.parametrize("time", ["before", "after"])
def test_each_trigger_of_sqlite_watches_the_columns_that_its_entries_use(name: str, time: str):
    event, _, statement = sqlite.trigger_statements()[f"{sqlite.PREFIX}{name}_{time}"].partition(" BEGIN ")
    watched = event.partition("UPDATE OF ")[2].partition(" ON ")[0].split(", ")
    assert columns_used(statement, SQLITE_TRIGGERS[name]) <= set(watched)


def test_every_trigger_of_sqlite_on_updates_is_checked():
    names = {f"{sqlite.PREFIX}{name}_{time}" for name in SQLITE_TRIGGERS for time in ("before", "after")}
    assert names == {name for name, sql in sqlite.trigger_statements().items() if "UPDATE OF" in sql}
