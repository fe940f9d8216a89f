"""Examples for the OpenAPI page: requests as they can be sent to the built-in models, by route and by name."""

from typing import Any

DESCRIBER, ENCODER = "stoa-describer", "stoa-encoder"

_CHAT: dict[str, Any] = {
    "model": DESCRIBER,
    "messages": [
        {"role": "system", "content": "You write product descriptions for an online shop."},
        {
            "role": "user",
            "content": "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base",
        },
    ],
}
_TOOL_SCHEMA = {
    "type": "object",
    "properties": {"product": {"type": "string"}, "amount": {"type": "integer", "minimum": 1}},
    "required": ["product", "amount"],
    "additionalProperties": False,
}
_PROMPT = {"model": DESCRIBER, "prompt": "The kettle is made of"}

# Path, where several methods share it with the method before it, to the name of an example to the body.
REQUESTS: dict[str, dict[str, dict[str, Any]]] = {
    "/auth/login": {"E-mail and password": {"username": "admin@example.com", "password": "a lamp for every room"}},
    "/models/{model_id}/load": {
        "With defaults": {},
        "In a quarter of the memory": {"context_size": 512, "quantization": "int8"},
    },
    "/models/{model_id}/unload": {"When it is idle": {}, "At once": {"force": True}},
    "/inference": {
        "A prompt": _PROMPT | {"max_tokens": 12, "seed": 7},
        "Two texts": _PROMPT | {"max_tokens": 12, "temperature": 1.2, "n": 2, "stop": ["."]},
        "Of a form": _PROMPT | {"regex": " (oak|brass|brushed steel)\\."},
        "With log probabilities": _PROMPT | {"max_tokens": 4, "temperature": 0, "logprobs": True, "top_logprobs": 2},
    },
    "/inference/stream": {"A prompt": _PROMPT | {"max_tokens": 12, "seed": 7}},
    "/embeddings": {
        "Texts": {"model": ENCODER, "input": ["a brass lamp", "a quiet kettle"]},
        "Small on the wire": {"model": ENCODER, "input": "a brass lamp", "encoding_format": "base64"},
    },
    "/metrics/custom": {
        "How many there are": {"name": "carts_open", "value": 12, "type": "gauge", "labels": {"shop": "north"}},
        "One more": {"name": "carts_paid_total", "value": 1, "type": "counter"},
    },
    "/tokenize": {"A prompt": {"model": DESCRIBER, "prompt": "A lamp for every room"}},
    "/detokenize": {"Tokens": {"model": DESCRIBER, "tokens": [37, 1159, 298, 466, 752]}},
    "POST /batch": {
        "Two requests": {
            "model": DESCRIBER,
            "requests": [
                {"id": "kettle", "prompt": "The kettle is made of"},
                {"id": "lamp", "prompt": "The lamp is made of", "max_tokens": 20, "seed": 7},
            ],
            "max_tokens": 12,
        }
    },
    "POST /webhooks": {
        "An address": {"url": "https://hooks.example.com/stoa"},
        "Off for now": {"url": "https://hooks.example.com/later", "events": ["batch.complete"], "enabled": False},
    },
    "PATCH /webhooks/{webhook_id}": {
        "Another address": {"url": "https://hooks.example.com/new"},
        "Off for now": {"enabled": False},
    },
    "/v1/chat/completions": {
        "A chat": _CHAT | {"temperature": 0.2, "seed": 7, "max_tokens": 40},
        "As chunks": _CHAT | {"max_tokens": 40, "stream": True, "stream_options": {"include_usage": True}},
        "JSON of a schema": _CHAT
        | {"response_format": {"type": "json_schema", "json_schema": {"name": "order", "schema": _TOOL_SCHEMA}}}
        | {"max_tokens": 60},
        "With a tool": _CHAT
        | {"tools": [{"type": "function", "function": {"name": "order", "parameters": _TOOL_SCHEMA}}]}
        | {"tool_choice": "auto", "max_tokens": 60},
    },
    "/v1/completions": {
        "A prompt": _PROMPT | {"seed": 7},
        "Several prompts": {"model": DESCRIBER, "prompt": ["The kettle is", "A lamp"], "max_tokens": 8, "n": 2},
        "Token ids": {"model": DESCRIBER, "prompt": [37, 1159, 298, 466, 752], "max_tokens": 8},
        "A prompt's own probabilities": _PROMPT | {"echo": True, "logprobs": 1, "max_tokens": 1},
    },
    "POST /v1/batches": {
        "A file": {
            "input_file_id": "file-5b8d1f0c9a7e4d2b8c3f6a10",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"for": "spring catalogue"},
        },
    },
    "/v1/embeddings": {
        "Texts": {"model": ENCODER, "input": ["a brass lamp", "a quiet kettle"]},
        "Fewer dimensions": {"model": ENCODER, "input": "a brass lamp", "dimensions": 64, "encoding_format": "float"},
    },
}

_USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 5,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 0},
}
_BATCH: dict[str, Any] = {
    "batch_id": "batch_0d6d4a4f2b1f5c6e7a8b9c0d",
    "status": "completed",
    "completed": 2,
    "failed": 0,
    "total": 2,
    "results_url": "/batch/batch_0d6d4a4f2b1f5c6e7a8b9c0d/results",
    "model": DESCRIBER,
    "created": 1795276179,
    "expires": 1795362579,
    "ended": 1795276180,
    "usage": {"prompt_tokens": 10, "completion_tokens": 17, "total_tokens": 27},
}

_FILE = {
    "id": "file-5b8d1f0c9a7e4d2b8c3f6a10",
    "object": "file",
    "bytes": 4096,
    "created_at": 1795276179,
    "expires_at": 1795880979,
    "filename": "requests.jsonl",
    "purpose": "batch",
    "status": "processed",
}

_WEBHOOK: dict[str, Any] = {
    "id": "wh_1f0c2a53d9c64ab2f84e1d07",
    "url": "https://hooks.example.com/stoa",
    "events": ["batch.complete"],
    "enabled": True,
    "disabled_by": None,
    "previous_secret_until": None,
    "created_at": "2026-11-21T18:00:00Z",
    "updated_at": "2026-11-21T18:00:00Z",
}
_ISSUED = _WEBHOOK | {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="}
_DELIVERY: dict[str, Any] = {
    "id": "msg_6a2f7c1d9e4b83505f1ce2d7",
    "event": "batch.complete",
    "url": "https://hooks.example.com/stoa",
    "state": "delivered",
    "attempt_count": 1,
    "next_attempt_at": None,
    "created_at": "2026-11-21T18:05:00Z",
    "finished_at": "2026-11-21T18:05:00.210Z",
}
_ATTEMPT = {
    "number": 1,
    "started_at": "2026-11-21T18:05:00.050Z",
    "duration_ms": 160,
    "status": 200,
    "failure": None,
}
_ANNOUNCED = {
    "type": "batch.complete",
    "event": "batch.complete",
    "timestamp": "2026-11-21T18:05:00.000Z",
    "data": {"batch_id": "batch_5f1ce2d76a2f7c1d9e4b8350", "status": "completed", "total": 3},
}

_OPENAI_BATCH = {
    "id": "batch_7d0f6c1e5a9b4832f1e0d9c8",
    "object": "batch",
    "endpoint": "/v1/chat/completions",
    "model": DESCRIBER,
    "errors": None,
    "input_file_id": _FILE["id"],
    "completion_window": "24h",
    "status": "in_progress",
    "output_file_id": None,
    "error_file_id": None,
    "created_at": 1795276200,
    "in_progress_at": 1795276200,
    "expires_at": 1795362600,
    "finalizing_at": None,
    "completed_at": None,
    "failed_at": None,
    "expired_at": None,
    "cancelling_at": None,
    "cancelled_at": None,
    "request_counts": {"total": 20, "completed": 4, "failed": 0},
    "metadata": {"for": "spring catalogue"},
}

_USED = {
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


# Path, likewise, to what it answers to the first of these.
ANSWERS: dict[str, dict[str, Any]] = {
    "/health": {"status": "healthy", "version": "0.1.0", "uptime_seconds": 210, "models_loaded": 2},
    "/models/{model_id}/unload": {"status": "unloaded", "model_id": DESCRIBER},
    "/inference": {
        "id": "inf_2f5089174548597c71e02802",
        "model": DESCRIBER,
        "choices": [{"text": " brushed steel.", "index": 0, "finish_reason": "stop"}],
        "usage": _USAGE,
        "created": 1795276179,
        "processing_time_ms": 17,
    },
    "/embeddings": {
        "model": ENCODER,
        "data": [
            {"embedding": [0.0122, 0.0339, -0.1152], "index": 0},
            {"embedding": [0.0417, -0.0206, 0.0911], "index": 1},
        ],
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    },
    "/tokenize": {"tokens": [37, 1159, 298, 466, 752], "count": 5},
    "/detokenize": {"prompt": "A lamp for every room"},
    "POST /batch": {
        "batch_id": _BATCH["batch_id"],
        "status": "processing",
        "total_requests": 2,
        "created": _BATCH["created"],
    },
    "GET /batch": {"batches": [_BATCH], "next": None},
    "/batch/{batch_id}": _BATCH,
    "/batch/{batch_id}/cancel": _BATCH,
    "/batch/{batch_id}/results": {
        "batch_id": _BATCH["batch_id"],
        "status": "completed",
        "model": DESCRIBER,
        "total": 2,
        "completed": 2,
        "failed": 0,
        "results": [
            {
                "id": "kettle",
                "index": 0,
                "status": "completed",
                "choices": [{"text": " brushed steel.", "index": 0, "finish_reason": "stop"}],
                "usage": _USAGE,
                "error": None,
                "processing_time_ms": 24,
            }
        ],
        "next": None,
    },
    "GET /webhooks": {"webhooks": [_WEBHOOK]},
    "POST /webhooks": _ISSUED,
    "GET /webhooks/{webhook_id}": _WEBHOOK,
    "PATCH /webhooks/{webhook_id}": _WEBHOOK | {"url": "https://hooks.example.com/new"},
    "DELETE /webhooks/{webhook_id}": {"id": _WEBHOOK["id"], "deleted": True},
    "/webhooks/{webhook_id}/rotate": _ISSUED | {"previous_secret_until": "2026-11-22T18:00:00Z"},
    "/webhooks/{webhook_id}/deliveries": {"deliveries": [_DELIVERY], "next": None},
    "/webhooks/{webhook_id}/deliveries/{delivery_id}": _DELIVERY | {"body": _ANNOUNCED, "attempts": [_ATTEMPT]},
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": _DELIVERY
    | {"state": "pending", "next_attempt_at": "2026-11-21T18:07:00Z", "finished_at": None},
    "/metrics/custom": {
        "status": "ok",
        "name": "carts_open",
        "type": "gauge",
        "value": 12.0,
        "labels": {"shop": "north"},
    },
    "/traces": {
        "traces": [
            {
                "trace_id": "trace_0af7651916cd43dd8448eb211c80319c",
                "span_id": "b7ad6b7169203331",
                "operation_name": f"inference.{DESCRIBER}",
                "start_time": "2026-11-21T18:05:00.412803Z",
                "duration_ms": 310,
                "status": "ok",
                "parent_span_id": "00f067aa0ba902b7",
                "request_id": "req_5b8d1f0c9a7e4d2b8c3f6a10",
                "user": 1,
                "attributes": {"gen_ai.request.model": DESCRIBER, "gen_ai.usage.output_tokens": 24},
            }
        ]
    },
    "/usage": {
        "from": "2026-10-23",
        "to": "2026-11-21",
        "group_by": "day",
        "data": [_USED | {"day": "2026-11-20"}, _USED | {"day": "2026-11-21"}],
        "total": {name: 2 * count for name, count in _USED.items()},
        "limits": [_limits("key", 600, 200_000, 16), _limits("user", 1200, 400_000, 32)],
    },
    "/v1/chat/completions": {
        "id": "chatcmpl-a522548d6a61ca775954345a",
        "object": "chat.completion",
        "created": 1795276179,
        "model": DESCRIBER,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "The Quellmar Kettle is a quiet kettle for afternoon tea. It brings you a copper base.",
                    "refusal": None,
                },
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": _USAGE | {"prompt_tokens": 35, "completion_tokens": 24, "total_tokens": 59},
    },
    "/v1/completions": {
        "id": "cmpl-55ccc0c717ef785f4efab42d",
        "object": "text_completion",
        "created": 1795276180,
        "model": DESCRIBER,
        "choices": [{"text": " brushed steel.", "index": 0, "logprobs": None, "finish_reason": "stop"}],
        "usage": _USAGE,
    },
    "/v1/embeddings": {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.0122, 0.0339, -0.1152]}],
        "model": ENCODER,
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    },
    "GET /v1/files": {
        "object": "list",
        "data": [_FILE],
        "first_id": _FILE["id"],
        "last_id": _FILE["id"],
        "has_more": False,
    },
    "POST /v1/files": _FILE,
    "GET /v1/files/{file_id}": _FILE,
    "GET /v1/batches": {
        "object": "list",
        "data": [_OPENAI_BATCH],
        "first_id": _OPENAI_BATCH["id"],
        "last_id": _OPENAI_BATCH["id"],
        "has_more": False,
    },
    "POST /v1/batches": _OPENAI_BATCH,
    "/v1/batches/{batch_id}": _OPENAI_BATCH,
    "/v1/batches/{batch_id}/cancel": _OPENAI_BATCH
    | {"status": "cancelling", "cancelling_at": 1795276260, "finalizing_at": None},
    "DELETE /v1/files/{file_id}": {"id": _FILE["id"], "object": "file", "deleted": True},
    "/v1/models": {
        "object": "list",
        "data": [{"id": DESCRIBER, "object": "model", "created": 1795275625, "owned_by": "stoa"}],
    },
    "/v1/models/{model_id}": {"id": DESCRIBER, "object": "model", "created": 1795275625, "owned_by": "stoa"},
}
