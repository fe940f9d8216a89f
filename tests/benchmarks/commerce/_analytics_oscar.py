"""The dashboard of django-oscar over the orders of the benchmark's shop, copied into its own tables. Prints JSON.

Run by `analytics` in a process of its own, with the shop's DATABASE_URL set. Its tables are in a schema beside the
shop's, or on SQLite in a file of their own.
"""

import json
import os
import statistics
import sys
import time
from types import SimpleNamespace
from typing import Any

import django
import oscar
from django.conf import settings
from oscar.defaults import *  # noqa: F403 - oscar's own settings, as its manual has them

from shared.environment import database

SCHEMA = "oscar"


def configure() -> str:
    """Configure Django for oscar; return the schema of the shop's tables."""
    shop: dict[str, Any] = database(os.environ["DATABASE_URL"])
    is_sqlite = shop["ENGINE"].endswith("sqlite3")
    its_own = {"NAME": f"{shop['NAME']}.{SCHEMA}"} if is_sqlite else {}
    if not is_sqlite:
        its_own["OPTIONS"] = shop.get("OPTIONS", {}) | {"options": f"-c search_path={SCHEMA}"}
    oscars = {name: value for name, value in globals().items() if name.startswith("OSCAR_")}
    settings.configure(
        **oscars,
        SECRET_KEY="-",
        SITE_ID=1,
        USE_TZ=True,
        INSTALLED_APPS=oscar.INSTALLED_APPS,
        DATABASES={"default": shop | its_own},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        HAYSTACK_CONNECTIONS={"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}},
        ROOT_URLCONF="oscar.config",
    )
    django.setup()
    from django.db import connection

    with connection.cursor() as cursor:
        if is_sqlite:
            cursor.execute(f"ATTACH DATABASE '{shop['NAME']}' AS shop")
            return "shop"
        cursor.execute(f"CREATE SCHEMA {SCHEMA}")
        return "public"


def copy(model: Any, source: str, columns: dict[str, str]) -> None:
    """Fill the model's table from SQL expressions over `source`; the other columns get oscar's defaults."""
    from django.db import connection

    others = [field for field in model._meta.concrete_fields if field.column not in columns]
    values = [field.get_db_prep_save(initial_value(field), connection) for field in others]
    names = ", ".join(connection.ops.quote_name(name) for name in [*columns, *(field.column for field in others)])
    chosen = ", ".join([*columns.values(), *("%s" for _ in others)])
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} ({names}) SELECT {chosen} FROM {source}", values)  # noqa: S608


def initial_value(field: Any) -> Any:
    if field.has_default() or field.null:
        return field.get_default()
    return "" if field.get_internal_type() in ("CharField", "TextField") else 0


def copy_all(shop: str) -> None:
    from django.contrib.auth import get_user_model
    from oscar.core.loading import get_model

    orders = f"{shop}.commerce_orders_order"
    copy(get_user_model(), f"{shop}.accounts_user", {"id": "id", "username": "'u' || id", "date_joined": "created_at"})
    euros = {
        f"{name}_{tax}_tax": f"{value} / 100.0"
        for name, value in (("total", "total"), ("shipping", "delivery_fee"))
        for tax in ("incl", "excl")
    }
    copy(
        get_model("order", "Order"),
        f"{orders} WHERE parent_id IS NULL",
        euros
        | {
            "id": "id",
            "number": "'n' || id",
            "currency": "currency",
            "date_placed": "created_at",
            "status": "order_status",
            "user_id": "customer_id",
        },
    )
    copy(
        get_model("order", "Line"),
        f"{shop}.commerce_orders_orderline line JOIN {orders} part ON part.id = line.order_id",
        {
            "id": "line.id",
            "order_id": "part.parent_id",
            "quantity": "line.quantity",
            "line_price_incl_tax": "line.subtotal / 100.0",
            "status": "part.order_status",
        },
    )


def dashboard() -> None:
    """Read the data of the dashboard's first page, as staff."""
    from oscar.core.loading import get_class

    view = get_class("dashboard.views", "IndexView")()
    view.request = SimpleNamespace(user=SimpleNamespace(is_staff=True))
    for figures in view.get_stats().values():
        if hasattr(figures, "model"):
            list(figures)


def main() -> None:
    shop = configure()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    copy_all(shop)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE" if connection.vendor == "sqlite" else "VACUUM ANALYZE")
    durations = []
    for _ in range(int(sys.argv[1])):
        began = time.perf_counter()
        dashboard()
        durations.append((time.perf_counter() - began) * 1000)
    json.dump({"p50": statistics.median(durations)}, sys.stdout)


if __name__ == "__main__":
    main()
