"""Metrics of the models that run on this machine, read from their processes. An ended process reports none."""

import asyncio
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from inference.engine import QUEUE_TIME_BUCKETS_SECONDS, EngineError, EngineStats, ModelState, ModelStatus
from inference.registry.clients import engine, host

ENGINE_TIMEOUT_SECONDS = 2.0

Told = list[tuple[str, EngineStats]]


async def read_model_metrics() -> list[Metric]:
    """Without a model host there is nothing to tell but that."""
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT_SECONDS):
            statuses = await host().models()
    except (EngineError, TimeoutError):
        return [_of_host(answers=False)]
    loaded = [status.model_id for status in statuses if status.state is ModelState.LOADED]
    answers = await asyncio.gather(*map(_stats, loaded))
    told = [(model, stats) for model, stats in zip(loaded, answers, strict=True) if stats]
    return [_of_host(answers=True), *_of_models(statuses), *_now(told), *_since_the_start(told), _queue_time(told)]


async def _stats(model_id: str) -> EngineStats | None:
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT_SECONDS):
            return await engine().stats(model_id)
    except (EngineError, TimeoutError):
        return None


def _of_host(*, answers: bool) -> Metric:
    return GaugeMetricFamily("stoa_model_host_up", "1 where this machine's model host answers, else 0.", answers)


def _of_models(statuses: Iterable[ModelStatus]) -> list[Metric]:
    loaded = GaugeMetricFamily("stoa_model_loaded", "1 for a model that is loaded, else 0.", labels=["model"])
    memory = GaugeMetricFamily("stoa_model_resident_bytes", "Memory of a model's process.", labels=["model"])
    for status in statuses:
        loaded.add_metric([status.model_id], status.state is ModelState.LOADED)
        if status.resident_bytes is not None:
            memory.add_metric([status.model_id], status.resident_bytes)
    return [loaded, memory]


def _now(told: Told) -> list[Metric]:
    running = _gauge("stoa_num_requests_running", "Texts that are being generated.")
    waiting = _gauge("stoa_num_requests_waiting", "Texts that wait for a slot.")
    usage = _gauge("stoa_kv_cache_usage_perc", "The part of the cache that running requests fill: 1 is all of it.")
    for model, stats in told:
        running.add_metric([model], stats.running)
        waiting.add_metric([model], stats.waiting)
        usage.add_metric([model], stats.cache_tokens / stats.cache_capacity if stats.cache_capacity else 0.0)
    return [running, waiting, usage]


def _since_the_start(told: Told) -> list[Metric]:
    queries = _counter("stoa_prefix_cache_queries_total", "Prompt tokens that were looked for in the cache.")
    hits = _counter("stoa_prefix_cache_hits_total", "Prompt tokens that were found in the cache.")
    preemptions = _counter("stoa_num_preemptions_total", "How often a running text had to make room.")
    for model, stats in told:
        queries.add_metric([model], stats.prefix_cache_queries)
        hits.add_metric([model], stats.prefix_cache_hits)
        preemptions.add_metric([model], stats.preemptions)
    return [queries, hits, preemptions]


def _queue_time(told: Told) -> Metric:
    waits = HistogramMetricFamily("stoa_request_queue_time_seconds", "Waits for the first slot.", labels=["model"])
    bounds = [*map(str, QUEUE_TIME_BUCKETS_SECONDS), "+Inf"]
    for model, stats in told:
        if stats.queue_counts:
            counted = zip(bounds, accumulate(stats.queue_counts), strict=True)
            waits.add_metric([model], [*counted], stats.queue_seconds)
    return waits


def _gauge(name: str, help: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help, labels=["model"])


def _counter(name: str, help: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, help, labels=["model"])
