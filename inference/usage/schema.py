"""OpenAPI texts and examples of usage and limits."""

from typing import Any

from inference.access.docs import OperationDocs

_TOTALS = {
    "requests": 210,
    "prompt_tokens": 18_900,
    "cached_tokens": 12_400,
    "completion_tokens": 25_200,
    "total_tokens": 44_100,
}


def _limits(scope: str, requests: int, tokens: int, concurrent: int) -> dict[str, Any]:
    return {
        "scope": scope,
        "requests_per_minute": {"limit": requests, "remaining": requests - 7, "reset_after": 41},
        "tokens_per_minute": {"limit": tokens, "remaining": tokens - 1710, "reset_after": 38},
        "concurrent_requests": {"limit": concurrent, "remaining": concurrent - 1},
        "tokens_per_month": None,
    }


USAGE = OperationDocs(
    summary="Get your usage and limits",
    description="""
    Returns requests and tokens by day, by model or by key, with their totals, and what is left of each limit now.
    It needs the permission `run_inference`. A key with all permissions of its user reads the user's usage, and a
    key with single permissions reads its own. Usage of other users needs `manage_models`. It answers 400 if `from`
    is after `to`, for too long a period and for an unknown user.
    """,
    response_example={
        "from": "2026-10-23",
        "to": "2026-11-21",
        "group_by": "day",
        "data": [_TOTALS | {"day": "2026-11-20"}, _TOTALS | {"day": "2026-11-21"}],
        "total": {name: 2 * count for name, count in _TOTALS.items()},
        "limits": [_limits("key", 600, 200_000, 16), _limits("user", 1200, 400_000, 32)],
    },
)
