"""Servers that others wrote, played word for word: `transformers serve` 5.23.0 and llama-cpp-python 0.3.36."""

from typing import Any

import pytest

from inference.engine import (
    ContextLengthExceeded,
    EmbeddingRequest,
    FinishReason,
    GenerationRequest,
    InferenceFailed,
    InvalidRequest,
    OutputConstraint,
    OutputForm,
    SamplingParams,
    Tool,
    Usage,
)
from inference.remote.errors import RemoteUnavailable
from tests.inference.remote.scripted import PAUSE, Line, scripted
from tests.inference.remote.test_client import asking, chat, outputs_of, raw

TRANSFORMERS_CHAT: list[Line] = [
    '{"id":"0e6de94c","choices":[{"delta":{"role":"assistant"},"index":0}],"created":1795301715,"model":"/models/'
    'describer@main","object":"chat.completion.chunk","system_fingerprint":""}',
    '{"id":"0e6de94c","choices":[{"delta":{"content":"The"},"index":0}],"created":1795301716,"model":"/models/'
    'describer@main","object":"chat.completion.chunk","system_fingerprint":""}',
    '{"id":"0e6de94c","choices":[{"delta":{"content":" wool"},"index":0}],"created":1795301716,"model":"/models/'
    'describer@main","object":"chat.completion.chunk","system_fingerprint":""}',
    '{"id":"0e6de94c","choices":[{"delta":{},"index":0,"finish_reason":"length"}],"created":1795301716,"model":"/models'
    '/describer@main","object":"chat.completion.chunk","system_fingerprint":"","usage":{"completion_tokens":2,'
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
        (TRANSFORMERS_CHAT, chat(), ["The", " wool", ""], Usage(9, 2, 0)),
        (TRANSFORMERS_TEXT, raw(), ["le", ""], Usage(3, 1, 0)),
    ],
)
async def test_a_stream_of_transformers_is_whole_without_done(
    lines: list[Line], request_: GenerationRequest, texts: list[str], usage: Usage
):
    async with scripted(lines=lines) as server, asking(server, **TRANSFORMERS) as client:
        outputs = await outputs_of(client, request_)

    assert [output.text for output in outputs] == texts
    assert (outputs[-1].finish_reason, outputs[-1].usage) == (FinishReason.LENGTH, usage)


async def test_the_piece_with_the_role_does_not_end_the_wait_for_the_first_token():
    """The server sends it before it has read the prompt."""
    role, *_, end = TRANSFORMERS_CHAT
    async with (
        scripted(lines=[role, PAUSE, end]) as server,
        asking(server, **TRANSFORMERS, first_token_timeout=60, token_timeout=1) as client,
    ):
        outputs = await outputs_of(client, chat())

    assert [(output.finish_reason, output.usage) for output in outputs] == [(FinishReason.LENGTH, Usage(9, 2, 0))]


TOOL = Tool("look", "Looks.", None)
SAMPLING = {
    "response_format": SamplingParams(constraint=OutputConstraint(OutputForm.JSON_OBJECT)),
    "logprobs": SamplingParams(logprobs=1),
    "presence_penalty": SamplingParams(presence_penalty=0.5),
    "frequency_penalty": SamplingParams(frequency_penalty=0.5),
    "stop": SamplingParams(stop=("wool",)),
}
NOT_FOLLOWED = [(name, chat(sampling)) for name, sampling in SAMPLING.items()] + [
    ("n", chat(n=2)),
    ("tool_choice", chat(tools=(TOOL,), tool_choice="required")),
]


@pytest.mark.parametrize(("parameter", "request_"), NOT_FOLLOWED)
async def test_what_transformers_would_drop_or_do_its_own_way_is_refused_by_name(
    parameter: str, request_: GenerationRequest
):
    async with scripted(lines=TRANSFORMERS_CHAT) as server, asking(server, **TRANSFORMERS) as client:
        with pytest.raises(InvalidRequest, match=f"^{parameter} cannot be followed by far") as raised:
            await client.generate("far", request_)

    assert (raised.value.details["field"], server.asked) == (parameter, [])


async def test_tools_that_the_model_may_take_go_to_transformers():
    async with scripted(lines=TRANSFORMERS_CHAT) as server, asking(server, **TRANSFORMERS) as client:
        await outputs_of(client, chat(tools=(TOOL,)))

    assert server.asked[0].body["tools"][0]["function"]["name"] == "look"


async def test_the_list_of_transformers_is_of_its_cache_and_says_nothing_of_a_model():
    answer = {"object": "list", "data": [{"id": "someone/else", "owned_by": "someone", "object": "model"}]}
    async with scripted(answer=answer) as server, asking(server, **TRANSFORMERS) as client:
        assert (await client.check("far")).error is None


@pytest.mark.parametrize(
    ("status", "detail", "said"),
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
async def test_what_a_server_of_fastapi_refuses_is_told(status: int, detail: Any, said: str):
    async with scripted(status=status, answer={"detail": detail}) as server, asking(server) as client:
        with pytest.raises(InvalidRequest) as raised:
            await client.generate("far", raw())

    assert raised.value.message == f"The server behind far refuses this request.{said}"


async def test_a_wrong_key_at_llama_cpp_python_is_the_operators():
    async with scripted(status=401, answer={"detail": "Invalid API key"}) as server, asking(server, **LLAMA) as client:
        with pytest.raises(RemoteUnavailable, match="refuses the key"):
            await client.generate("far", raw())


async def test_a_prompt_that_llama_cpp_python_finds_too_long_is_told():
    message = (
        "This model's maximum context length is 256 tokens, however you requested 2703 tokens (2700 in your prompt; 3 "
        "for the completion). Please reduce your prompt; or completion length."
    )
    told = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    answer = {"error": {"message": message} | told}
    async with scripted(status=400, answer=answer) as server, asking(server, **LLAMA) as client:
        with pytest.raises(ContextLengthExceeded) as raised:
            await client.generate("far", raw())

    assert raised.value.message == message


async def test_a_vector_for_each_token_is_no_embedding_of_the_text():
    """What llama-cpp-python answers for a model that does not pool."""
    vector = {"object": "embedding", "embedding": [[-0.17, 0.89], [0.48, -0.12]], "index": 0}
    answer = {"object": "list", "data": [vector], "model": "lc", "usage": {"prompt_tokens": 2, "total_tokens": 2}}
    async with scripted(answer=answer) as server, asking(server) as client:
        with pytest.raises(InferenceFailed, match="no single vector of each text"):
            await client.embed("far", EmbeddingRequest(request_id="r", texts=("a",)))
