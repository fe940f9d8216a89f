"""A story for each alert: the series that make it fire, and the labels and the summary that it then has."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Story:
    """Samples by series, one a minute from minute 0 on. The alert is quiet at `quiet` and fires at `fires`."""

    series: dict[str, str]
    quiet: str
    fires: str
    labels: dict[str, str]
    summary: str

    def as_promtool_test(self, alert: str, rule: dict[str, Any]) -> dict[str, Any]:
        annotations = rule["annotations"] | {"summary": self.summary}
        fired = {"exp_labels": self.labels | rule["labels"], "exp_annotations": annotations}
        return {
            "name": alert,
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "alert_rule_test": [
                {"eval_time": self.quiet, "alertname": alert},
                {"eval_time": self.fires, "alertname": alert, "exp_alerts": [fired]},
            ],
        }


WRITER = {"model": "writer"}
STORIES = {
    "StoaDoesNotAnswer": Story(
        {'up{job="stoa",service="commerce",instance="a"}': "1x5 0x10"},
        "6m",
        "10m",
        {"job": "stoa", "service": "commerce", "instance": "a"},
        "commerce on a does not answer.",
    ),
    "StoaFails": Story(
        {'stoa_http_requests_total{service="commerce",status="500"}': "0x5 1+1x20"},
        "8m",
        "20m",
        {"service": "commerce"},
        "commerce answers requests with 500.",
    ),
    "StoaTurnsAway": Story(
        {
            'stoa_http_requests_total{service="inference",status="200"}': "0+90x30",
            'stoa_http_requests_total{service="inference",status="503"}': "0+10x30",
        },
        "9m",
        "25m",
        {"service": "inference"},
        "inference answers 10% of requests with 503.",
    ),
    "ShopIsSlow": Story(
        {
            'stoa_http_request_duration_seconds_bucket{service="commerce",le="2.5"}': "0+10x40",
            'stoa_http_request_duration_seconds_bucket{service="commerce",le="5"}': "0+20x40",
            'stoa_http_request_duration_seconds_bucket{service="commerce",le="+Inf"}': "0+20x40",
        },
        "14m",
        "30m",
        {},
        "One of a hundred requests to the shop takes longer than 4.95s.",
    ),
    "SocketsRunOut": Story(
        {'stoa_websocket_connections{instance="a"}': "100x5 1900x15"},
        "8m",
        "15m",
        {"instance": "a"},
        "1900 WebSockets are open on a; a web process takes STOA_MAX_WEBSOCKETS (2,000).",
    ),
    "ModelHostIsAway": Story(
        {'stoa_model_host_up{instance="a"}': "1x3 0x10"},
        "4m",
        "10m",
        {"instance": "a"},
        "The model host of a does not answer: nobody reaches the models of that machine.",
    ),
    "ModelIsNotLoaded": Story(
        {'stoa_model_loaded{instance="a",model="writer"}': "1x3 0x30"},
        "10m",
        "20m",
        {"instance": "a", "model": "writer"},
        "writer is not loaded on a, whose model host knows it.",
    ),
    "ReplicaIsNotLoaded": Story(
        {
            'stoa_model_replica_up{instance="a",model="writer",replica="0"}': "1x40",
            'stoa_model_replica_up{instance="a",model="writer",replica="1"}': "1x10 0x4 1x1 0x30",  # starts in vain
        },
        "22m",
        "32m",
        {"instance": "a", "model": "writer", "replica": "1"},
        "Replica 1 of writer on a is not loaded; the others do its work.",
    ),
    "ModelLoadsFail": Story(
        {'stoa_model_loads_total{model="writer",outcome="failed"}': "0x10 1x5 2x5 4x40"},
        "15m",
        "25m",
        WRITER,
        "Loads of writer fail.",
    ),
    "GenerationsFail": Story(
        {
            'stoa_request_success_total{model="writer",finished_reason="stop"}': "0+9x40",
            'stoa_request_success_total{model="writer",finished_reason="error"}': "0+1x40",
        },
        "9m",
        "30m",
        WRITER,
        "10% of the generations of writer fail.",
    ),
    "PoolMemberFails": Story(
        {'stoa_pool_member_up{model="writer",member="gpu-1"}': "1x5 0x20"},
        "12m",
        "20m",
        WRITER | {"member": "gpu-1"},
        "The member gpu-1 of the pool of writer fails.",
    ),
    "FirstTokensAreLate": Story(
        {
            'stoa_time_to_first_token_seconds_bucket{model="writer",le="10"}': "0+10x40",
            'stoa_time_to_first_token_seconds_bucket{model="writer",le="20"}': "0+20x40",
            'stoa_time_to_first_token_seconds_bucket{model="writer",le="+Inf"}': "0+20x40",
        },
        "14m",
        "30m",
        WRITER,
        "One of twenty waits 19s for the first token of writer.",
    ),
    "QueueGrows": Story(
        {
            'stoa_num_requests_waiting{instance="a",model="writer"}': "0x5 40x20",
            'stoa_num_requests_waiting{instance="b",model="writer"}': "0x5 40x20",
        },
        "14m",
        "20m",
        WRITER,
        "80 texts wait for writer; at 256 a machine turns away more.",
    ),
    "CacheIsFull": Story(
        {'stoa_kv_cache_usage_perc{instance="a",model="writer"}': "0.5x5 0.98x30"},
        "19m",
        "25m",
        {"instance": "a", "model": "writer"},
        "The cache of writer on a is full: running texts make room for each other.",
    ),
    "BatchesStandStill": Story(
        {'stoa_batch_requests_open{instance="a"}': "40x75", "stoa_batch_results_total": "0+1x14 14x60"},
        "20m",
        "50m",
        {},
        "40 requests of batches are open, and none was answered for a quarter of an hour.",
    ),
    "BatchesAreLate": Story(
        {"stoa_batch_oldest_age_seconds": "71400+60x40"},
        "15m",
        "25m",
        {},
        "A batch is 20h 15m 0s old; after 24 hours it expires.",
    ),
    "WebhooksAreLate": Story(
        {"stoa_webhook_lag_seconds": "0+60x40"}, "15m", "25m", {}, "A webhook should have been sent 25m 0s ago."
    ),
    "ReportsWait": Story(
        {"stoa_moderation_oldest_age_seconds": "172800+60x90"},
        "60m",
        "80m",
        {},
        "A report has waited for a moderator for 2d 1h 20m 0s.",
    ),
    "FiguresAreLate": Story(
        {"stoa_analytics_lag_seconds": "0+60x60"},
        "20m",
        "30m",
        {},
        "What the shop wrote 30m 0s ago is not in its analytics.",
    ),
    "DescriptionsFail": Story(
        {
            'stoa_provider_calls_total{outcome="answered"}': "0+3x60",
            'stoa_provider_calls_total{outcome="failed"}': "0+1x60",
        },
        "14m",
        "40m",
        {},
        "25% of the descriptions that the shop asks for fail.",
    ),
    "ConnectionsRunOut": Story(
        {
            'stoa_database_connections{instance="a"}': "10x5 90x20",
            'stoa_database_connections_max{instance="a"}': "100x30",
        },
        "14m",
        "20m",
        {},
        "90% of PostgreSQL's connections are taken.",
    ),
    "LimitsAreCountedApart": Story(
        {'stoa_limit_store_failures_total{service="inference"}': "0x5 1+1x20"},
        "8m",
        "20m",
        {"service": "inference"},
        "inference cannot reach Redis: each process counts limits for itself, and sign-ins are 503.",
    ),
}
