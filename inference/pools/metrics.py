"""Metrics of pools by member. Operators name members, so there are few."""

from shared.observability.metrics import Counter, Gauge, Histogram

COMPLETED, FAILED, REJECTED, CANCELLED = "completed", "failed", "rejected", "cancelled"

REQUESTS = Counter(
    "stoa_pool_requests_total",
    "Requests to members of pools by outcome: completed, rejected, cancelled or failed.",
    "model",
    "member",
    "outcome",
)
FAILOVERS = Counter(
    "stoa_pool_failovers_total", "Requests to members after another member failed them.", "model", "member"
)
FIRST_TOKEN = Histogram(
    "stoa_pool_time_to_first_token_seconds",
    "Time from a request to a member of a pool until the first token of its stream.",
    "model",
    "member",
)
IN_FLIGHT = Gauge("stoa_pool_requests_in_flight", "Requests that members of pools are answering.", "model", "member")
PROMPT_TOKENS = Counter("stoa_pool_prompt_tokens_total", "Tokens of prompts that members report.", "model", "member")
CACHED_TOKENS = Counter(
    "stoa_pool_prompt_tokens_cached_total",
    "Tokens of prompts that members report to have had in their prefix caches.",
    "model",
    "member",
)
