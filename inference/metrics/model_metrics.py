"""Metrics of the models that run on this machine, read from their processes. An ended process reports none.

Of a model with several replicas each process has its own series: a sum would fall when one of them ends, which
Prometheus takes for a restart of all.
"""

import asyncio
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from inference.engine import QUEUE_TIME_BUCKETS_SECONDS, EngineError, EngineStats, ModelState, ModelStatus
from inference.local.clients import engine, host

ENGINE_TIMEOUT_SECONDS = 2.0

LABELS = ["model", "replica"]  # a model with one process has no replica

ProcessStats = list[tuple[list[str], EngineStats]]  # with the values of the labels


async def read_model_metrics() -> list[Metric]:
    """Return the metrics of this machine's models; without a model host, only that it is down."""
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT_SECONDS):
            statuses = await host().models()
    except (EngineError, TimeoutError):
        return [_host_metric(is_up=False)]
    processes = [process for status in statuses for process in _loaded_processes(status)]
    answers = await asyncio.gather(*(_stats(model_id, replica) for model_id, replica in processes))
    process_stats = [(_labels(*process), stats) for process, stats in zip(processes, answers, strict=True) if stats]
    return [
        _host_metric(is_up=True),
        *_status_metrics(statuses),
        *_gauges(process_stats),
        *_counters(process_stats),
        _queue_time(process_stats),
    ]


def _loaded_processes(status: ModelStatus) -> list[tuple[str, int | None]]:
    """Return the model's id with the number of each replica that is loaded, or with None if it has only one."""
    if status.state is not ModelState.LOADED:
        return []
    if not status.replicas:
        return [(status.model_id, None)]
    return [(status.model_id, one.number) for one in status.replicas if one.state is ModelState.LOADED]


def _labels(model_id: str, replica: int | None) -> list[str]:
    return [model_id] if replica is None else [model_id, str(replica)]


async def _stats(model_id: str, replica: int | None) -> EngineStats | None:
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT_SECONDS):
            return await engine().stats(model_id, replica=replica)
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
        labels=LABELS,
    )
    for status in statuses:
        loaded.add_metric([status.model_id], status.state is ModelState.LOADED)
        if status.resident_bytes is not None:
            memory.add_metric([status.model_id], status.resident_bytes)
        for replica in status.replicas:
            replicas.add_metric([status.model_id, str(replica.number)], replica.state is ModelState.LOADED)
    return [loaded, memory, replicas]


def _gauges(process_stats: ProcessStats) -> list[Metric]:
    running = _gauge("stoa_num_requests_running", "Sequences that have a slot.")
    waiting = _gauge("stoa_num_requests_waiting", "Sequences that wait for a slot.")
    usage = _gauge("stoa_kv_cache_usage_perc", "Used part of the KV cache, 0 to 1.")
    for labels, stats in process_stats:
        running.add_metric(labels, stats.running)
        waiting.add_metric(labels, stats.waiting)
        usage.add_metric(labels, stats.cache_tokens / stats.cache_capacity if stats.cache_capacity else 0.0)
    return [running, waiting, usage]


def _counters(process_stats: ProcessStats) -> list[Metric]:
    queries = _counter("stoa_prefix_cache_queries_total", "Prompt tokens that were looked up in the prefix cache.")
    hits = _counter("stoa_prefix_cache_hits_total", "Prompt tokens that were found in the prefix cache.")
    preemptions = _counter("stoa_num_preemptions_total", "Preemptions of running sequences.")
    for labels, stats in process_stats:
        queries.add_metric(labels, stats.prefix_cache_queries)
        hits.add_metric(labels, stats.prefix_cache_hits)
        preemptions.add_metric(labels, stats.preemptions)
    return [queries, hits, preemptions]


def _queue_time(process_stats: ProcessStats) -> Metric:
    waits = HistogramMetricFamily(
        "stoa_request_queue_time_seconds", "Time from the request to its slot.", labels=LABELS
    )
    bounds = [*map(str, QUEUE_TIME_BUCKETS_SECONDS), "+Inf"]
    for labels, stats in process_stats:
        if stats.queue_counts:
            counted = zip(bounds, accumulate(stats.queue_counts), strict=True)
            waits.add_metric(labels, [*counted], stats.queue_seconds)
    return waits


def _gauge(name: str, help: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help, labels=LABELS)


def _counter(name: str, help: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, help, labels=LABELS)
