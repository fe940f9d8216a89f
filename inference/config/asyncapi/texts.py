"""Texts and examples of the AsyncAPI document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from inference.access.docs import TEXT_MODEL, token_usage_example
from inference.protocol.native.websocket import (
    AuthenticatedMessage,
    AuthMessage,
    CancelMessage,
    CompleteMessage,
    ErrorMessage,
    InferenceMessage,
    PingMessage,
    PongMessage,
    TokenMessage,
)
from shared.serving.server.websocket_protocol import MAX_MESSAGE_BYTES

INTRODUCTION = """\
Text generation over one WebSocket: any number of inferences, up to a limit at once, told apart by the ids that the
client gives them.

**Messages** are JSON objects with a `type`, in text messages. The first message is `auth`, within ten seconds; another
`auth` renews the credential before it expires.

**Inferences** take the parameters of `POST /inference`, or `messages` instead of `prompt`. They stream unless `stream`
is false. Each ends with `complete` or `error`. Closing the connection cancels all of them.

**Close codes**: 4401 the credential is missing, invalid or revoked; 1008 too many messages or requests; 1009 a message
is too large; 1012 the server restarts, connect again; 1013 too many connections, or messages are not read.
"""


@dataclass(frozen=True)
class MessageDocs:
    """Name of a message in the document, its texts and examples."""

    name: str
    title: str
    summary: str
    examples: Sequence[dict[str, Any]]


_ID = {"id": "description-1"}
_LOGPROB = {"token": " brass", "logprob": -0.31, "bytes": [32, 98, 114, 97, 115, 115]}
_LOGPROBS = {"content": [_LOGPROB | {"top_logprobs": [_LOGPROB]}]}
_PROMPT_INFERENCE = _ID | {
    "type": "inference",
    "model": TEXT_MODEL,
    "prompt": "The kettle is made of",
    "max_tokens": 12,
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "repeat_penalty": 1.1,
    "presence_penalty": 0.2,
    "frequency_penalty": 0.2,
    "logit_bias": {"17": -100},
    "seed": 7,
    "n": 1,
    "stop": ["."],
    "min_tokens": 1,
    "ignore_eos": False,
    "timeout": 60,
    "priority": 0,
    "stream": True,
}
_CHAT_INFERENCE = _ID | {
    "type": "inference",
    "model": TEXT_MODEL,
    "messages": [{"role": "user", "content": "Describe the Quellmar kettle. Keywords: quiet, copper base"}],
    "logprobs": True,
    "top_logprobs": 2,
    "stream": False,
}
MESSAGES: dict[type[msgspec.Struct], MessageDocs] = {
    AuthMessage: MessageDocs(
        "auth",
        "Authenticate",
        "Authenticates the connection, or renews its credential.",
        [{"type": "auth", "token": "stoa_2f7d0c4e9b"}],
    ),
    InferenceMessage: MessageDocs(
        "inference",
        "Start an inference",
        "Starts a generation from a prompt or from chat messages.",
        [_PROMPT_INFERENCE, _CHAT_INFERENCE],
    ),
    CancelMessage: MessageDocs(
        "cancel",
        "Cancel an inference",
        "Cancels a running inference, which ends with `complete`.",
        [{"type": "cancel"} | _ID],
    ),
    PingMessage: MessageDocs("ping", "Ping", "Asks for a `pong` with the same fields.", [{"type": "ping", "at": 17}]),
    AuthenticatedMessage: MessageDocs(
        "authenticated",
        "Authenticated",
        "Confirms the credential and names the limits.",
        [
            {
                "type": "auth",
                "status": "ok",
                "user": {"id": 1, "username": "ada@example.com", "role": "STAFF"},
                "limits": {
                    "inferences": 16,
                    "message_bytes": MAX_MESSAGE_BYTES,
                    "requests_per_minute": 600,
                    "tokens_per_minute": 100_000,
                    "concurrent_requests": 32,
                },
                "server_version": "1.0.0",
            }
        ],
    ),
    TokenMessage: MessageDocs(
        "token",
        "Token",
        "Carries one token of a streamed inference.",
        [{"type": "token", "token": " brass", "index": 0, "choice": 0, "logprobs": _LOGPROBS} | _ID],
    ),
    CompleteMessage: MessageDocs(
        "complete",
        "Completed",
        "Ends an inference, with its token usage.",
        [
            {
                "type": "complete",
                "model": TEXT_MODEL,
                "finish_reason": "stop",
                "usage": token_usage_example(5, 3),
                "processing_time_ms": 17,
                "text": " brushed brass.",
            }
            | _ID
        ],
    ),
    ErrorMessage: MessageDocs(
        "error",
        "Error",
        "Reports an error of an inference, of a message or of the connection.",
        [
            {
                "type": "error",
                "code": "MODEL_NOT_FOUND",
                "message": "There is no model with this id.",
                "request_id": "req_58b79b76126bd1fdc8b48ba1",
                "details": {"field": "model"},
            }
            | _ID
        ],
    ),
    PongMessage: MessageDocs("pong", "Pong", "Answers a `ping`.", [{"type": "pong", "at": 17}]),
}
# Of each operation: its client message, the server messages that answer it, and a description.
OPERATIONS = {
    "authenticate": (
        "auth",
        ("authenticated", "error"),
        "Sends an API key or an access token. After a wrong one the server sends an error and closes with 4401.",
    ),
    "startInference": (
        "inference",
        ("token", "complete", "error"),
        "Starts an inference. It needs the permission `run_inference`, and a `priority` above 0 needs `manage_models`.",
    ),
    "cancelInference": ("cancel", ("complete", "error"), "Cancels an inference, whose tokens so far are counted."),
    "ping": ("ping", ("pong",), "Tests the connection."),
}
