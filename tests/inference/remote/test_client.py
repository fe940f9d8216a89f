"""Models of other servers, over a socket, through the client that the services use."""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inference.engine import (
    ContextLengthExceeded,
    DeadlineExceeded,
    EmbeddingRequest,
    EngineError,
    EngineOverloaded,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    InferenceFailed,
    InvalidRequest,
    Message,
    ModelNotLoaded,
    OutputConstraint,
    OutputForm,
    SamplingParams,
    Tool,
    Usage,
)
from inference.remote.client import RemoteClient
from inference.remote.configuration import RemoteModel
from inference.remote.errors import RemoteUnavailable
from tests.inference.remote.scripted import (
    CUT,
    HANG,
    KEEP_ALIVE,
    USAGE,
    WHOLE_STREAM,
    Scripted,
    chat_piece,
    scripted,
    text_piece,
)

HELLO = (Message("user", "hello"),)


@contextlib.asynccontextmanager
async def asking(server: Scripted, **model: Any) -> AsyncIterator[RemoteClient]:
    """A client that knows the server's model as `far`."""
    client = RemoteClient({"far": RemoteModel(**{"id": "far", "base_url": server.url} | model)})
    try:
        yield client
    finally:
        await client.close()


def chat(sampling: SamplingParams | None = None, **fields: Any) -> GenerationRequest:
    return GenerationRequest(request_id="r", messages=HELLO, sampling=sampling or SamplingParams(), **fields)


def raw(**sampling: Any) -> GenerationRequest:
    return GenerationRequest(request_id="r", prompt="once", sampling=SamplingParams(**sampling))


async def outputs_of(client: RemoteClient, request: GenerationRequest) -> list[GenerationOutput]:
    async with await client.generate("far", request) as stream:
        return [output async for output in stream]


async def test_a_chat_is_streamed_with_the_usage_that_the_server_tells():
    async with scripted(lines=WHOLE_STREAM) as server, asking(server, model="big", api_key="secret") as client:
        outputs = await outputs_of(client, chat(SamplingParams(max_tokens=7, temperature=0.5, seed=3, stop=("x",))))

    assert [(output.index, output.text) for output in outputs] == [(0, "one"), (1, " two"), (2, "")]
    assert outputs[-1].finish_reason is FinishReason.STOP
    assert outputs[-1].usage == Usage(5, 3, 2)
    (asked,) = server.asked
    assert (asked.path, asked.headers["authorization"]) == ("/v1/chat/completions", "Bearer secret")
    assert asked.body == {
        "model": "big",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0.5,
        "top_p": 1.0,
        "max_tokens": 7,
        "seed": 3,
        "stop": ["x"],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_a_token_is_passed_on_before_the_next_one_is_made():
    async with scripted(lines=[chat_piece("one"), HANG]) as server, asking(server) as client:
        async with await client.generate("far", chat()) as stream:
            assert (await anext(stream)).text == "one"
            assert not server.left.is_set()
        await asyncio.wait_for(server.left.wait(), 10)


async def test_leaving_closes_the_connection_whenever_it_happens():
    async with scripted(silent=True) as server, asking(server) as client:
        waiting = asyncio.create_task(client.generate("far", chat()))
        await asyncio.wait_for(server.came.wait(), 10)
        waiting.cancel()
        await asyncio.wait_for(server.left.wait(), 10)
    async with scripted(lines=[chat_piece("one"), HANG]) as server, asking(server) as client:
        await (await client.generate("far", chat())).close()  # before its reader has begun
        await asyncio.wait_for(server.left.wait(), 10)


async def test_several_choices_end_one_by_one_and_the_last_has_the_usage():
    lines = [
        chat_piece("a", index=1),
        chat_piece("b", "length", index=0),
        chat_piece(None, "stop", index=1),
        {"choices": [], "usage": USAGE},
        "[DONE]",
    ]
    async with scripted(lines=lines) as server, asking(server) as client:
        outputs = await outputs_of(client, chat(n=2))

    assert [(output.choice, output.index, output.text, output.finish_reason) for output in outputs] == [
        (1, 0, "a", None),
        (0, 0, "b", None),
        (0, 1, "", FinishReason.LENGTH),
        (1, 1, "", FinishReason.STOP),
    ]
    assert [output.usage is None for output in outputs] == [True, True, True, False]


async def test_tools_go_there_and_calls_come_back_in_pieces():
    first = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": ""}}
    lines = [
        chat_piece(None, tool_calls=[first]),
        chat_piece(None, tool_calls=[{"index": 0, "function": {"arguments": '{"x": 1}'}}]),
        chat_piece(None, "tool_calls"),
        {"choices": [], "usage": USAGE},
        "[DONE]",
    ]
    request = chat(tools=(Tool("look", "Look.", {"type": "object"}),), tool_choice="look")
    async with scripted(lines=lines) as server, asking(server) as client:
        outputs = await outputs_of(client, request)

    calls = [delta for output in outputs for delta in output.tool_calls]
    assert [(call.index, call.id, call.name, call.arguments) for call in calls] == [
        (0, "call_1", "look", ""),
        (0, None, None, '{"x": 1}'),
    ]
    assert outputs[-1].finish_reason is FinishReason.TOOL_CALLS
    assert server.asked[0].body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert server.asked[0].body["tools"][0]["function"]["parameters"] == {"type": "object"}


async def test_log_probabilities_come_back_with_their_bytes():
    one = {"token": "h\u00e9", "logprob": -0.5, "bytes": [104, 195], "top_logprobs": [{"token": "z", "logprob": -1.5}]}
    piece = {"choices": [{"index": 0, "delta": {"content": "h"}, "logprobs": {"content": [one]}}]}
    lines = [piece, chat_piece(None, "stop"), {"choices": [], "usage": USAGE}, "[DONE]"]
    async with scripted(lines=lines) as server, asking(server) as client:
        outputs = await outputs_of(client, chat(SamplingParams(logprobs=1)))

    (told,) = outputs[0].logprobs
    assert (told.text, told.data, told.logprob) == ("h\u00e9", b"h\xc3", -0.5)
    assert [(top.text, top.data, top.logprob) for top in told.top] == [("z", b"z", -1.5)]
    assert server.asked[0].body | {"messages": []} == {
        "model": "far", "messages": [], "temperature": 1.0, "top_p": 1.0, "logprobs": True, "top_logprobs": 1,
        "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip


async def test_a_server_that_tells_no_usage_in_streams_is_asked_for_whole_answers():
    whole = {"choices": [{"index": 0, "message": {"content": "one two"}, "finish_reason": "length"}], "usage": USAGE}
    async with scripted(answer=whole) as server, asking(server, stream_usage=False) as client:
        outputs = await outputs_of(client, chat())

    assert "".join(output.text for output in outputs) == "one two"
    assert (outputs[-1].finish_reason, outputs[-1].usage) == (FinishReason.LENGTH, Usage(5, 3, 2))
    assert "stream" not in server.asked[0].body


async def test_a_stream_without_usage_is_no_whole_answer():
    lines = [chat_piece("one", "stop"), "[DONE]"]
    async with scripted(lines=lines) as server, asking(server) as client:
        last = (await outputs_of(client, chat()))[-1]

    assert last.finish_reason is FinishReason.ERROR
    assert "stream_usage" in (last.error or "")


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("vllm", {"top_k": -1, "min_p": 0.1, "repetition_penalty": 1.2, "min_tokens": 0, "ignore_eos": True}),
        ("stoa", {"top_k": 0, "min_p": 0.1, "repeat_penalty": 1.2, "min_tokens": 0, "ignore_eos": True}),
    ],
)
async def test_a_dialect_has_its_own_names_for_what_is_beyond_openai(dialect: str, expected: dict[str, Any]):
    sampling = SamplingParams(min_p=0.1, repeat_penalty=1.2, ignore_eos=True)
    async with scripted(lines=WHOLE_STREAM) as server, asking(server, dialect=dialect) as client:
        await outputs_of(client, chat(sampling))

    body = server.asked[0].body
    assert {name: body.get(name) for name in expected} == expected


GRAMMAR = OutputConstraint(OutputForm.GRAMMAR, "start: /a/")


@pytest.mark.parametrize(
    ("dialect", "request_", "named"),
    [
        ("openai", chat(SamplingParams(top_k=40)), "top_k"),
        ("openai", chat(SamplingParams(min_p=0.1)), "min_p"),
        ("openai", chat(SamplingParams(repeat_penalty=1.1)), "repeat_penalty"),
        ("openai", chat(SamplingParams(min_tokens=1)), "min_tokens"),
        ("openai", chat(SamplingParams(ignore_eos=True)), "ignore_eos"),
        ("openai", chat(priority=1), "priority"),
        ("vllm", chat(priority=-1), "priority"),
        ("vllm", chat(SamplingParams(constraint=GRAMMAR)), "grammar"),
        ("vllm", raw(logprobs=1), "logprobs"),
        ("openai", raw(constraint=OutputConstraint(OutputForm.JSON_OBJECT)), "response_format"),
        ("llama.cpp", chat(n=2), "n"),
        ("llama.cpp", chat(SamplingParams(ignore_eos=True)), "ignore_eos"),
    ],
)
async def test_a_parameter_that_the_server_cannot_follow_is_refused_by_name(
    dialect: str, request_: GenerationRequest, named: str
):
    async with scripted(lines=WHOLE_STREAM) as server, asking(server, dialect=dialect) as client:
        with pytest.raises(InvalidRequest, match=f"^{named} ") as refused:
            await client.generate("far", request_)

    assert refused.value.details == {"field": named}
    assert server.asked == []


async def test_what_nobody_asked_for_is_not_asked_of_a_server_that_cannot_follow_it():
    sampling = SamplingParams(top_k=40, repeat_penalty=1.1)
    async with scripted(lines=WHOLE_STREAM) as server, asking(server) as client:
        await outputs_of(client, chat(sampling, assumed=("top_k", "repeat_penalty")))
        with pytest.raises(InvalidRequest, match=r"^repeat_penalty "):
            await client.generate("far", chat(sampling, assumed=("top_k",)))
    async with scripted(lines=WHOLE_STREAM) as llama, asking(llama, dialect="llama.cpp") as client:
        await outputs_of(client, chat(sampling, assumed=("top_k", "repeat_penalty")))

    (asked,) = server.asked
    assert asked.body.keys() & {"top_k", "repeat_penalty"} == set()
    assert (llama.asked[0].body["top_k"], llama.asked[0].body["repeat_penalty"]) == (40, 1.1)


async def test_a_raw_prompt_goes_to_completions():
    lines = [text_piece("one"), text_piece("", "length"), {"choices": [], "usage": USAGE}, "[DONE]"]
    async with scripted(lines=lines) as server, asking(server) as client:
        outputs = await outputs_of(client, raw(max_tokens=1))

    assert [output.text for output in outputs] == ["one", ""]
    assert outputs[-1].usage == Usage(5, 3, 2)
    assert (server.asked[0].path, server.asked[0].body["prompt"]) == ("/v1/completions", "once")


async def test_a_json_schema_is_passed_on():
    constraint = OutputConstraint(OutputForm.JSON_SCHEMA, json.dumps({"type": "object"}))
    async with scripted(lines=WHOLE_STREAM) as server, asking(server) as client:
        await outputs_of(client, chat(SamplingParams(constraint=constraint)))

    assert server.asked[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}},
    }


@pytest.mark.parametrize(
    ("status", "error", "expected", "details"),
    [
        (400, {"message": "no", "param": "seed"}, InvalidRequest, {"field": "seed"}),
        (400, {"message": "long", "code": "context_length_exceeded"}, ContextLengthExceeded, {}),
        (422, "no", InvalidRequest, {}),
        (429, {"message": "slower"}, EngineOverloaded, {"reason": "overloaded", "retry_after": 7.0}),
        (503, {"message": "busy"}, EngineOverloaded, {"reason": "overloaded", "retry_after": 7.0}),
        (503, {"message": "soon", "code": "model_not_loaded"}, ModelNotLoaded, {"retry_after": 7.0}),
        (504, {}, DeadlineExceeded, {}),
        (500, {"message": "bug"}, InferenceFailed, {}),
        (401, {"message": "who"}, RemoteUnavailable, {"reason": "remote_unavailable", "retry_after": 5.0}),
        (302, {}, RemoteUnavailable, {"reason": "remote_unavailable", "retry_after": 5.0}),
    ],
)
async def test_its_errors_become_ours(status: int, error: object, expected: type[EngineError], details: dict[str, Any]):
    script = {"status": status, "answer": {"error": error}, "retry_after": "7"}
    async with scripted(**script) as server, asking(server, api_key="secret") as client:
        with pytest.raises(expected) as raised:
            await client.generate("far", chat())

    assert type(raised.value) is expected
    assert raised.value.details == details
    assert "secret" not in raised.value.message
    assert server.url not in raised.value.message


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([chat_piece("one"), {"error": {"message": "out of memory"}}], "failed while"),
        ([chat_piece("one"), CUT], "broke off"),
        ([chat_piece("one"), "[DONE]"], "broke off"),
        ([chat_piece("one"), "{nonsense"], "no answer"),
        ([chat_piece("one"), chat_piece("two", index=5)], "not asked for"),
    ],
)
async def test_what_breaks_in_mid_stream_ends_it_with_an_error(lines: list[Any], said: str):
    async with scripted(lines=lines) as server, asking(server) as client:
        outputs = await outputs_of(client, chat())

    assert (outputs[0].text, outputs[-1].finish_reason) == ("one", FinishReason.ERROR)
    assert said in (outputs[-1].error or "")


async def test_a_server_that_says_nothing_is_given_up():
    async with scripted(silent=True) as server, asking(server, first_token_timeout=0.2, connect_timeout=0.1) as client:
        with pytest.raises(DeadlineExceeded):
            await client.generate("far", chat())
        await asyncio.wait_for(server.left.wait(), 10)
    async with scripted(silent=True) as server, asking(server) as client:
        with pytest.raises(DeadlineExceeded):
            await client.generate("far", chat(timeout=0.3))
    async with scripted(lines=[chat_piece("one"), HANG]) as server, asking(server, token_timeout=0.2) as client:
        outputs = await outputs_of(client, chat())
        await asyncio.wait_for(server.left.wait(), 10)
    assert (outputs[-1].finish_reason, outputs[-1].error_code) == (FinishReason.ERROR, "TIMEOUT")


async def test_a_server_that_only_keeps_the_connection_alive_is_given_up():
    for lines in ([KEEP_ALIVE], [chat_piece("one"), KEEP_ALIVE]):
        times = {"first_token_timeout": 0.3, "token_timeout": 0.3}
        async with scripted(lines=lines) as server, asking(server, **times) as client:
            outputs = await asyncio.wait_for(outputs_of(client, chat()), 30)
            await asyncio.wait_for(server.left.wait(), 30)
        assert (outputs[-1].finish_reason, outputs[-1].error_code) == (FinishReason.ERROR, "TIMEOUT")


async def test_a_wait_that_is_no_number_is_a_short_one():
    async with scripted(status=503, answer={}, retry_after="\xb2") as server, asking(server) as client:
        with pytest.raises(EngineOverloaded) as raised:
            await client.generate("far", chat())

    assert raised.value.details["retry_after"] == 1.0


@pytest.mark.parametrize("usage", [{"prompt_tokens": -5}, {"prompt_tokens": 1, "completion_tokens": 10**30}])
async def test_a_usage_that_cannot_be_is_not_passed_on(usage: dict[str, int]):
    lines = [chat_piece("one"), chat_piece(None, "stop"), {"choices": [], "usage": usage}, "[DONE]"]
    async with scripted(lines=lines) as server, asking(server) as client:
        outputs = await outputs_of(client, chat())

    assert (outputs[-1].finish_reason, outputs[-1].usage) == (FinishReason.ERROR, Usage(0, 1))


async def test_a_server_that_is_gone_fails_at_once_until_it_is_back():
    async with scripted() as gone:
        pass
    async with asking(gone) as client:
        with pytest.raises(RemoteUnavailable):
            await client.generate("far", chat())
        assert client.health("far").error == "The remote server does not answer."
        async with scripted(lines=WHOLE_STREAM) as server:
            back = RemoteClient({"far": RemoteModel(id="far", base_url=server.url)})
            client.models = back.models
            with pytest.raises(RemoteUnavailable):  # a moment ago it was not there
                await client.generate("far", chat())
            client.health("far").checked_at = float("-inf")
            await outputs_of(client, chat())
            assert client.health("far").error is None


@pytest.mark.parametrize(
    ("script", "error", "context_size"),
    [
        ({"answer": {"data": [{"id": "far", "max_model_len": 4096}]}}, None, 4096),
        ({"answer": {"data": [{"id": "other"}]}}, "The remote server does not list the model.", 0),
        ({"status": 401}, "The remote server refuses the key that it is asked with.", 0),
        ({"status": 404}, None, 0),
        ({"status": 500, "answer": "Internal Server Error"}, None, 0),
        ({"status": 502}, "The remote server answered with status 502, which says nothing of a model.", 0),
    ],
)
async def test_a_check_finds_out_what_the_server_has(script: dict[str, Any], error: str | None, context_size: int):
    async with scripted(**script) as server, asking(server) as client:
        health = await client.check("far")
        await client.check("far")  # a moment later it is not asked again

    assert (health.error, health.context_size) == (error, context_size)
    assert [asked.path for asked in server.asked] == ["/v1/models"]


async def test_texts_are_embedded_in_their_order():
    answer: dict[str, Any] = {
        "data": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}],
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }
    request = EmbeddingRequest(request_id="r", texts=("a", "b"))
    async with scripted(answer=answer) as server, asking(server) as client:
        result = await client.embed("far", request)
        assert (result.dimensions, result.prompt_tokens) == (2, 4)
        assert result.vectors == (struct.pack("<2f", 1, 0), struct.pack("<2f", 0, 1))
        server.answer = {"data": answer["data"][:1], "usage": answer["usage"]}
        with pytest.raises(InferenceFailed):
            await client.embed("far", request)
        for strange in ([1e300, 0.0], [1.0]):
            vectors = [{"index": 1, "embedding": strange}, {"index": 0, "embedding": [1.0, 0.0]}]
            server.answer = {"data": vectors, "usage": answer["usage"]}
            with pytest.raises(InferenceFailed, match="vectors of one length"):
                await client.embed("far", request)

    assert server.asked[0].path == "/v1/embeddings"
    assert server.asked[0].body == {"model": "far", "input": ["a", "b"], "encoding_format": "float"}
