"""OpenAPI texts and examples of text generation."""

from typing import Any

from inference.access.docs import TEXT_MODEL, OperationDocs, token_usage_example
from inference.protocol.fields import SYSTEM_FINGERPRINT

_CHAT: dict[str, Any] = {
    "model": TEXT_MODEL,
    "messages": [
        {"role": "system", "content": "You write product descriptions for an online shop."},
        {
            "role": "user",
            "content": "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base",
        },
    ],
}
_PROMPT: dict[str, Any] = {"model": TEXT_MODEL, "prompt": "The kettle is made of"}
_ORDER_SCHEMA = {
    "type": "object",
    "properties": {"product": {"type": "string"}, "amount": {"type": "integer", "minimum": 1}},
    "required": ["product", "amount"],
    "additionalProperties": False,
}
_LIMITS_TEXT = """It needs the permission `run_inference`, and a `priority` above 0 needs `manage_models`. It
    answers 404 for an unknown model, 400 with the code `MODEL_NOT_LOADED` or `CONTEXT_LENGTH_EXCEEDED`, 429 over a
    limit and 503 while the model is busy or loading."""

INFERENCE = OperationDocs(
    summary="Generate text from a prompt",
    description=f"""
    Continues a raw prompt, without a chat template, and returns the whole text of each choice with its token usage.
    With `stream: true` the response is a stream of events, as from `POST /inference/stream`.

    {_LIMITS_TEXT}
    """,
    request_examples={
        "One text": _PROMPT | {"max_tokens": 12, "seed": 7},
        "Two texts": _PROMPT | {"max_tokens": 12, "temperature": 1.2, "n": 2, "stop": ["."]},
        "A regular expression": _PROMPT | {"regex": " (oak|brass|brushed steel)\\."},
        "Log probabilities": _PROMPT | {"max_tokens": 4, "temperature": 0, "logprobs": True, "top_logprobs": 2},
    },
    response_example={
        "id": "inf_2f5089174548597c71e02802",
        "model": TEXT_MODEL,
        "choices": [{"text": " brushed steel.", "index": 0, "finish_reason": "stop"}],
        "usage": token_usage_example(5, 5),
        "created": 1795276179,
        "processing_time_ms": 17,
    },
    event_example={"token": " steel", "index": 1},
)

INFERENCE_STREAM = OperationDocs(
    summary="Generate text as a stream of events",
    description=f"""
    Continues a raw prompt and sends one event per token, then one event with `done: true` per choice. `stream` is true
    or absent here; false is answered with 400. The `token` of an
    event is empty while its text may be part of a stop sequence or of an unfinished character; the text follows with a
    later event. A generation that fails ends the stream with an event that has `error`. Closing the connection cancels
    the generation.

    {_LIMITS_TEXT}
    """,
    request_examples={"One text": _PROMPT | {"max_tokens": 12, "seed": 7}},
    event_example={"token": " steel", "index": 1},
)

CHAT_COMPLETIONS = OperationDocs(
    summary="Complete a chat",
    description=f"""
    Generates the assistant's next message, in the form of OpenAI's chat completions. The messages pass through the
    model's chat template; text in them is literal, so that it cannot contain control tokens. With `tools` the
    message may be function calls. With `stream: true` the response is a stream of chunks that ends with `[DONE]`.

    Parameters that this server cannot follow are rejected by name unless they have their neutral value, and unknown
    ones always. Fields without effect, such as `user`, are named in the `Warnings` header. {_LIMITS_TEXT}
    """,
    request_examples={
        "A chat": _CHAT | {"temperature": 0.2, "seed": 7, "max_tokens": 40},
        "A stream": _CHAT | {"max_tokens": 40, "stream": True, "stream_options": {"include_usage": True}},
        "JSON that matches a schema": _CHAT
        | {"response_format": {"type": "json_schema", "json_schema": {"name": "order", "schema": _ORDER_SCHEMA}}}
        | {"max_tokens": 60},
        "A tool": _CHAT
        | {"tools": [{"type": "function", "function": {"name": "order", "parameters": _ORDER_SCHEMA}}]}
        | {"tool_choice": "auto", "max_tokens": 60},
    },
    response_example={
        "id": "chatcmpl-a522548d6a61ca775954345a",
        "object": "chat.completion",
        "created": 1795276179,
        "model": TEXT_MODEL,
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
        "usage": token_usage_example(35, 24),
        "system_fingerprint": SYSTEM_FINGERPRINT,
    },
    event_example={
        "id": "chatcmpl-a522548d6a61ca775954345a",
        "object": "chat.completion.chunk",
        "created": 1795276179,
        "model": TEXT_MODEL,
        "choices": [{"index": 0, "delta": {"content": " quiet"}, "finish_reason": None, "logprobs": None}],
    },
)

COMPLETIONS = OperationDocs(
    summary="Complete one or more prompts",
    description=f"""
    Continues up to 64 raw prompts, in the form of OpenAI's completions. A prompt is a text or an array of token
    ids. The `n` choices of the first prompt come first, then those of the second. With `stream: true` the response
    is a stream of chunks that ends with `[DONE]`.

    Parameters that this server cannot follow are rejected by name unless they have their neutral value, and unknown
    ones always. Fields without effect, such as `user`, are named in the `Warnings` header. {_LIMITS_TEXT}
    """,
    request_examples={
        "One prompt": _PROMPT | {"seed": 7},
        "Several prompts": {"model": TEXT_MODEL, "prompt": ["The kettle is", "A lamp"], "max_tokens": 8, "n": 2},
        "Token ids": {"model": TEXT_MODEL, "prompt": [37, 1159, 298, 466, 752], "max_tokens": 8},
        "Log probabilities of the prompt": _PROMPT | {"echo": True, "logprobs": 1, "max_tokens": 1},
    },
    response_example={
        "id": "cmpl-55ccc0c717ef785f4efab42d",
        "object": "text_completion",
        "created": 1795276180,
        "model": TEXT_MODEL,
        "choices": [{"text": " brushed steel.", "index": 0, "logprobs": None, "finish_reason": "stop"}],
        "usage": token_usage_example(5, 5),
        "system_fingerprint": SYSTEM_FINGERPRINT,
    },
    event_example={
        "id": "cmpl-55ccc0c717ef785f4efab42d",
        "object": "text_completion",
        "created": 1795276180,
        "model": TEXT_MODEL,
        "choices": [{"text": " steel", "index": 0, "logprobs": None, "finish_reason": None}],
    },
)
