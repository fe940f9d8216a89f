"""Metrics of the database. All servers of one database report the same numbers: take the maximum, not the sum."""

from django.db import connection
from prometheus_client.core import GaugeMetricFamily, Metric

_CONNECTIONS = """
SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity WHERE datname = current_database()
"""


def database_metric_families() -> list[Metric]:
    """Return the numbers of connections on PostgreSQL, and nothing on SQLite. Raise DatabaseError."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(_CONNECTIONS)
        count, maximum = cursor.fetchone()
    return [
        GaugeMetricFamily("stoa_database_connections", "Connections to this database on PostgreSQL.", count),
        GaugeMetricFamily(
            "stoa_database_connections_max", "Maximum number of connections of its server, for all databases.", maximum
        ),
    ]
