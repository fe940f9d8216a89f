"""The client of pools: failover before the first token, drain, and the members' states."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any

import pytest
from structlog.testing import capture_logs

from inference.engine import (
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
    SamplingParams,
)
from inference.pools.affinity import affinity_key, rank_members
from inference.pools.client import PoolClient
from inference.pools.definitions import Member, Pool
from inference.pools.states import MemberState, describe_failure, read_states
from inference.remote.configuration import RemoteModel
from inference.remote.errors import RemoteUnavailable
from inference.remote.health import HANGS
from shared.observability.metrics import render
from tests.inference.remote.scripted_server import (
    COMPLETE_STREAM,
    CUT,
    HANG,
    KEEP_ALIVE,
    PAUSE,
    USAGE,
    chat_chunk,
    scripted_server,
)

KEY = "sk-very-secret"
GONE = "http://127.0.0.1:9/v1"
LISTING = {"data": [{"id": "big"}]}
COMPLETE: dict[str, Any] = {"lines": COMPLETE_STREAM, "listing": LISTING}
WHOLE = {"choices": [{"index": 0, "message": {"content": "one two"}, "finish_reason": "stop"}], "usage": USAGE}


def member(name: str, url: str, **model: Any) -> Member:
    draining = model.pop("is_draining", False)
    return Member(name, RemoteModel(id="big", base_url=url, api_key=KEY, **model), is_draining=draining)


def pool_of(*members: Member) -> Pool:
    return Pool("big", members)


def request_preferring(pool: Pool, name: str, **fields: Any) -> GenerationRequest:
    """Return a request whose first choice is the member of this name."""
    for number in range(1000):
        request = GenerationRequest(request_id="r", messages=(Message("user", str(number)),), **fields)
        if rank_members(affinity_key(request), pool.members)[0].name == name:
            return request
    raise AssertionError


@contextlib.asynccontextmanager
async def pool_client() -> AsyncIterator[PoolClient]:
    client = PoolClient()
    try:
        yield client
    finally:
        await client.close()


async def read(client: PoolClient, pool: Pool, request: GenerationRequest) -> list[GenerationOutput]:
    async with await client.generate(pool, request) as stream:
        return [output async for output in stream]


async def wait_until_idle(client: PoolClient, pool: Pool) -> None:
    """Return when no member is answering: a response is closed just after its stream has ended."""
    async with asyncio.timeout(10):
        while any(map(client.load, pool.members)):  # noqa: ASYNC110 it has no event
            await asyncio.sleep(0.01)


async def states_of(client: PoolClient, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> list[MemberState]:
    monkeypatch.setattr("inference.pools.states.pool_client", lambda: client)
    return await read_states(pool.members, check=True)


@pytest.mark.parametrize(
    "script",
    [
        {"status": 500, "answer": {}},
        {"status": 503, "answer": {"error": {"message": "busy"}}},
        {"status": 503, "answer": {"error": {"message": "soon", "code": "model_not_loaded"}}},
        {"status": 401, "answer": {}},
        {"status": 404, "answer": {}},
        {"lines": [CUT]},
        {"lines": [chat_chunk("", role="assistant"), CUT]},
        {"lines": ["{nonsense"]},
        {"answer": "<html>"},
        {"lines": [{"error": {"message": "out of memory"}}]},
    ],
)
async def test_a_request_that_fails_before_its_first_token_goes_to_another_member(script: dict[str, Any]):
    async with (
        scripted_server(listing=LISTING, **script) as bad,
        scripted_server(**COMPLETE) as good,
        pool_client() as client,
    ):
        pool = pool_of(member("bad", bad.url), member("good", good.url))
        with capture_logs() as logs:
            outputs = await read(client, pool, request_preferring(pool, "bad"))
        await wait_until_idle(client, pool)

    assert "".join(output.text for output in outputs) == "one two"
    assert outputs[-1].finish_reason is FinishReason.STOP
    assert [one["member"] for one in logs if one["event"] == "pool_failover"] == ["good"]
    assert KEY not in str(logs)


async def test_the_time_to_the_first_token_counts_for_the_member_that_streams_it():
    late_start = [chat_chunk("", role="assistant"), PAUSE, *COMPLETE_STREAM]
    async with (
        scripted_server(listing=LISTING, lines=[PAUSE, CUT]) as bad,
        scripted_server(listing=LISTING, lines=late_start) as late,
        scripted_server(**COMPLETE) as good,
        scripted_server(listing=LISTING, answer=WHOLE) as whole,
        pool_client() as client,
    ):
        for first, second in (
            (member("late", late.url), member("unused", GONE)),
            (member("breaks", bad.url), member("quick", good.url)),
            (member("whole", whole.url, stream_usage=False), member("unused", GONE)),
        ):
            pool = pool_of(first, second)
            outputs = await read(client, pool, request_preferring(pool, first.name))
            assert outputs[-1].finish_reason is FinishReason.STOP

    text = render().decode()
    sample = r'stoa_pool_time_to_first_token_seconds_%s,?member="(late|breaks|quick|whole)",model="big"} ([0-9.]+)'
    assert dict(re.findall(sample % "count{", text)) == {"late": "1.0", "quick": "1.0"}
    assert dict(re.findall(sample % 'bucket{le="1.0"', text)) == {"late": "0.0", "quick": "1.0"}


async def test_after_its_first_token_a_failure_ends_the_stream():
    lines = [chat_chunk("one"), CUT]
    async with (
        scripted_server(lines=lines, listing=LISTING) as bad,
        scripted_server(**COMPLETE) as good,
        pool_client() as client,
    ):
        pool = pool_of(member("bad", bad.url), member("good", good.url))
        outputs = await read(client, pool, request_preferring(pool, "bad"))

    assert [output.text for output in outputs] == ["one", ""]
    assert (outputs[-1].finish_reason, outputs[-1].error_code) == (FinishReason.ERROR, "EngineDied")
    assert [received.path for received in good.requests] == ["/v1/models"]


async def test_a_clients_mistake_is_sent_to_one_member_only():
    script = {"status": 400, "answer": {"error": {"message": "no", "param": "seed"}}}
    async with (
        scripted_server(listing=LISTING, **script) as one,
        scripted_server(listing=LISTING, **script) as two,
        pool_client() as client,
    ):
        pool = pool_of(member("one", one.url), member("two", two.url))
        with pytest.raises(InvalidRequest):
            await read(client, pool, request_preferring(pool, "one"))

    assert [received.path for received in two.requests if "chat" in received.path] == []


async def test_a_parameter_is_sent_to_a_member_whose_dialect_has_it():
    async with scripted_server(**COMPLETE) as plain, scripted_server(**COMPLETE) as vllm, pool_client() as client:
        pool = pool_of(member("plain", plain.url), member("vllm", vllm.url, dialect="vllm"))
        request = request_preferring(pool, "plain", sampling=SamplingParams(top_k=7))
        await read(client, pool, request)
        with pytest.raises(InvalidRequest, match="`top_k` is not supported"):
            await read(client, pool_of(pool.members[0]), request)
        gone = member("vllm", GONE, dialect="vllm")
        with pytest.raises(RemoteUnavailable):  # of the member that supports it
            await read(client, pool_of(pool.members[0], gone), request)

    [received] = [one for one in vllm.requests if "chat" in one.path]
    assert received.body["top_k"] == 7


async def test_a_request_that_fails_at_every_member_has_the_first_error_after_three_tries():
    async with contextlib.AsyncExitStack() as stack, pool_client() as client:
        scripts = [{"status": 503, "answer": {}}, *[{"status": 500, "answer": {}}] * 4]
        servers = [await stack.enter_async_context(scripted_server(listing=LISTING, **script)) for script in scripts]
        pool = pool_of(*(member(f"m{number}", server.url) for number, server in enumerate(servers)))
        with pytest.raises(EngineOverloaded):
            await read(client, pool, request_preferring(pool, "m0"))
        sent = sum("chat" in received.path for server in servers for received in server.requests)
    assert sent == 3


async def test_members_that_cannot_be_reached_are_no_tries():
    async with scripted_server(**COMPLETE) as good, pool_client() as client:
        pool = pool_of(
            *(member(f"gone{number}", GONE, model=str(number)) for number in range(6)), member("good", good.url)
        )
        ranked = rank_members(affinity_key(request := request_preferring(pool, "gone0")), pool.members)
        outputs = await read(client, pool, request)
    assert outputs[-1].finish_reason is FinishReason.STOP
    assert ranked[0].name == "gone0"


async def test_members_that_cannot_be_reached_cost_a_limited_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("inference.pools.client.MAX_UNREACHED_SECONDS", 0.5)
    async with pool_client() as client:
        pool = pool_of(*(member(f"gone{number}", GONE, model=str(number)) for number in range(16)))
        sent = []

        async def refuse(model: RemoteModel, *_: Any) -> None:
            sent.append(model)
            await asyncio.sleep(0.3)
            raise RemoteUnavailable("gone", was_reached=False)

        async def check(model: RemoteModel) -> None:
            await asyncio.sleep(10)

        monkeypatch.setattr(client.remote, "generate", refuse)
        monkeypatch.setattr(client.remote, "check", check)
        with pytest.raises(RemoteUnavailable):
            await read(client, pool, request_preferring(pool, "gone0"))
    assert len(sent) == 2


async def test_a_failed_member_gets_no_requests_until_a_check_or_a_request_succeeds():
    async with scripted_server(**COMPLETE) as good, pool_client() as client:
        async with scripted_server() as gone:
            port = int(gone.url.split(":")[2].split("/")[0])
        pool = pool_of(member("back", gone.url), member("good", good.url))
        request = request_preferring(pool, "back")
        await read(client, pool, request)
        health = client.remote.health(pool.members[0].model)
        assert health.error == "The remote server does not answer."
        async with scripted_server(port=port, listing=LISTING) as back:
            health.checked_at = float("-inf")
            await read(client, pool, request)  # goes to the other one, and starts a check
            async with asyncio.timeout(10):
                while health.error:  # noqa: ASYNC110 in the background
                    await asyncio.sleep(0.01)
            assert [received.path for received in back.requests] == ["/v1/models"]


async def test_a_draining_member_finishes_its_requests_and_gets_no_new_ones():
    lines = [chat_chunk("one"), HANG]
    async with (
        scripted_server(lines=lines, listing=LISTING) as old,
        scripted_server(**COMPLETE) as new,
        pool_client() as client,
    ):
        pool = pool_of(member("old", old.url), member("new", new.url))
        request = request_preferring(pool, "old")
        async with await client.generate(pool, request) as stream:
            assert (await anext(stream)).text == "one"
            draining = pool_of(member("old", old.url, is_draining=True), member("new", new.url))
            await read(client, draining, request)
            assert client.load(draining.members[0]) == 1
            assert not old.disconnected.is_set()
        await asyncio.wait_for(old.disconnected.wait(), 10)
        with pytest.raises(RemoteUnavailable, match="being drained"):
            await read(client, pool_of(draining.members[0]), request)
    assert sum("chat" in received.path for received in old.requests) == 1


async def test_a_time_limit_ends_the_request_without_a_second_member():
    async with (
        scripted_server(listing=LISTING, lines=[KEEP_ALIVE]) as slow,
        scripted_server(**COMPLETE) as good,
        pool_client() as client,
    ):
        pool = pool_of(member("slow", slow.url, first_token_timeout=0.3), member("good", good.url))
        outputs = await read(client, pool, request_preferring(pool, "slow"))
    assert (outputs[-1].finish_reason, outputs[-1].error_code) == (FinishReason.ERROR, "TIMEOUT")


@pytest.mark.parametrize("script", [{"lines": [KEEP_ALIVE]}, {"is_silent": True}], ids=["begun", "silent"])
async def test_a_member_that_hangs_rests_and_then_gets_one_request_at_a_time(script: dict[str, Any]):
    """Its server lists its models all the while."""
    async with (
        scripted_server(listing=LISTING, **script) as stuck,
        scripted_server(**COMPLETE) as good,
        pool_client() as client,
    ):
        short = {"first_token_timeout": 0.5, "connect_timeout": 0.1}
        pool = pool_of(member("stuck", stuck.url, **short), member("good", good.url))
        request = request_preferring(pool, "stuck")
        await read_or_fail(client, pool, request)
        health = client.remote.health(pool.members[0].model)
        assert health.error == HANGS
        assert (await read_or_fail(client, pool, request))[-1].finish_reason is FinishReason.STOP

        health.checked_at = float("-inf")
        await client.remote.check(pool.members[0].model)
        assert health.error is None
        trial = asyncio.create_task(read_or_fail(client, pool, request))
        await asyncio.sleep(0.1)
        for _ in range(3):
            assert (await read(client, pool, request))[-1].finish_reason is FinishReason.STOP
        assert not trial.done()
        await trial
        assert health.error == HANGS

        stuck.lines, stuck.is_silent, health.checked_at = COMPLETE_STREAM, False, float("-inf")
        await client.remote.check(pool.members[0].model)
        await read(client, pool, request)
        await wait_until_idle(client, pool)
        assert (health.error, health.is_on_trial) == (None, False)
    assert sum("chat" in received.path for received in stuck.requests) == 3


async def test_the_time_limit_of_a_request_makes_no_member_rest():
    async with scripted_server(listing=LISTING, lines=[KEEP_ALIVE]) as slow, pool_client() as client:
        pool = pool_of(member("slow", slow.url))
        outputs = await read(client, pool, request_preferring(pool, "slow", timeout=0.3))
        assert outputs[-1].error_code == "TIMEOUT"
        slow.lines, slow.is_silent = [], True
        with pytest.raises(DeadlineExceeded):
            await read(client, pool, request_preferring(pool, "slow", timeout=0.3))
        assert client.remote.health(pool.members[0].model).error is None


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ({"status": 500}, "The remote server returned status 500."),
        ({"status": 504}, "The remote server returned status 504."),
        ({"status": 503}, None),
        ({"status": 503, "retry_after": "1"}, None),
        ({"status": 429}, None),
    ],
)
async def test_a_member_rests_when_three_requests_in_a_row_failed(script: dict[str, Any], error: str | None):
    async with scripted_server(listing=LISTING, answer={}, **script) as bad, pool_client() as client:
        pool = pool_of(member("bad", bad.url))
        request = request_preferring(pool, "bad")
        health = client.remote.health(pool.members[0].model)
        for is_last in (False, False, False, False, True):
            if len(bad.requests) == 2:
                bad.lines = COMPLETE_STREAM
                await read(client, pool, request)
                await wait_until_idle(client, pool)
                bad.lines = []
            assert health.error is None
            with pytest.raises(EngineError):
                await read(client, pool, request)
            assert health.error == (error if is_last else None)


async def test_a_full_member_is_no_failed_one_and_its_requests_go_to_another():
    """SGLang's answer to a request over its queue's limit, while its list of models works."""
    full = {"status": 503, "answer": {"error": {"message": "The request queue is full."}}}
    async with (
        scripted_server(listing=LISTING, **full) as busy,
        scripted_server(**COMPLETE) as good,
        pool_client() as client,
    ):
        pool = pool_of(member("busy", busy.url), member("good", good.url))
        for _ in range(4):
            outputs = await read(client, pool, request_preferring(pool, "busy"))
            assert outputs[-1].finish_reason is FinishReason.STOP
        health = client.remote.health(pool.members[0].model)
        assert (health.error, health.is_on_trial) == (None, False)
        busy.lines = COMPLETE_STREAM
        await read(client, pool, request_preferring(pool, "busy"))
        assert busy.requests[-1].path == "/v1/chat/completions"
        assert sum("chat" in received.path for received in busy.requests) == 5


async def read_or_fail(client: PoolClient, pool: Pool, request: GenerationRequest) -> list[GenerationOutput]:
    """Return the outputs of a request, or none if it fails before its response begins."""
    try:
        return await read(client, pool, request)
    except EngineError:
        return []


async def test_closing_a_stream_frees_its_member():
    async with scripted_server(is_silent=True) as silent, pool_client() as client:
        pool = pool_of(member("silent", silent.url))
        waiting = asyncio.create_task(client.generate(pool, request_preferring(pool, "silent")))
        await asyncio.wait_for(silent.arrived.wait(), 10)
        assert client.load(pool.members[0]) == 1
        waiting.cancel()
        await asyncio.wait_for(silent.disconnected.wait(), 10)
        await wait_until_idle(client, pool)
    async with scripted_server(listing=LISTING, lines=[chat_chunk("one"), HANG]) as server, pool_client() as client:
        pool = pool_of(member("hanging", server.url))
        await (await client.generate(pool, request_preferring(pool, "hanging"))).close()
        await asyncio.wait_for(server.disconnected.wait(), 10)
        await wait_until_idle(client, pool)


async def test_a_failed_member_is_logged_by_its_server_without_its_key():
    async with pool_client() as client:
        with capture_logs() as logs, pytest.raises(RemoteUnavailable):
            await read(client, pool_of(member("gone", GONE)), request_preferring(pool_of(member("gone", GONE)), "gone"))
    assert [(one["event"], one["server"]) for one in logs] == [("remote_model_failed", "127.0.0.1:9")]
    assert KEY not in str(logs)


async def test_embeddings_fail_over_too():
    vectors = {"data": [{"index": 0, "embedding": [1.0]}], "usage": USAGE}
    able = ("embeddings",)
    async with (
        scripted_server(listing=LISTING, answer={"data": []}) as bad,
        scripted_server(listing=LISTING, answer=vectors) as good,
        scripted_server(**COMPLETE) as writer,
        pool_client() as client,
    ):
        members = [member("bad", bad.url, capabilities=able), member("good", good.url, capabilities=able)]
        pool = pool_of(*members, member("writer", writer.url))
        for number in range(8):
            result = await client.embed(pool, EmbeddingRequest(request_id=f"r{number}", texts=("a",)))
            assert (result.dimensions, result.prompt_tokens) == (1, 5)
        with pytest.raises(InferenceFailed):
            await client.embed(pool_of(members[0]), EmbeddingRequest(request_id="r", texts=("a",)))
    assert "/v1/embeddings" in [received.path for received in bad.requests]
    assert writer.requests == []


def listing(**fields: Any) -> dict[str, Any]:
    return {"answer": {"data": [{"id": "big"}]}} | fields


@pytest.mark.parametrize(
    ("script", "state", "error", "warning"),
    [
        (listing(), "ready", None, None),
        (listing(clock=0), "ready", None, None),
        (listing(clock=-3600), "ready", None, "seconds behind"),
        (listing(clock=3600), "ready", None, "seconds ahead"),
        ({"status": 401, "answer": {}}, "failed", "rejects the configured API key", None),
        ({"answer": {"data": [{"id": "other"}]}}, "failed", "does not list the model", None),
        ({"lines": ["<html>"]}, "failed", "does not answer in OpenAI's form", None),
    ],
)
async def test_a_check_says_what_is_wrong_with_a_member(
    script: dict[str, Any], state: str, error: str | None, warning: str | None, monkeypatch: pytest.MonkeyPatch
):
    script = dict(script)
    if (clock := script.pop("clock", None)) is not None:
        script["date"] = formatdate(time.time() + clock, usegmt=True)
    async with scripted_server(**script) as server, pool_client() as client:
        [found] = await states_of(client, pool_of(member("one", server.url)), monkeypatch)

    assert found.state == state
    assert (error or "") in (found.error or "")
    assert (warning or "") in (found.warning or "")
    assert (found.error is None, found.warning is None) == (error is None, warning is None)


async def test_a_pool_fails_when_no_member_is_ready(monkeypatch: pytest.MonkeyPatch):
    async with scripted_server(**listing()) as server, pool_client() as client:
        gone, ready = member("gone", GONE), member("ready", server.url)
        states = await states_of(client, pool_of(gone, ready), monkeypatch)
        assert describe_failure(states) is None
        assert describe_failure(states[:1]) == "The remote server does not answer."
        drained = await states_of(client, pool_of(gone, member("ready", server.url, is_draining=True)), monkeypatch)
    assert describe_failure(drained) == "No member is ready. gone: The remote server does not answer. ready: It drains."


async def test_garbage_makes_a_member_failed_and_a_hung_check_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("inference.remote.client.CHECK_TIMEOUT_SECONDS", 0.2)
    async with (
        scripted_server(lines=["{nonsense"]) as bad,
        scripted_server(is_silent=True) as hung,
        pool_client() as client,
    ):
        pool = pool_of(member("bad", bad.url))
        outputs = await read(client, pool, request_preferring(pool, "bad"))
        assert outputs[-1].finish_reason is FinishReason.ERROR
        assert "another form than OpenAI's" in (client.remote.health(pool.members[0].model).error or "")
        [state] = await states_of(client, pool_of(member("hung", hung.url)), monkeypatch)
        assert (state.state, state.error) == ("failed", "The remote server does not answer.")


async def test_a_server_is_known_by_its_settings_so_that_a_new_key_is_tried_at_once():
    async with scripted_server(status=401, answer={}) as wrong, pool_client() as client:
        pool = pool_of(member("one", wrong.url))
        with pytest.raises(RemoteUnavailable):
            await read(client, pool, request_preferring(pool, "one"))
        wrong.status, wrong.lines = 200, COMPLETE_STREAM
        changed = Pool("big", (Member("one", RemoteModel(id="big", base_url=wrong.url, api_key="new")),))
        outputs = await read(client, changed, request_preferring(changed, "one"))
    assert outputs[-1].finish_reason is FinishReason.STOP
    assert wrong.requests[-1].headers["authorization"] == "Bearer new"
