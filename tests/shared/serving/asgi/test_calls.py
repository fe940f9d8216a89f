"""Measurement of what the calls of requests compute, in their threads and in PostgreSQL."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from shared.accounts.models import User
from shared.serving.asgi.calls import Call

pytestmark = [pytest.mark.django_db, pytest.mark.each_database]


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite computes in the thread itself.")
@pytest.mark.parametrize(
    ("sql", "counts"),
    [
        ("SELECT pg_sleep(0.2)", True),
        ("WITH slept AS (SELECT pg_sleep(0.2)) SELECT * FROM slept", True),
        ("SELECT pg_sleep(0.01)", False),
        ("SELECT pg_sleep(0.2) FROM accounts_user FOR UPDATE", False),
        ("DELETE FROM accounts_user WHERE pg_sleep(0.2) IS NULL", False),
    ],
)
def test_long_queries_that_lock_nothing_count_as_computed(sql: str, counts: bool) -> None:
    User.objects.create(email="one@example.com")
    call, seen = Call(), []

    def view() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    with ThreadPoolExecutor(1) as observer:
        looked = observer.submit(lambda: (time.sleep(0.15), seen.append(call.computed_seconds)))
        call.run(view)
        looked.result()
    assert (call.computed_seconds > 0.1, seen[0] > 0.05) == (counts, counts)
    assert not counts or call.is_long
