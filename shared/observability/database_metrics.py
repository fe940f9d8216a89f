"""What the database tells of itself. Every server of one database tells the same: take the greatest, not the sum."""

from django.db import connection
from prometheus_client.core import GaugeMetricFamily, Metric

_CONNECTIONS = """
SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity WHERE datname = current_database()
"""


def database_metric_families() -> list[Metric]:
    """Raises DatabaseError. SQLite has no connections to tell of."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(_CONNECTIONS)
        now, most = cursor.fetchone()
    return [
        GaugeMetricFamily("stoa_database_connections", "Connections to our database on PostgreSQL.", now),
        GaugeMetricFamily("stoa_database_connections_max", "How many its server takes, of all databases.", most),
    ]
