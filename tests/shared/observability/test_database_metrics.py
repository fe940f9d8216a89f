"""Metrics of the database."""

import pytest
from django.db import connection

from shared.observability.database_metrics import database_metric_families


@pytest.mark.django_db
def test_postgresql_reports_its_connections_and_their_maximum() -> None:
    told = {family.name: family.samples[0].value for family in database_metric_families()}

    if connection.vendor == "sqlite":
        assert told == {}
    else:
        assert 1 <= told["stoa_database_connections"] <= told["stoa_database_connections_max"]
