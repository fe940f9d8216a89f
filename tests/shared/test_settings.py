"""Database settings."""

import pytest
from django.db import connection


@pytest.mark.django_db
def test_a_connection_to_a_failed_machine_times_out_in_seconds() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite is on this machine.")
    connection.ensure_connection()
    told = connection.connection.info.get_parameters()
    assert int(told["tcp_user_timeout"]) <= 10_000
    assert int(told["keepalives_idle"]) + int(told["keepalives_interval"]) * int(told["keepalives_count"]) <= 30
    assert int(told["connect_timeout"]) <= 5
