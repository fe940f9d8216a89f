"""Responses recorded from other servers: `transformers serve` 5.23.0 and llama-cpp-python 0.3.36."""

from typing import Any

import pytest

from inference.engine import (
    ConstraintKind,
    ContextLengthExceeded,
    EmbeddingRequest,
    FinishReason,
    GenerationRequest,
    InferenceFailed,
    InvalidRequest,
    OutputConstraint,
    SamplingParams,
    Tool,
    Usage,
)
from inference.remote.errors import RemoteUnavailable
from tests.inference.remote.scripted_server import PAUSE, Line, scripted_server
from tests.inference.remote.test_client import chat_request, prompt_request, read_outputs, remote_client

TRANSFORMERS_CHAT: list[Line] = [
    '{"id":"0e6de94c","choices":[{"delta":{"role":"assistant"},"index":0}],"created":1795301715,"model":"/models/'
    'describer@main","object":"chat_request.completion.chunk","system_fingerprint":""}',
    '{"id":"0e6de94c","choices":[{"delta":{"content":"The"},"index":0}],"created":1795301716,"model":"/models/'
    'describer@main","object":"chat_request.completion.chunk","system_fingerprint":""}',
    '{"id":"0e6de94c","choices":[{"delta":{"content":" wool"},"index":0}],"created":1795301716,"model":"/models/'
    'describer@main","object":"chat_request.completion.chunk","system_fingerprint":""}',
    '{"id":"0e6de94c","choices":[{"delta":{},"index":0,"finish_reason":"length"}],"created":1795301716,"model":"/models'
    '/describer@main","object":"chat_request.completion.chunk","system_fingerprint":"","usage":{"completion_tokens":2,'
    '"prompt_tokens":9,"total_tokens":11}}',
]  # and no [DONE]
TRANSFORMERS_TEXT: list[Line] = [
    '{"id":"09a679b3","choices":[{"index":0,"text":"le"}],"created":1795301716,"model":"/models/describer@main",'
    '"object":"text_completion"}',
    '{"id":"09a679b3","choices":[{"finish_reason":"length","index":0,"text":""}],"created":1795301716,"model":"/models/'
    'describer@main","object":"text_completion","usage":{"completion_tokens":1,"prompt_tokens":3,"total_tokens":4}}',
]
TRANSFORMERS: dict[str, Any] = {"dialect": "transformers"}
LLAMA: dict[str, Any] = {"dialect": "llama.cpp", "stream_usage": False}


@pytest.mark.parametrize(
    ("lines", "request_", "texts", "usage"),
    [
        (TRANSFORMERS_CHAT, chat_request(), ["The", " wool", ""], Usage(9, 2, 0)),
        (TRANSFORMERS_TEXT, prompt_request(), ["le", ""], Usage(3, 1, 0)),
    ],
)
async def test_a_stream_of_transformers_is_complete_without_done(
    lines: list[Line], request_: GenerationRequest, texts: list[str], usage: Usage
):
    async with scripted_server(lines=lines) as server, remote_client(server, **TRANSFORMERS) as client:
        outputs = await read_outputs(client, request_)

    assert [output.text for output in outputs] == texts
    assert (outputs[-1].finish_reason, outputs[-1].usage) == (FinishReason.LENGTH, usage)


async def test_the_chunk_with_the_role_does_not_end_the_wait_for_the_first_token():
    """The server sends it before it has processed the prompt."""
    role, *_, end = TRANSFORMERS_CHAT
    async with (
        scripted_server(lines=[role, PAUSE, end]) as server,
        remote_client(server, **TRANSFORMERS, first_token_timeout=60, token_timeout=1) as client,
    ):
        outputs = await read_outputs(client, chat_request())

    assert [(output.finish_reason, output.usage) for output in outputs] == [(FinishReason.LENGTH, Usage(9, 2, 0))]


TOOL = Tool("look", "Looks.", None)
SAMPLING = {
    "response_format": SamplingParams(constraint=OutputConstraint(ConstraintKind.JSON_OBJECT)),
    "logprobs": SamplingParams(logprobs=1),
    "presence_penalty": SamplingParams(presence_penalty=0.5),
    "frequency_penalty": SamplingParams(frequency_penalty=0.5),
    "stop": SamplingParams(stop=("wool",)),
}
UNSUPPORTED = [(name, chat_request(sampling)) for name, sampling in SAMPLING.items()] + [
    ("n", chat_request(n=2)),
    ("tool_choice", chat_request(tools=(TOOL,), tool_choice="required")),
]


@pytest.mark.parametrize(("parameter", "request_"), UNSUPPORTED)
async def test_parameters_that_transformers_does_not_support_are_refused_by_name(
    parameter: str, request_: GenerationRequest
):
    async with scripted_server(lines=TRANSFORMERS_CHAT) as server, remote_client(server, **TRANSFORMERS) as client:
        with pytest.raises(InvalidRequest, match=f"^`{parameter}` is not supported by far") as raised:
            await client.generate(request_)

    assert (raised.value.details["field"], server.requests) == (parameter, [])


async def test_optional_tools_are_sent_to_transformers():
    async with scripted_server(lines=TRANSFORMERS_CHAT) as server, remote_client(server, **TRANSFORMERS) as client:
        await read_outputs(client, chat_request(tools=(TOOL,)))

    assert server.requests[0].body["tools"][0]["function"]["name"] == "look"


async def test_the_model_list_of_transformers_is_ignored_as_it_lists_its_cache():
    answer = {"object": "list", "data": [{"id": "someone/else", "owned_by": "someone", "object": "model"}]}
    async with scripted_server(answer=answer) as server, remote_client(server, **TRANSFORMERS) as client:
        assert (await client.check()).error is None


@pytest.mark.parametrize(
    ("status", "detail", "quote"),
    [
        (400, "prompt must be a string.", " It says: prompt must be a string."),
        (
            422,
            "Unexpected fields in the request: {'top_k'}",
            " It says: Unexpected fields in the request: {'top_k'}",
        ),
        (422, [{"type": "missing", "loc": ["body"], "msg": "Field required"}], ""),
    ],
)
async def test_an_error_of_fastapi_is_quoted(status: int, detail: Any, quote: str):
    async with scripted_server(status=status, answer={"detail": detail}) as server, remote_client(server) as client:
        with pytest.raises(InvalidRequest) as raised:
            await client.generate(prompt_request())

    assert raised.value.message == f"The server of far rejected the request.{quote}"


async def test_a_wrong_api_key_at_llama_cpp_python_is_unavailable():
    async with (
        scripted_server(status=401, answer={"detail": "Invalid API key"}) as server,
        remote_client(server, **LLAMA) as client,
    ):
        with pytest.raises(RemoteUnavailable, match="rejects the configured API key"):
            await client.generate(prompt_request())


async def test_the_context_length_error_of_llama_cpp_python_is_quoted():
    message = (
        "This model's maximum context length is 256 tokens, however you requested 2703 tokens (2700 in your prompt; 3 "
        "for the completion). Please reduce your prompt; or completion length."
    )
    fields = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    answer = {"error": {"message": message} | fields}
    async with scripted_server(status=400, answer=answer) as server, remote_client(server, **LLAMA) as client:
        with pytest.raises(ContextLengthExceeded) as raised:
            await client.generate(prompt_request())

    assert raised.value.message == message


async def test_a_vector_per_token_is_refused():
    """llama-cpp-python sends this for a model that does not pool."""
    vector = {"object": "embedding", "embedding": [[-0.17, 0.89], [0.48, -0.12]], "index": 0}
    answer = {"object": "list", "data": [vector], "model": "lc", "usage": {"prompt_tokens": 2, "total_tokens": 2}}
    async with scripted_server(answer=answer) as server, remote_client(server) as client:
        with pytest.raises(InferenceFailed, match="did not send one vector per text"):
            await client.embed(EmbeddingRequest(request_id="r", texts=("a",)))
