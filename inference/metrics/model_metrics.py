"""Metrics of the models that run on this machine, read from their processes. An ended process reports none."""

import asyncio
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from inference.engine import QUEUE_TIME_BUCKETS_SECONDS, EngineError, EngineStats, ModelState, ModelStatus
from inference.local.clients import engine, host

ENGINE_TIMEOUT_SECONDS = 2.0

ModelStats = list[tuple[str, EngineStats]]


async def read_model_metrics() -> list[Metric]:
    """Return the metrics of this machine's models; without a model host, only that it is down."""
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT_SECONDS):
            statuses = await host().models()
    except (EngineError, TimeoutError):
        return [_host_metric(is_up=False)]
    loaded = [status.model_id for status in statuses if status.state is ModelState.LOADED]
    answers = await asyncio.gather(*map(_stats, loaded))
    stats_by_model = [(model, stats) for model, stats in zip(loaded, answers, strict=True) if stats]
    return [
        _host_metric(is_up=True),
        *_status_metrics(statuses),
        *_gauges(stats_by_model),
        *_counters(stats_by_model),
        _queue_time(stats_by_model),
    ]


async def _stats(model_id: str) -> EngineStats | None:
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT_SECONDS):
            return await engine().stats(model_id)
    except (EngineError, TimeoutError):
        return None


def _host_metric(*, is_up: bool) -> Metric:
    return GaugeMetricFamily("stoa_model_host_up", "1 if this machine's model host answers, else 0.", is_up)


def _status_metrics(statuses: Iterable[ModelStatus]) -> list[Metric]:
    loaded = GaugeMetricFamily("stoa_model_loaded", "1 for a model that is loaded, else 0.", labels=["model"])
    memory = GaugeMetricFamily("stoa_model_resident_bytes", "Memory of a model's processes.", labels=["model"])
    replicas = GaugeMetricFamily(
        "stoa_model_replica_up",
        "1 for a replica that is loaded, else 0, of models with several.",
        labels=["model", "replica"],
    )
    for status in statuses:
        loaded.add_metric([status.model_id], status.state is ModelState.LOADED)
        if status.resident_bytes is not None:
            memory.add_metric([status.model_id], status.resident_bytes)
        for replica in status.replicas:
            replicas.add_metric([status.model_id, str(replica.number)], replica.state is ModelState.LOADED)
    return [loaded, memory, replicas]


def _gauges(stats_by_model: ModelStats) -> list[Metric]:
    running = _gauge("stoa_num_requests_running", "Sequences that have a slot.")
    waiting = _gauge("stoa_num_requests_waiting", "Sequences that wait for a slot.")
    usage = _gauge("stoa_kv_cache_usage_perc", "Used part of the KV cache, 0 to 1.")
    for model, stats in stats_by_model:
        running.add_metric([model], stats.running)
        waiting.add_metric([model], stats.waiting)
        usage.add_metric([model], stats.cache_tokens / stats.cache_capacity if stats.cache_capacity else 0.0)
    return [running, waiting, usage]


def _counters(stats_by_model: ModelStats) -> list[Metric]:
    queries = _counter("stoa_prefix_cache_queries_total", "Prompt tokens that were looked up in the prefix cache.")
    hits = _counter("stoa_prefix_cache_hits_total", "Prompt tokens that were found in the prefix cache.")
    preemptions = _counter("stoa_num_preemptions_total", "Preemptions of running sequences.")
    for model, stats in stats_by_model:
        queries.add_metric([model], stats.prefix_cache_queries)
        hits.add_metric([model], stats.prefix_cache_hits)
        preemptions.add_metric([model], stats.preemptions)
    return [queries, hits, preemptions]


def _queue_time(stats_by_model: ModelStats) -> Metric:
    waits = HistogramMetricFamily(
        "stoa_request_queue_time_seconds", "Time from the request to its slot.", labels=["model"]
    )
    bounds = [*map(str, QUEUE_TIME_BUCKETS_SECONDS), "+Inf"]
    for model, stats in stats_by_model:
        if stats.queue_counts:
            counted = zip(bounds, accumulate(stats.queue_counts), strict=True)
            waits.add_metric([model], [*counted], stats.queue_seconds)
    return waits


def _gauge(name: str, help: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help, labels=["model"])


def _counter(name: str, help: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, help, labels=["model"])
