"""Texts of the OpenAPI document that operations share: the introduction, parameters, headers and errors."""

from typing import Any

INTRODUCTION = """\
REST API of a model server: text generation, embeddings, scores, tokens, batches, webhooks and models, as a native API
and as an OpenAI-compatible one under `/v1`. OpenAI's client libraries work with `/v1` as their base URL.

**Requests.** Paths have no trailing slash. Bodies are JSON in UTF-8 unless an operation says otherwise. Native
operations reject unknown fields, and so do operations under `/v1` that generate or embed. A body may be compressed,
with `Content-Encoding: gzip`. Times are ISO 8601 in UTC, or Unix seconds where a field says so.

**Authentication.** Send an API key or an access token as `Authorization: Bearer ...`, or an API key as `X-API-Key`.
`POST /auth/login` returns an access token. A key has all permissions of its user or only some of them; each operation
names the permission that it needs. Operations that list an empty security requirement need no credentials.

**Streams** are server-sent events: one `data:` line of JSON per event, and a comment line at least every 15 seconds.
WebSocket clients use `/ws`, which runs many inferences over one connection; `GET /asyncapi.json` describes it.

**Errors** of native operations are `{"error": {"code", "message", "details"}, "request_id", "timestamp"}`. Operations
under `/v1` answer OpenAI's `{"error": {"message", "type", "param", "code"}}` with the same `request_id` and
`timestamp`. Those under `/v2` answer Cohere's `{"id", "message"}` with them.

**Limits.** Each key and each user has limits of requests and tokens per minute and of concurrent requests; `GET
/usage` returns them. Responses carry `X-RateLimit-*` headers, and a 429 or 503 says in `Retry-After` when to try
again.

**Retries.** A POST that accepts an `Idempotency-Key` header is carried out once; sending it again within a day
returns the first response with `Idempotent-Replayed: true`. A stream with a key goes on when its client
disconnects: the same request with `Last-Event-ID` sends the rest of it.

**Versions.** Responses name the API's version in `API-Version`. A request may name the version that it expects in the
same header; another major version is rejected.
"""

SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token, or an API key, which begins with `stoa_`.",
    },
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."},
}
VERSION_HEADER: dict[str, Any] = {"description": "Version of the API.", "schema": {"type": "string", "example": "1.0"}}
RATE_LIMIT_HEADERS: dict[str, Any] = {
    name: {"description": description, "schema": {"type": "integer", "minimum": 0, "example": example}}
    for name, description, example in (
        ("X-RateLimit-Limit", "Number of requests per minute that the credential may send.", 600),
        ("X-RateLimit-Remaining", "Number of requests that may be sent now.", 593),
        ("X-RateLimit-Reset", "Unix time in seconds at which all requests may be sent again.", 1795276220),
        ("X-RateLimit-Reset-After", "Seconds until all requests may be sent again.", 41),
    )
}
PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    name: {
        "description": description,
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "example": example,
    }
    for name, description, example in (
        ("model_id", "Id of the model, as `GET /models` lists it.", "stoa-describer"),
        ("file_id", "Id of the file, as the upload returned it.", "file-5b8d1f0c9a7e4d2b8c3f6a10"),
        ("upload_id", "Id of the upload.", "upload_5b8d1f0c9a7e4d2b8c3f6a10"),
        ("response_id", "Id of the response, as its creation returned it.", "resp_8f1c2a53d9c64ab2f84e1d07"),
        ("conversation_id", "Id of the conversation, as its creation returned it.", "conv_2b7d90c1f3e84a65b0d1c9e7"),
        ("item_id", "Id of the item, as the list of items returned it.", "msg_4f0c8d2e7b6a4915a3c1d0e2"),
        ("batch_id", "Id of the batch, as its creation returned it.", "batch_0d6d4a4f2b1f5c6e7a8b9c0d"),
        ("webhook_id", "Id of the webhook, as `GET /webhooks` lists it.", "wh_1f0c2a53d9c64ab2f84e1d07"),
        ("delivery_id", "Id of the delivery, which is also its `webhook-id` header.", "msg_6a2f7c1d9e4b83505f1ce2d7"),
    )
}

COMMON_ERRORS = {
    "400": "The request is not valid; the message names the field and what is expected.",
    "500": "An internal error, or a failed generation.",
    "503": "The model or the service is temporarily unavailable. `Retry-After` says when to try again.",
}
AUTHENTICATED_ERRORS = {
    "401": "The credential is missing or not valid.",
    "403": "The user or key lacks the permission that this operation needs.",
}
SIGN_IN_ERRORS = {"401": "The e-mail address or the password is wrong."}
NOT_FOUND_ERRORS = {"404": "The object or the model does not exist, or belongs to another user."}
BODY_ERRORS = {"413": "The body is too large.", "415": "The body has an unsupported media type."}
IDEMPOTENCY_ERRORS = {"409": "A request with the same Idempotency-Key is still running, or the object has ended."}
RATE_LIMIT_ERRORS = {"429": "Too many requests or tokens. `Retry-After` says when to try again."}
