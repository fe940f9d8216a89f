"""The client of remote models, against a scripted server."""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from inference.engine import (
    SAMPLING_PARAMETERS,
    ConstraintKind,
    ContextLengthExceeded,
    DeadlineExceeded,
    EmbeddingRequest,
    EmbeddingResult,
    EngineError,
    EngineOverloaded,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    InferenceFailed,
    InvalidRequest,
    Message,
    ModelNotLoaded,
    OutputConstraint,
    SamplingParams,
    Tool,
    Usage,
)
from inference.pools.client import PoolClient
from inference.pools.definitions import single_member_pool
from inference.remote.configuration import RemoteModel
from inference.remote.dialects import DIALECTS
from inference.remote.errors import RemoteUnavailable
from inference.remote.health import RemoteHealth
from inference.remote.requests import EXTRA_PARAMETERS, OPENAI_PARAMETERS
from tests.inference.remote.scripted_server import (
    COMPLETE_STREAM,
    CUT,
    HANG,
    KEEP_ALIVE,
    USAGE,
    ScriptedServer,
    chat_chunk,
    completion_chunk,
    scripted_server,
)

HELLO = (Message("user", "hello"),)


@dataclass
class FarClient:
    """A client of the pool `far`, whose only member is `model`."""

    model: RemoteModel
    client: PoolClient = field(default_factory=PoolClient)

    async def generate(self, request: GenerationRequest) -> GenerationStream:
        return await self.client.generate(single_member_pool(self.model), request)

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResult:
        return await self.client.embed(single_member_pool(self.model), request)

    async def check(self) -> RemoteHealth:
        return await self.client.remote.check(self.model)

    @property
    def health(self) -> RemoteHealth:
        return self.client.remote.health(self.model)


@contextlib.asynccontextmanager
async def remote_client(server: ScriptedServer, **model: Any) -> AsyncIterator[FarClient]:
    """Run a client that has the server's model as `far`."""
    far = FarClient(RemoteModel(**{"id": "far", "base_url": server.url} | model))
    try:
        yield far
    finally:
        await far.client.close()


def chat_request(sampling: SamplingParams | None = None, **fields: Any) -> GenerationRequest:
    return GenerationRequest(request_id="r", messages=HELLO, sampling=sampling or SamplingParams(), **fields)


def prompt_request(**sampling: Any) -> GenerationRequest:
    return GenerationRequest(request_id="r", prompt="once", sampling=SamplingParams(**sampling))


async def read_outputs(client: FarClient, request: GenerationRequest) -> list[GenerationOutput]:
    async with await client.generate(request) as stream:
        return [output async for output in stream]


async def test_a_chat_is_streamed_with_the_servers_usage():
    async with (
        scripted_server(lines=COMPLETE_STREAM) as server,
        remote_client(server, model="big", api_key="secret") as client,
    ):
        outputs = await read_outputs(
            client, chat_request(SamplingParams(max_tokens=7, temperature=0.5, seed=3, stop=("x",)))
        )

    assert [(output.index, output.text) for output in outputs] == [(0, "one"), (1, " two"), (2, "")]
    assert outputs[-1].finish_reason is FinishReason.STOP
    assert outputs[-1].usage == Usage(5, 3, 2)
    (received,) = server.requests
    assert (received.path, received.headers["authorization"]) == ("/v1/chat/completions", "Bearer secret")
    assert received.body == {
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


async def test_a_token_is_forwarded_before_the_next_one_is_generated():
    async with scripted_server(lines=[chat_chunk("one"), HANG]) as server, remote_client(server) as client:
        async with await client.generate(chat_request()) as stream:
            assert (await anext(stream)).text == "one"
            assert not server.disconnected.is_set()
        await asyncio.wait_for(server.disconnected.wait(), 10)


async def test_cancelling_closes_the_connection_at_any_time():
    async with scripted_server(is_silent=True) as server, remote_client(server) as client:
        waiting = asyncio.create_task(client.generate(chat_request()))
        await asyncio.wait_for(server.arrived.wait(), 10)
        waiting.cancel()
        await asyncio.wait_for(server.disconnected.wait(), 10)
    async with scripted_server(lines=[chat_chunk("one"), HANG]) as server, remote_client(server) as client:
        await (await client.generate(chat_request())).close()  # before its reader has started
        await asyncio.wait_for(server.disconnected.wait(), 10)


async def test_choices_end_separately_and_the_last_one_has_the_usage():
    lines = [
        chat_chunk("a", index=1),
        chat_chunk("b", "length", index=0),
        chat_chunk(None, "stop", index=1),
        {"choices": [], "usage": USAGE},
        "[DONE]",
    ]
    async with scripted_server(lines=lines) as server, remote_client(server) as client:
        outputs = await read_outputs(client, chat_request(n=2))

    assert [(output.choice, output.index, output.text, output.finish_reason) for output in outputs] == [
        (1, 0, "a", None),
        (0, 0, "b", None),
        (0, 1, "", FinishReason.LENGTH),
        (1, 1, "", FinishReason.STOP),
    ]
    assert [output.usage is None for output in outputs] == [True, True, True, False]


async def test_tools_are_sent_and_tool_calls_are_received_in_parts():
    first = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": ""}}
    lines = [
        chat_chunk(None, tool_calls=[first]),
        chat_chunk(None, tool_calls=[{"index": 0, "function": {"arguments": '{"x": 1}'}}]),
        chat_chunk(None, "tool_calls"),
        {"choices": [], "usage": USAGE},
        "[DONE]",
    ]
    request = chat_request(tools=(Tool("look", "Look.", {"type": "object"}),), tool_choice="look")
    async with scripted_server(lines=lines) as server, remote_client(server) as client:
        outputs = await read_outputs(client, request)

    calls = [delta for output in outputs for delta in output.tool_calls]
    assert [(call.index, call.id, call.name, call.arguments) for call in calls] == [
        (0, "call_1", "look", ""),
        (0, None, None, '{"x": 1}'),
    ]
    assert outputs[-1].finish_reason is FinishReason.TOOL_CALLS
    assert server.requests[0].body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert server.requests[0].body["tools"][0]["function"]["parameters"] == {"type": "object"}


@pytest.mark.parametrize(
    ("dialect", "fields", "sent"),
    [
        ("vllm", {}, {}),
        ("vllm", {"thinking": False}, {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        (
            "stoa",
            {"template_options": {"reasoning_effort": "low"}},
            {"chat_template_kwargs": {"reasoning_effort": "low"}},
        ),
        ("openai", {"template_options": {"reasoning_effort": "low"}, "thinking": True}, {"reasoning_effort": "low"}),
        ("openai", {"thinking": False}, {}),
    ],
)
async def test_options_of_reasoning_are_sent_as_the_dialect_names_them(
    dialect: str, fields: dict[str, Any], sent: dict[str, Any]
):
    async with scripted_server(lines=COMPLETE_STREAM) as server, remote_client(server, dialect=dialect) as client:
        await read_outputs(client, chat_request(**fields))
    names = ("chat_template_kwargs", "reasoning_effort")
    assert {name: server.requests[0].body[name] for name in names if name in server.requests[0].body} == sent


async def test_reasoning_of_a_remote_model_is_received_apart_from_the_text():
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "So"}}]}
    lines = [thought, chat_chunk("Yes"), chat_chunk(None, "stop"), {"choices": [], "usage": USAGE}, "[DONE]"]
    async with scripted_server(lines=lines) as server, remote_client(server) as client:
        outputs = await read_outputs(client, chat_request())
    assert ["".join(getattr(one, name) for one in outputs) for name in ("reasoning", "text")] == ["So", "Yes"]


async def test_logprobs_are_received_with_their_bytes():
    one = {"token": "h\u00e9", "logprob": -0.5, "bytes": [104, 195], "top_logprobs": [{"token": "z", "logprob": -1.5}]}
    piece = {"choices": [{"index": 0, "delta": {"content": "h"}, "logprobs": {"content": [one]}}]}
    lines = [piece, chat_chunk(None, "stop"), {"choices": [], "usage": USAGE}, "[DONE]"]
    async with scripted_server(lines=lines) as server, remote_client(server) as client:
        outputs = await read_outputs(client, chat_request(SamplingParams(logprobs=1)))

    (logprob,) = outputs[0].logprobs
    assert (logprob.text, logprob.data, logprob.logprob) == ("h\u00e9", b"h\xc3", -0.5)
    assert [(top.text, top.data, top.logprob) for top in logprob.top] == [("z", b"z", -1.5)]
    assert server.requests[0].body | {"messages": []} == {
        "model": "far", "messages": [], "temperature": 1.0, "top_p": 1.0, "logprobs": True, "top_logprobs": 1,
        "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip


async def test_a_server_without_usage_in_streams_is_sent_unstreamed_requests():
    whole = {"choices": [{"index": 0, "message": {"content": "one two"}, "finish_reason": "length"}], "usage": USAGE}
    async with scripted_server(answer=whole) as server, remote_client(server, stream_usage=False) as client:
        outputs = await read_outputs(client, chat_request())

    assert "".join(output.text for output in outputs) == "one two"
    assert (outputs[-1].finish_reason, outputs[-1].usage) == (FinishReason.LENGTH, Usage(5, 3, 2))
    assert "stream" not in server.requests[0].body


async def test_a_stream_without_usage_ends_with_an_error():
    lines = [chat_chunk("one", "stop"), "[DONE]"]
    async with scripted_server(lines=lines) as server, remote_client(server) as client:
        last = (await read_outputs(client, chat_request()))[-1]

    assert last.finish_reason is FinishReason.ERROR
    assert "stream_usage" in (last.error or "")


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("vllm", {"top_k": -1, "min_p": 0.1, "repetition_penalty": 1.2, "min_tokens": 0, "ignore_eos": True}),
        ("stoa", {"top_k": 0, "min_p": 0.1, "repeat_penalty": 1.2, "min_tokens": 0, "ignore_eos": True}),
    ],
)
async def test_a_dialect_names_parameters_beyond_openais(dialect: str, expected: dict[str, Any]):
    sampling = SamplingParams(min_p=0.1, repeat_penalty=1.2, ignore_eos=True)
    async with scripted_server(lines=COMPLETE_STREAM) as server, remote_client(server, dialect=dialect) as client:
        await read_outputs(client, chat_request(sampling))

    body = server.requests[0].body
    assert {name: body.get(name) for name in expected} == expected


GRAMMAR = OutputConstraint(ConstraintKind.GRAMMAR, "start: /a/")


@pytest.mark.parametrize(
    ("dialect", "request_", "parameter"),
    [
        ("openai", chat_request(SamplingParams(top_k=40)), "top_k"),
        ("openai", chat_request(SamplingParams(min_p=0.1)), "min_p"),
        ("openai", chat_request(SamplingParams(repeat_penalty=1.1)), "repeat_penalty"),
        ("openai", chat_request(SamplingParams(min_tokens=1)), "min_tokens"),
        ("openai", chat_request(SamplingParams(ignore_eos=True)), "ignore_eos"),
        ("openai", chat_request(priority=1), "priority"),
        ("vllm", chat_request(priority=-1), "priority"),
        ("openai", chat_request(template_options={"enable_thinking": True}), "chat_template_kwargs"),
        ("vllm", chat_request(SamplingParams(constraint=GRAMMAR)), "grammar"),
        ("vllm", prompt_request(logprobs=1), "logprobs"),
        ("openai", prompt_request(constraint=OutputConstraint(ConstraintKind.JSON_OBJECT)), "response_format"),
        ("llama.cpp", chat_request(n=2), "n"),
        ("llama.cpp", chat_request(SamplingParams(ignore_eos=True)), "ignore_eos"),
    ],
)
async def test_an_unsupported_parameter_is_refused_by_name(dialect: str, request_: GenerationRequest, parameter: str):
    async with scripted_server(lines=COMPLETE_STREAM) as server, remote_client(server, dialect=dialect) as client:
        with pytest.raises(InvalidRequest, match=f"^`{parameter}` ") as refused:
            await client.generate(request_)

    assert refused.value.details == {"field": parameter}
    assert server.requests == []


async def test_unsupported_defaults_are_not_sent():
    sampling = SamplingParams(top_k=40, repeat_penalty=1.1)
    async with scripted_server(lines=COMPLETE_STREAM) as server, remote_client(server) as client:
        await read_outputs(client, chat_request(sampling, default_parameters=("top_k", "repeat_penalty")))
        with pytest.raises(InvalidRequest, match=r"^`repeat_penalty` "):
            await client.generate(chat_request(sampling, default_parameters=("top_k",)))
    async with scripted_server(lines=COMPLETE_STREAM) as llama, remote_client(llama, dialect="llama.cpp") as client:
        await read_outputs(client, chat_request(sampling, default_parameters=("top_k", "repeat_penalty")))

    (received,) = server.requests
    assert received.body.keys() & {"top_k", "repeat_penalty"} == set()
    assert (llama.requests[0].body["top_k"], llama.requests[0].body["repeat_penalty"]) == (40, 1.1)


async def test_a_prompt_without_chat_is_sent_to_completions():
    lines = [completion_chunk("one"), completion_chunk("", "length"), {"choices": [], "usage": USAGE}, "[DONE]"]
    async with scripted_server(lines=lines) as server, remote_client(server) as client:
        outputs = await read_outputs(client, prompt_request(max_tokens=1))

    assert [output.text for output in outputs] == ["one", ""]
    assert outputs[-1].usage == Usage(5, 3, 2)
    assert (server.requests[0].path, server.requests[0].body["prompt"]) == ("/v1/completions", "once")


async def test_a_json_schema_is_sent():
    constraint = OutputConstraint(ConstraintKind.JSON_SCHEMA, json.dumps({"type": "object"}))
    async with scripted_server(lines=COMPLETE_STREAM) as server, remote_client(server) as client:
        await read_outputs(client, chat_request(SamplingParams(constraint=constraint)))

    assert server.requests[0].body["response_format"] == {
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
async def test_error_responses_become_engine_errors(
    status: int, error: object, expected: type[EngineError], details: dict[str, Any]
):
    script = {"status": status, "answer": {"error": error}, "retry_after": "7"}
    async with scripted_server(**script) as server, remote_client(server, api_key="secret") as client:
        with pytest.raises(expected) as raised:
            await client.generate(chat_request())

    assert type(raised.value) is expected
    assert raised.value.details == details
    assert "secret" not in raised.value.message
    assert server.url not in raised.value.message


@pytest.mark.parametrize("status", [400, 413, 422, 429, 503, 504])
async def test_an_error_is_quoted_without_the_key_that_it_names(status: int):
    key = "sk-very-secret"
    error = {"message": f"Key {key} may not.{'x' * 476}{key}", "param": key, "code": key}
    async with (
        scripted_server(status=status, answer={"error": error}) as server,
        remote_client(server, api_key=key) as client,
    ):
        with pytest.raises(EngineError, match=r"It says: Key \[key\] may not") as raised:
            await client.generate(chat_request())

    assert "sk-" not in f"{raised.value.message} {raised.value.details}"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([chat_chunk("one"), {"error": {"message": "out of memory"}}], "failed during"),
        ([chat_chunk("one"), CUT], "was lost"),
        ([chat_chunk("one"), "[DONE]"], "before the generation was complete"),
        ([chat_chunk("one"), "{nonsense"], "not in OpenAI's form"),
        ([chat_chunk("one"), chat_chunk("two", index=5)], "not requested"),
    ],
)
async def test_a_failure_during_a_stream_ends_it_with_an_error(lines: list[Any], message: str):
    async with scripted_server(lines=lines) as server, remote_client(server) as client:
        outputs = await read_outputs(client, chat_request())

    assert (outputs[0].text, outputs[-1].finish_reason) == ("one", FinishReason.ERROR)
    assert message in (outputs[-1].error or "")


async def test_a_lost_connection_can_be_repeated_later_as_after_the_end_of_a_model_process():
    async with scripted_server(lines=[chat_chunk("one"), CUT]) as server, remote_client(server) as client:
        outputs = await read_outputs(client, chat_request())

    assert outputs[-1].error_code == "EngineDied"  # 503 with Retry-After, and repeated by batches


async def test_a_server_that_sends_nothing_times_out():
    async with (
        scripted_server(is_silent=True) as server,
        remote_client(server, first_token_timeout=0.2, connect_timeout=0.1) as client,
    ):
        with pytest.raises(DeadlineExceeded):
            await client.generate(chat_request())
        await asyncio.wait_for(server.disconnected.wait(), 10)
    async with scripted_server(is_silent=True) as server, remote_client(server) as client:
        with pytest.raises(DeadlineExceeded):
            await client.generate(chat_request(timeout=0.3))
    async with (
        scripted_server(lines=[chat_chunk("one"), HANG]) as server,
        remote_client(server, token_timeout=0.2) as client,
    ):
        outputs = await read_outputs(client, chat_request())
        await asyncio.wait_for(server.disconnected.wait(), 10)
    assert (outputs[-1].finish_reason, outputs[-1].error_code) == (FinishReason.ERROR, "TIMEOUT")


async def test_a_server_that_sends_only_comments_times_out():
    for lines in ([KEEP_ALIVE], [chat_chunk("one"), KEEP_ALIVE]):
        times = {"first_token_timeout": 0.3, "token_timeout": 0.3}
        async with scripted_server(lines=lines) as server, remote_client(server, **times) as client:
            outputs = await asyncio.wait_for(read_outputs(client, chat_request()), 30)
            await asyncio.wait_for(server.disconnected.wait(), 30)
        assert (outputs[-1].finish_reason, outputs[-1].error_code) == (FinishReason.ERROR, "TIMEOUT")


async def test_an_invalid_retry_after_becomes_the_default():
    async with scripted_server(status=503, answer={}, retry_after="\xb2") as server, remote_client(server) as client:
        with pytest.raises(EngineOverloaded) as raised:
            await client.generate(chat_request())

    assert raised.value.details["retry_after"] == 1.0


@pytest.mark.parametrize("usage", [{"prompt_tokens": -5}, {"prompt_tokens": 1, "completion_tokens": 10**30}])
async def test_an_impossible_usage_ends_the_stream_with_an_error(usage: dict[str, int]):
    lines = [chat_chunk("one"), chat_chunk(None, "stop"), {"choices": [], "usage": usage}, "[DONE]"]
    async with scripted_server(lines=lines) as server, remote_client(server) as client:
        outputs = await read_outputs(client, chat_request())

    assert (outputs[-1].finish_reason, outputs[-1].usage) == (FinishReason.ERROR, Usage(0, 1))


async def test_an_unavailable_server_fails_at_once_until_it_recovers():
    async with scripted_server() as gone:
        pass
    async with remote_client(gone) as client:
        with pytest.raises(RemoteUnavailable):
            await client.generate(chat_request())
        assert client.health.error == "The remote server does not answer."
        async with scripted_server(port=int(gone.url.split(":")[2].split("/")[0]), lines=COMPLETE_STREAM):
            with pytest.raises(RemoteUnavailable):  # it failed a moment ago
                await client.generate(chat_request())
            client.health.checked_at = float("-inf")
            await read_outputs(client, chat_request())
            assert client.health.error is None


@pytest.mark.parametrize(
    ("script", "error", "context_size"),
    [
        ({"answer": {"data": [{"id": "far", "max_model_len": 4096}]}}, None, 4096),
        ({"answer": {"data": [{"id": "other"}]}}, "The remote server does not list the model.", 0),
        ({"status": 401}, "The remote server rejects the configured API key.", 0),
        ({"status": 404}, None, 0),
        ({"status": 500, "answer": "Internal Server Error"}, None, 0),
        ({"status": 502}, "The remote server returned status 502.", 0),
    ],
)
async def test_a_health_check_reads_the_list_of_models(script: dict[str, Any], error: str | None, context_size: int):
    async with scripted_server(**script) as server, remote_client(server) as client:
        health = await client.check()
        await client.check()  # not sent: the health is not stale

    assert (health.error, health.context_size) == (error, context_size)
    assert [received.path for received in server.requests] == ["/v1/models"]


async def test_embeddings_are_returned_in_the_order_of_the_texts():
    answer: dict[str, Any] = {
        "data": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}],
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }
    request = EmbeddingRequest(request_id="r", texts=("a", "b"))
    async with scripted_server(answer=answer) as server, remote_client(server) as client:
        result = await client.embed(request)
        assert (result.dimensions, result.prompt_tokens) == (2, 4)
        assert result.vectors == (struct.pack("<2f", 1, 0), struct.pack("<2f", 0, 1))
        server.answer = {"data": answer["data"][:1], "usage": answer["usage"]}
        with pytest.raises(InferenceFailed):
            await client.embed(request)
        for invalid in ([1e300, 0.0], [1.0]):
            vectors = [{"index": 1, "embedding": invalid}, {"index": 0, "embedding": [1.0, 0.0]}]
            server.answer = {"data": vectors, "usage": answer["usage"]}
            with pytest.raises(InferenceFailed, match="vectors of different lengths"):
                await client.embed(request)

    assert server.requests[0].path == "/v1/embeddings"
    assert server.requests[0].body == {"model": "far", "input": ["a", "b"], "encoding_format": "float"}


def test_every_sampling_parameter_is_sent_or_refused():
    """A parameter that the engine adds must be supported by a dialect, be one of OpenAI's, or be refused."""
    assert SAMPLING_PARAMETERS.keys() >= OPENAI_PARAMETERS
    assert {*EXTRA_PARAMETERS} == SAMPLING_PARAMETERS.keys() - OPENAI_PARAMETERS
    known = {*EXTRA_PARAMETERS, *ConstraintKind, "priority"}
    assert all(dialect.extra_names.keys() <= known for dialect in DIALECTS.values())
