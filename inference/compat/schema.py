"""OpenAPI texts and examples of other servers' APIs."""

from typing import Any

from inference.access.docs import EMBEDDING_MODEL, TEXT_MODEL, OperationDocs

_ERRORS_TEXT = """It needs the permission `run_inference`. It answers 404 for an unknown model, 400 for a model that
    is not loaded and for a prompt that is too long, 429 over a limit and 503 while the model is busy or loading."""
_QUESTION = {"role": "user", "content": "Describe the Quellmar kettle. Keywords: quiet, copper base"}
_ANTHROPIC: dict[str, Any] = {
    "model": TEXT_MODEL,
    "max_tokens": 40,
    "system": "You write product descriptions for an online shop.",
    "messages": [_QUESTION],
}
_TOOL = {
    "name": "order",
    "description": "Places an order.",
    "input_schema": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
}
_DETAILS = {
    "parent_model": "",
    "format": "safetensors",
    "family": "stoa",
    "families": ["stoa"],
    "parameter_size": "5.3M",
    "quantization_level": "F32",
}
_DIGEST = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
_TIMES = {
    "done": True,
    "done_reason": "stop",
    "total_duration": 90_000_000,
    "load_duration": 0,
    "prompt_eval_count": 35,
    "prompt_eval_duration": 12_000_000,
    "eval_count": 24,
    "eval_duration": 78_000_000,
}
_TEXT = "The Quellmar Kettle is a quiet kettle for afternoon tea."

MESSAGES = OperationDocs(
    summary="Create a message in Anthropic's form",
    description=f"""
    Generates the assistant's next turn, in the form of Anthropic's messages. With `tools` the content may have tool
    calls, whose input always matches the schema. With `stream: true` the response is a stream of Anthropic's events.
    Errors have Anthropic's form. Images, documents, Anthropic's own tools and a last turn of the assistant are
    answered with 400. {_ERRORS_TEXT}
    """,
    request_examples={
        "A message": _ANTHROPIC,
        "A stream": _ANTHROPIC | {"stream": True, "temperature": 0, "stop_sequences": ["\n\n"]},
        "A tool": _ANTHROPIC | {"tools": [_TOOL], "tool_choice": {"type": "any"}, "max_tokens": 100},
    },
    response_example={
        "id": "msg_a522548d6a61ca775954345a",
        "type": "message",
        "role": "assistant",
        "model": TEXT_MODEL,
        "content": [{"type": "text", "text": _TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 35,
            "output_tokens": 24,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    },
    event_example={
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": " quiet"},
    },
)

COUNT_TOKENS = OperationDocs(
    summary="Count the tokens of a message",
    description="""
    Returns the number of tokens that a request to `POST /v1/messages` would have as its prompt, with its tools. It
    needs the permission `run_inference`. It uses no tokens of a limit, but counts as a request. It answers 404 for an
    unknown model, and 400 for a model that is not loaded or runs on another server.
    """,
    request_examples={"A message": {name: value for name, value in _ANTHROPIC.items() if name != "max_tokens"}},
    response_example={"input_tokens": 35},
)

OLLAMA_CHAT = OperationDocs(
    summary="Chat in Ollama's form",
    description=f"""
    Generates the assistant's next message, in the form of Ollama's API. It streams lines of JSON unless `stream` is
    false. Options of loading, such as `num_ctx`, have no effect and are named in the `Warnings` header. Without
    messages it answers whether the model is loaded. {_ERRORS_TEXT}
    """,
    request_examples={
        "A whole message": {"model": TEXT_MODEL, "messages": [_QUESTION], "stream": False},
        "A stream": {"model": TEXT_MODEL, "messages": [_QUESTION], "options": {"temperature": 0, "num_predict": 40}},
        "JSON": {"model": TEXT_MODEL, "messages": [_QUESTION], "format": "json", "options": {"num_predict": 60}},
    },
    response_example={
        "model": TEXT_MODEL,
        "created_at": "2026-11-21T18:05:00.412Z",
        "message": {"role": "assistant", "content": _TEXT},
        **_TIMES,
    },
)

OLLAMA_GENERATE = OperationDocs(
    summary="Generate text in Ollama's form",
    description=f"""
    Generates text for a prompt, in the form of Ollama's API, through the model's chat template unless `raw` is true.
    It streams lines of JSON unless `stream` is false. {_ERRORS_TEXT}
    """,
    request_examples={
        "A whole text": {"model": TEXT_MODEL, "prompt": _QUESTION["content"], "stream": False},
        "A raw prompt": {
            "model": TEXT_MODEL,
            "prompt": "The kettle is made of",
            "raw": True,
            "options": {"num_predict": 12},
        },
    },
    response_example={
        "model": TEXT_MODEL,
        "created_at": "2026-11-21T18:05:00.412Z",
        "response": _TEXT,
        **_TIMES,
    },
)

OLLAMA_EMBED = OperationDocs(
    summary="Embed texts in Ollama's form",
    description=f"""
    Returns one vector of length 1 for each text, in the form of Ollama's API. A text that is longer than the model's
    context is cut, unless `truncate` is false. {_ERRORS_TEXT}
    """,
    request_examples={"Two texts": {"model": EMBEDDING_MODEL, "input": ["a brass lamp", "a quiet kettle"]}},
    response_example={
        "model": EMBEDDING_MODEL,
        "embeddings": [[0.0122, 0.0339, -0.1152], [0.0417, -0.0206, 0.0911]],
        "total_duration": 9_000_000,
        "load_duration": 0,
        "prompt_eval_count": 6,
    },
)

OLLAMA_TAGS = OperationDocs(
    summary="List models in Ollama's form",
    description="Returns the models that can be loaded, in the form of Ollama's API. It needs the permission "
    "`read_models`.",
    response_example={
        "models": [
            {
                "name": TEXT_MODEL,
                "model": TEXT_MODEL,
                "modified_at": "2026-11-21T18:05:00Z",
                "size": 21_200_384,
                "digest": _DIGEST,
                "details": _DETAILS,
            }
        ]
    },
)

OLLAMA_PS = OperationDocs(
    summary="List loaded models in Ollama's form",
    description="Returns the loaded models with their memory, in the form of Ollama's API. It needs the permission "
    "`read_models`.",
    response_example={
        "models": [
            {
                "name": TEXT_MODEL,
                "model": TEXT_MODEL,
                "size": 96_468_992,
                "digest": _DIGEST,
                "details": _DETAILS,
                "expires_at": None,
                "size_vram": 0,
                "context_length": 1024,
            }
        ]
    },
)

OLLAMA_SHOW = OperationDocs(
    summary="Describe a model in Ollama's form",
    description="Returns a model's capabilities, size and context, in the form of Ollama's API. It needs the "
    "permission `read_models`. It answers 404 for a model that does not exist or cannot be loaded.",
    request_examples={"A model": {"model": TEXT_MODEL}},
    response_example={
        "modelfile": "",
        "parameters": "",
        "template": "",
        "license": "",
        "modified_at": "2026-11-21T18:05:00Z",
        "details": _DETAILS,
        "model_info": {
            "general.architecture": "stoa",
            "stoa.context_length": 1024,
            "general.parameter_count": 5_271_552,
        },
        "capabilities": ["completion", "tools"],
    },
)

OLLAMA_VERSION = OperationDocs(
    summary="Get the version in Ollama's form",
    description="Returns the server's version, which Ollama's clients ask for. Anybody may call it.",
    response_example={"version": "1.0.0"},
)

MCP = OperationDocs(
    summary="Exchange a message of MCP",
    description="""
    Takes one message of the Model Context Protocol (MCP) in its streamable HTTP transport, and answers a request in
    JSON, a notification with 202. The methods are those of the protocol: `tools/list` and `tools/call` for text,
    embeddings, reranking and batches, `resources/list` and `resources/read` for models. No session is kept, so there
    is nothing to `GET` or to `DELETE`.

    It needs the permission `run_inference`, and for resources also `read_models`. It answers 403 to pages of other
    origins. What a tool cannot do is a result with `isError`, whose text says why; a limit that is reached before is
    429.
    """,
    request_examples={
        "A call of a tool": {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "embed_texts", "arguments": {"model": EMBEDDING_MODEL, "texts": ["a brass lamp"]}},
        },
        "The tools": {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    },
    response_example={
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "content": [
                {"type": "text", "text": '{"vectors":[[0.0122,0.0339]],"usage":{"prompt_tokens":3,"total_tokens":3}}'}
            ],
            "structuredContent": {
                "vectors": [[0.0122, 0.0339]],
                "usage": {"prompt_tokens": 3, "total_tokens": 3},
            },
            "isError": False,
        },
    },
)
