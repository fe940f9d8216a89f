"""Metrics of the members of pools, as this process finds them. A scrape also has them checked."""

from prometheus_client.core import GaugeMetricFamily, Metric

from inference.pools.cache import read_pools
from inference.pools.client import pool_client
from shared.serving.db_threads import run_in_db_thread


async def read_pool_metrics() -> list[Metric]:
    """Return whether each member works that is not draining. It waits for no member."""
    pools = await run_in_db_thread(read_pools)
    up = GaugeMetricFamily("stoa_pool_member_up", "1 if a member of a pool works, else 0.", labels=["model", "member"])
    for member in (member for pool in pools.values() for member in pool.members if not member.is_draining):
        up.add_metric([*member.key], pool_client().is_up(member))
    return [up]
