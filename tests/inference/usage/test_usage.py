"""GET /usage, and the ledger after requests that end in every possible way."""

import asyncio
import os
import signal
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from websockets.asyncio.client import connect

from shared.serving.processes.local_redis import LocalRedis
from tests.inference.engine.processes import eventually_idle, running_host
from tests.inference.running_server import (
    EMBEDDER_CONFIG,
    TALKER_CONFIG,
    add_model,
    run_manage,
    running_server,
    start_server,
)
from tests.inference.usage.conftest import LimitedServers, make_keys
from tests.inference.websocket_client import receive_until, send_messages, server_process

BODY = {"model": "talker", "prompt": "speak"}
LONG = BODY | {"max_tokens": 3000, "stream": True}

_SUMS = "from inference.usage.models import DailyUsage; import json; print(json.dumps(DailyUsage.objects.sums()))"


def total(limited: LimitedServers, key: str, index: int = 0, query: str = "") -> dict[str, int]:
    answer = limited.get(f"/usage{query}", key, index)
    assert answer.status_code == 200, answer.text
    counts: dict[str, int] = answer.json()["total"]
    return counts


def usage_counts(requests: int, prompt: int, cached: int, completion: int) -> dict[str, int]:
    return {
        "requests": requests,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


@pytest.fixture
def fresh(limited: LimitedServers) -> LimitedServers:
    """Add a key `fresh` of a new user, who has used nothing yet."""
    specs: dict[str, dict[str, object]] = {"fresh": {"user": f"fresh-{time.monotonic_ns()}"}}
    limited.keys |= make_keys(limited.stoa.environment, specs)
    return limited


def test_usage_is_reported_immediately_by_day_model_and_key(fresh: LimitedServers):
    assert fresh.post("/inference", "fresh", BODY | {"max_tokens": 3, "n": 2}).status_code == 200
    fresh.post("/v1/completions", "fresh", {"model": "talker", "prompt": ["ab", "cdef"], "max_tokens": 2})
    fresh.post("/embeddings", "fresh", {"model": "embedder", "input": ["a", "b"]})
    fresh.post("/inference", "fresh", BODY | {"prompt": "long"})  # refused, so not counted
    sums = [usage_counts(2, 5 + 2 + 4, 2 + 1 + 2, 6 + 4), usage_counts(1, 1, 0, 0)]

    today = datetime.now(UTC).date().isoformat()
    answer = fresh.get("/usage?group_by=model", "fresh").json()
    assert answer["data"] == [sums[1] | {"model": "embedder"}, sums[0] | {"model": "talker"}]
    assert answer["total"] == usage_counts(3, 12, 5, 10)
    assert (answer["to"], answer["group_by"]) == (today, "model")
    assert datetime.fromisoformat(answer["to"]) - datetime.fromisoformat(answer["from"]) == timedelta(days=29)

    by_day = fresh.get(f"/usage?from={today}&to={today}", "fresh").json()
    assert by_day["data"] == [usage_counts(3, 12, 5, 10) | {"day": today}]
    [by_key] = fresh.get("/usage?group_by=key", "fresh").json()["data"]
    assert by_key["key"]["name"] == "fresh"
    assert fresh.keys["fresh"].startswith(by_key["key"]["prefix"])
    assert fresh.get("/usage?to=2020-01-01", "fresh").json()["data"] == []


async def test_streams_sockets_and_disconnected_requests_are_counted(fresh: LimitedServers):
    fresh.post("/inference/stream", "fresh", BODY | {"max_tokens": 4})
    async with connect(fresh.urls[0].replace("http", "ws", 1) + "/ws") as socket:
        await send_messages(socket, {"type": "auth", "token": fresh.keys["fresh"]})
        await send_messages(socket, BODY | {"type": "inference", "id": "a", "max_tokens": 2})
        await receive_until(socket, "complete")
    assert total(fresh, "fresh") == usage_counts(2, 10, 4, 6)

    async with fresh.client("fresh") as client, client.stream("POST", "/inference/stream", json=LONG) as answer:
        lines = answer.aiter_lines()
        for _ in range(10):
            await anext(lines)
    await eventually_idle(fresh.stoa.engine, "talker")
    await fresh.stoa.engine.close()
    counts = total(fresh, "fresh")
    assert (counts["requests"], counts["prompt_tokens"]) == (3, 15)
    assert 6 + 5 <= counts["completion_tokens"] < 6 + 2000


def test_another_process_reports_the_same_usage_shortly_after(fresh: LimitedServers):
    fresh.post("/inference", "fresh", BODY | {"max_tokens": 3})
    deadline = time.monotonic() + 30
    while total(fresh, "fresh", index=1) != usage_counts(1, 5, 2, 3):
        assert time.monotonic() < deadline
        time.sleep(0.2)


async def test_limits_and_remaining_amounts_are_reported(limited: LimitedServers):
    limited.post("/inference", "first", BODY | {"max_tokens": 5})
    async with limited.client("second") as client, client.stream("POST", "/inference/stream", json=LONG) as answer:
        await anext(answer.aiter_lines())
        key, user = limited.get("/usage", "second", index=1).json()["limits"]
        [apart] = limited.get("/usage", "apart").json()["limits"]
    assert (key["scope"], user["scope"], apart["scope"]) == ("key", "user", "key")
    assert key["requests_per_minute"]["remaining"] == 100_000 - 2
    assert (user["requests_per_minute"]["limit"], user["requests_per_minute"]["remaining"]) == (400, 397)
    assert key["concurrent_requests"] == {"limit": 10_000, "remaining": 9_999}
    assert user["concurrent_requests"] == {"limit": 6, "remaining": 5}
    assert key["tokens_per_minute"]["limit"] - key["tokens_per_minute"]["remaining"] == 3002
    assert user["tokens_per_minute"]["limit"] - user["tokens_per_minute"]["remaining"] == 3012
    assert 0 < user["tokens_per_minute"]["reset_after"] <= 60
    assert (apart["requests_per_minute"]["limit"], apart["concurrent_requests"]["remaining"]) == (1000, 10_000)
    await eventually_idle(limited.stoa.engine, "talker")
    await limited.stoa.engine.close()


def test_a_user_sees_all_usage_and_a_restricted_key_only_its_own(limited: LimitedServers):
    for key in ("first", "narrow"):
        limited.post("/inference", key, BODY | {"max_tokens": 1})
    [own] = limited.get("/usage?group_by=key", "narrow").json()["data"]
    assert own["key"]["name"] == "narrow"
    names = [row["key"]["name"] for row in limited.get("/usage?group_by=key", "second").json()["data"]]
    assert set(names) >= {"first", "narrow"}


def test_only_model_managers_read_another_users_usage(fresh: LimitedServers):
    fresh.post("/inference", "fresh", BODY | {"max_tokens": 1})
    user_id = newest_user_id(fresh)
    assert fresh.get(f"/usage?user={user_id}", "fresh").status_code == 200
    assert fresh.get(f"/usage?user={user_id}", "other").status_code == 403
    answer = fresh.stoa.get(f"/usage?user={user_id}&group_by=model")
    assert answer.json()["total"] == usage_counts(1, 5, 2, 1)
    assert [scope["scope"] for scope in answer.json()["limits"]] == ["user"]
    assert fresh.stoa.get("/usage?user=999999").status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        "from=x",
        "to=2026-13-01",
        "group_by=user",
        "user=0",
        "days=3",
        "from=2026-02-02&to=2026-02-01",
        "from=0001-01-01",
    ],
)
def test_an_invalid_query_is_400(limited: LimitedServers, query: str):
    answer = limited.get(f"/usage?{query}", "other")

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert answer.json()["error"]["details"]["field"] == query.partition("=")[0]


def newest_user_id(limited: LimitedServers) -> int:
    code = "from shared.accounts.models import User; print(User.objects.order_by('-pk')[0].pk)"
    done = run_manage(limited.stoa.environment, "shell", "-v", "0", "-c", code)
    return int(done.stdout)


def ledger_sums(environment: dict[str, str]) -> Any:
    done = run_manage(environment, "shell", "-v", "0", "-c", _SUMS)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.no_database
async def test_d6_without_redis_each_process_limits_requests_and_streams_continue(tmp_path: Path):
    with (
        tempfile.TemporaryDirectory(prefix="stoa") as folder,
        running_host() as host,
        LocalRedis(Path(folder) / "r") as store,
    ):
        add_model(tmp_path / "models", "talker", dict(TALKER_CONFIG))
        extra = {"REDIS_URL": store.url}
        with running_server(tmp_path, host.run_dir, tmp_path / "models", load=["talker"], extra=extra) as stoa:
            keys = make_keys(stoa.environment, {"small": {"limits": [20, 5000, 2]}})
            limited = LimitedServers(stoa, [stoa.url], keys)
            async with limited.client("small") as client:
                async with client.stream("POST", "/inference/stream", json=LONG | {"max_tokens": 300}) as answer:
                    lines = answer.aiter_lines()
                    await anext(lines)
                    store.stop()
                    assert limited.post("/inference", "small", BODY | {"max_tokens": 3}).status_code == 200
                    assert [line async for line in lines if "done" in line] != []
                statuses = [limited.get("/models", "small").status_code for _ in range(22)]
                assert set(statuses) == {200, 429}
                store.start()
                await asyncio.sleep(1.5)
                assert limited.post("/inference", "small", BODY | {"max_tokens": 3}).status_code == 200
            assert limited.get("/usage", "small").json()["total"]["completion_tokens"] == 306
            assert "Traceback" not in stoa.log.read_text()


async def test_sigterm_loses_no_usage_and_frees_concurrency(tmp_path: Path):
    with running_host() as host:
        add_model(tmp_path / "models", "talker", dict(TALKER_CONFIG))
        add_model(tmp_path / "models", "embedder", dict(EMBEDDER_CONFIG))
        with running_server(tmp_path, host.run_dir, tmp_path / "models", load=["talker"]) as stoa:
            keys = make_keys(stoa.environment, {"small": {"limits": [None, 5000, 2]}})
            limited = LimitedServers(stoa, [stoa.url], keys)
            async with limited.client("small") as client:
                sending = client.build_request("POST", "/inference/stream", json=LONG | {"max_tokens": 100})
                answer = await client.send(sending, stream=True)
                lines = answer.aiter_lines()
                await anext(lines)
                os.kill(server_process(stoa).pid, signal.SIGTERM)
                assert '"done":true' in [line async for line in lines if line][-1]
            await asyncio.to_thread(wait_for_server_end, stoa)
            assert ledger_sums(stoa.environment) == (
                '{"requests": 1, "prompt_tokens": 5, "cached_tokens": 2, "completion_tokens": 100}'
            )


async def test_a_killed_server_frees_its_concurrency_when_its_leases_expire(
    limited: LimitedServers, tmp_path: Path, whole: bool
):
    if not whole:
        pytest.skip("takes half a minute: STOA_TEST_WHOLE=1 runs it")
    process, url = start_server(limited.stoa.environment, tmp_path / "killed.log")
    async with httpx2.AsyncClient(base_url=url, headers=limited.headers("two"), timeout=60) as client:
        for _ in range(2):
            await client.send(client.build_request("POST", "/inference/stream", json=LONG), stream=True)
        process.kill()
        process.wait(30)
        assert limited.post("/inference", "two", BODY).status_code == 429
        began = time.monotonic()
        while limited.post("/inference", "two", BODY).status_code == 429:
            assert time.monotonic() < began + 60
            await asyncio.sleep(1)
        assert time.monotonic() > began + 15


def wait_for_server_end(stoa: Any) -> None:
    with suppress(psutil.NoSuchProcess):
        server_process(stoa).wait(60)
