"""OpenAPI texts and examples of responses and conversations."""

from typing import Any

from inference.access.docs import TEXT_MODEL, OperationDocs

_INPUT = "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base"
_TEXT = "The Quellmar Kettle is a quiet kettle for afternoon tea. It brings you a copper base."
_ORDER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"product": {"type": "string"}, "amount": {"type": "integer", "minimum": 1}},
    "required": ["product", "amount"],
    "additionalProperties": False,
}
_MESSAGE: dict[str, Any] = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "Describe a lamp."}],
    "id": "msg_4f0c8d2e7b6a4915a3c1d0e2",
    "status": "completed",
}
_USAGE = {
    "input_tokens": 35,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 24,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 59,
}
_RESPONSE: dict[str, Any] = {
    "id": "resp_8f1c2a53d9c64ab2f84e1d07",
    "object": "response",
    "created_at": 1795276179,
    "model": TEXT_MODEL,
    "status": "completed",
    "output": [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": _TEXT, "annotations": []}],
            "id": "msg_0c1f5a3c9e2b7d4860a1f2e3",
            "status": "completed",
        }
    ],
    "background": False,
    "completed_at": 1795276179,
    "conversation": None,
    "error": None,
    "incomplete_details": None,
    "instructions": "You write product descriptions for an online shop.",
    "max_output_tokens": 60,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": _USAGE,
    "user": None,
}
_EVENT = {
    "type": "response.output_text.delta",
    "sequence_number": 4,
    "item_id": "msg_0c1f5a3c9e2b7d4860a1f2e3",
    "output_index": 0,
    "content_index": 0,
    "delta": " quiet",
    "logprobs": [],
}
_CONVERSATION: dict[str, Any] = {
    "id": "conv_2b7d90c1f3e84a65b0d1c9e7",
    "created_at": 1795276179,
    "metadata": {"order": "4711"},
    "object": "conversation",
}
_ITEM_LIST: dict[str, Any] = {
    "object": "list",
    "data": [_MESSAGE],
    "first_id": _MESSAGE["id"],
    "last_id": _MESSAGE["id"],
    "has_more": False,
}
_PERMISSION_TEXT = "It needs the permission `run_inference` and answers 404 for what another user owns."

CREATE = OperationDocs(
    summary="Create a response",
    description="""
    Generates the model's answer to a text or to items, in the form of OpenAI's responses: messages, and calls of your
    tools. `previous_response_id` or `conversation` continues what was said before. The response is stored unless
    `store` is false.

    With `stream: true` the response is a stream of events with sequence numbers. A stored stream goes on when its
    client disconnects; `GET /v1/responses/{response_id}?stream=true&starting_after=N` sends the rest of it. With
    `background: true` the answer comes at once with the status `queued`, and a worker runs the response to its end,
    whatever becomes of the client and of any process.

    Fields that the server cannot follow, hosted tools and images among them, are rejected by name. It needs the
    permission `run_inference`. It answers 404 for an unknown model or previous response, 400 with the code
    `MODEL_NOT_LOADED` or `CONTEXT_LENGTH_EXCEEDED`, 429 over a limit and 503 while the model is busy or loading.
    """,
    request_examples={
        "A text": {
            "model": TEXT_MODEL,
            "instructions": "You write product descriptions for an online shop.",
            "input": _INPUT,
            "temperature": 0.2,
            "max_output_tokens": 60,
        },
        "A stream": {"model": TEXT_MODEL, "input": _INPUT, "max_output_tokens": 40, "stream": True},
        "In the background": {"model": TEXT_MODEL, "input": _INPUT, "max_output_tokens": 40, "background": True},
        "JSON that matches a schema": {
            "model": TEXT_MODEL,
            "input": [{"type": "message", "role": "user", "content": "One lamp, please."}],
            "text": {"format": {"type": "json_schema", "name": "order", "schema": _ORDER_SCHEMA}},
            "max_output_tokens": 60,
        },
        "A tool": {
            "model": TEXT_MODEL,
            "input": [{"type": "message", "role": "user", "content": "One lamp, please."}],
            "tools": [{"type": "function", "name": "order", "parameters": _ORDER_SCHEMA}],
            "tool_choice": {"type": "function", "name": "order"},
            "max_output_tokens": 60,
        },
    },
    response_example=_RESPONSE,
    event_example=_EVENT,
)

RETRIEVE = OperationDocs(
    summary="Retrieve a response or its stream",
    description=f"""
    Returns a stored response as it is now. With `stream=true` it sends the response's events from the first one, or
    those after `starting_after`, and then those to come until the end. Any server process can send them. Events are
    stored for responses that were created with `stream` or `background`, until a day after the end; then a stream is
    404. A number that no event has is 400. {_PERMISSION_TEXT}
    """,
    response_example=_RESPONSE,
    event_example=_EVENT,
)

DELETE = OperationDocs(
    summary="Delete a response",
    description=f"""
    Deletes a stored response with its input and its events. One that has not ended is cancelled. Responses that
    continue it can be read but not continued any more. {_PERMISSION_TEXT}
    """,
    response_example={"id": _RESPONSE["id"], "object": "response", "deleted": True},
)

CANCEL = OperationDocs(
    summary="Cancel a response",
    description=f"""
    Ends a response that has not ended, and returns it. Its stream ends with the event `response.incomplete`, whose
    response has the status `cancelled`. A response that has ended is returned as it is. {_PERMISSION_TEXT}
    """,
    response_example=_RESPONSE,
)

INPUT_ITEMS = OperationDocs(
    summary="List the input of a response",
    description=f"""
    Returns the items that the request had as its input, without those of the previous response or of the conversation,
    the newest first by default. {_PERMISSION_TEXT}
    """,
    response_example=_ITEM_LIST,
)

INPUT_TOKENS = OperationDocs(
    summary="Count the tokens of an input",
    description=f"""
    Returns how many tokens the prompt of such a response has, with its instructions, its tools and what it continues,
    also if that is more than the model's context. Nothing is generated or stored. {_PERMISSION_TEXT}
    """,
    request_examples={"A text": {"model": TEXT_MODEL, "input": _INPUT}},
    response_example={"input_tokens": 35, "object": "response.input_tokens"},
)

COMPACT = OperationDocs(
    summary="Compact a conversation",
    description=f"""
    Has the model summarize the input and what it continues, and returns a compaction: one item to send in later inputs
    in the place of the conversation. Only this server can read it. The summary counts as generated tokens.
    {_PERMISSION_TEXT}
    """,
    request_examples={
        "A conversation": {"model": TEXT_MODEL, "input": [{"type": "message", "role": "user", "content": "One lamp."}]}
    },
    response_example={
        "id": "resp_8f1c2a53d9c64ab2f84e1d07",
        "created_at": 1795276179,
        "output": [{"type": "compaction", "encrypted_content": "gAAAAABo", "id": "cmp_6e2b7d4860a1f2e30c1f5a3c"}],
        "usage": _USAGE,
        "object": "response.compaction",
    },
)

CREATE_CONVERSATION = OperationDocs(
    summary="Create a conversation",
    description="""
    Creates a conversation, with up to 20 first items. A response with its id in `conversation` reads the items and
    adds its input and its output to them. A conversation is deleted after 30 days without use. It needs the permission
    `run_inference`.
    """,
    request_examples={
        "With an item": {
            "items": [{"type": "message", "role": "user", "content": "Describe a lamp."}],
            "metadata": {"order": "4711"},
        }
    },
    response_example=_CONVERSATION,
)

RETRIEVE_CONVERSATION = OperationDocs(
    summary="Retrieve a conversation",
    description=f"Returns a conversation without its items. {_PERMISSION_TEXT}",
    response_example=_CONVERSATION,
)

UPDATE_CONVERSATION = OperationDocs(
    summary="Change a conversation's metadata",
    description=f"Replaces the metadata of a conversation. {_PERMISSION_TEXT}",
    request_examples={"New metadata": {"metadata": {"order": "4711"}}},
    response_example=_CONVERSATION,
)

DELETE_CONVERSATION = OperationDocs(
    summary="Delete a conversation",
    description=f"Deletes a conversation with its items. Its responses stay. {_PERMISSION_TEXT}",
    response_example={"id": _CONVERSATION["id"], "deleted": True, "object": "conversation.deleted"},
)

LIST_CONVERSATION_ITEMS = OperationDocs(
    summary="List the items of a conversation",
    description=f"Returns the items of a conversation, the newest first by default. {_PERMISSION_TEXT}",
    response_example=_ITEM_LIST,
)

CREATE_CONVERSATION_ITEMS = OperationDocs(
    summary="Add items to a conversation",
    description=f"Adds up to 20 items to the end of a conversation and returns them. {_PERMISSION_TEXT}",
    request_examples={"A message": {"items": [{"type": "message", "role": "user", "content": "Describe a lamp."}]}},
    response_example=_ITEM_LIST,
)

RETRIEVE_CONVERSATION_ITEM = OperationDocs(
    summary="Retrieve an item of a conversation",
    description=f"Returns one item of a conversation. {_PERMISSION_TEXT}",
    response_example=_MESSAGE,
)

DELETE_CONVERSATION_ITEM = OperationDocs(
    summary="Delete an item of a conversation",
    description=f"Deletes one item of a conversation and returns the conversation. {_PERMISSION_TEXT}",
    response_example=_CONVERSATION,
)
