"""GET /usage, and what is in the ledger after requests that ended in every way."""

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

from shared.serving.local_redis import LocalRedis
from tests.inference.engine.processes import eventually_idle, running_host
from tests.inference.served import EMBEDDER_CONFIG, TALKER_CONFIG, add_model, run_manage, served_stoa, start_server
from tests.inference.sockets import hear_until, say, server_process
from tests.inference.usage.conftest import Limited, make_keys

BODY = {"model": "talker", "prompt": "speak"}
LONG = BODY | {"max_tokens": 3000, "stream": True}

_SUMS = "from inference.usage.models import DailyUsage; import json; print(json.dumps(DailyUsage.objects.sums()))"


def total(limited: Limited, key: str, place: int = 0, query: str = "") -> dict[str, int]:
    answer = limited.get(f"/usage{query}", key, place)
    assert answer.status_code == 200, answer.text
    told: dict[str, int] = answer.json()["total"]
    return told


def counted(requests: int, prompt: int, cached: int, completion: int) -> dict[str, int]:
    return {
        "requests": requests,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


@pytest.fixture
def fresh(limited: Limited) -> Limited:
    """With a key, `fresh`, of a user who has used nothing yet."""
    wanted: dict[str, dict[str, object]] = {"fresh": {"user": f"fresh-{time.monotonic_ns()}"}}
    limited.keys |= make_keys(limited.stoa.environment, wanted)
    return limited


def test_what_was_used_is_told_at_once_by_day_model_and_key(fresh: Limited):
    assert fresh.post("/inference", "fresh", BODY | {"max_tokens": 3, "n": 2}).status_code == 200
    fresh.post("/v1/completions", "fresh", {"model": "talker", "prompt": ["ab", "cdef"], "max_tokens": 2})
    fresh.post("/embeddings", "fresh", {"model": "embedder", "input": ["a", "b"]})
    fresh.post("/inference", "fresh", BODY | {"prompt": "long"})  # refused, so nothing
    sums = [counted(2, 5 + 2 + 4, 2 + 1 + 2, 6 + 4), counted(1, 1, 0, 0)]

    today = datetime.now(UTC).date().isoformat()
    answer = fresh.get("/usage?group_by=model", "fresh").json()
    assert answer["data"] == [sums[1] | {"model": "embedder"}, sums[0] | {"model": "talker"}]
    assert answer["total"] == counted(3, 12, 5, 10)
    assert (answer["to"], answer["group_by"]) == (today, "model")
    assert datetime.fromisoformat(answer["to"]) - datetime.fromisoformat(answer["from"]) == timedelta(days=29)

    by_day = fresh.get(f"/usage?from={today}&to={today}", "fresh").json()
    assert by_day["data"] == [counted(3, 12, 5, 10) | {"day": today}]
    [by_key] = fresh.get("/usage?group_by=key", "fresh").json()["data"]
    assert by_key["key"]["name"] == "fresh"
    assert fresh.keys["fresh"].startswith(by_key["key"]["prefix"])
    assert fresh.get("/usage?to=2020-01-01", "fresh").json()["data"] == []


async def test_streams_sockets_and_who_leaves_are_counted(fresh: Limited):
    fresh.post("/inference/stream", "fresh", BODY | {"max_tokens": 4})
    async with connect(fresh.urls[0].replace("http", "ws", 1) + "/ws") as socket:
        await say(socket, {"type": "auth", "token": fresh.keys["fresh"]})
        await say(socket, BODY | {"type": "inference", "id": "a", "max_tokens": 2})
        await hear_until(socket, "complete")
    assert total(fresh, "fresh") == counted(2, 10, 4, 6)

    async with fresh.client("fresh") as client, client.stream("POST", "/inference/stream", json=LONG) as answer:
        lines = answer.aiter_lines()
        for _ in range(10):
            await anext(lines)
    await eventually_idle(fresh.stoa.engine, "talker")
    await fresh.stoa.engine.close()
    told = total(fresh, "fresh")
    assert (told["requests"], told["prompt_tokens"]) == (3, 15)
    assert 6 + 5 <= told["completion_tokens"] < 6 + 2000


def test_another_process_tells_the_same_a_moment_later(fresh: Limited):
    fresh.post("/inference", "fresh", BODY | {"max_tokens": 3})
    deadline = time.monotonic() + 30
    while total(fresh, "fresh", place=1) != counted(1, 5, 2, 3):
        assert time.monotonic() < deadline
        time.sleep(0.2)


async def test_the_limits_and_what_is_left_of_them_are_told(limited: Limited):
    limited.post("/inference", "first", BODY | {"max_tokens": 5})
    async with limited.client("second") as client, client.stream("POST", "/inference/stream", json=LONG) as answer:
        await anext(answer.aiter_lines())
        key, user = limited.get("/usage", "second", place=1).json()["limits"]
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


def test_a_user_sees_all_of_theirs_and_a_narrow_key_its_own(limited: Limited):
    for key in ("first", "narrow"):
        limited.post("/inference", key, BODY | {"max_tokens": 1})
    [own] = limited.get("/usage?group_by=key", "narrow").json()["data"]
    assert own["key"]["name"] == "narrow"
    names = [row["key"]["name"] for row in limited.get("/usage?group_by=key", "second").json()["data"]]
    assert set(names) >= {"first", "narrow"}


def test_only_who_manages_models_asks_for_another(fresh: Limited):
    fresh.post("/inference", "fresh", BODY | {"max_tokens": 1})
    theirs = _newest_user(fresh)
    assert fresh.get(f"/usage?user={theirs}", "fresh").status_code == 200
    assert fresh.get(f"/usage?user={theirs}", "other").status_code == 403
    answer = fresh.stoa.get(f"/usage?user={theirs}&group_by=model")
    assert answer.json()["total"] == counted(1, 5, 2, 1)
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
def test_a_wrong_question_is_400(limited: Limited, query: str):
    answer = limited.get(f"/usage?{query}", "other")

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert answer.json()["error"]["details"]["field"] == query.partition("=")[0]


def _newest_user(limited: Limited) -> int:
    code = "from shared.accounts.models import User; print(User.objects.order_by('-pk')[0].pk)"
    done = run_manage(limited.stoa.environment, "shell", "-v", "0", "-c", code)
    return int(done.stdout)


def sums_in_the_database(environment: dict[str, str]) -> Any:
    done = run_manage(environment, "shell", "-v", "0", "-c", _SUMS)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_d6_with_redis_gone_requests_are_limited_by_each_process_and_streams_go_on(tmp_path: Path):
    with (
        tempfile.TemporaryDirectory(prefix="stoa") as folder,
        running_host() as host,
        LocalRedis(Path(folder) / "r") as store,
    ):
        add_model(tmp_path / "models", "talker", dict(TALKER_CONFIG))
        extra = {"REDIS_URL": store.url}
        with served_stoa(tmp_path, host.run_dir, tmp_path / "models", load=["talker"], extra=extra) as stoa:
            keys = make_keys(stoa.environment, {"small": {"limits": [20, 5000, 2]}})
            limited = Limited(stoa, [stoa.url], keys)
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


async def test_at_sigterm_nothing_of_the_ledger_is_lost_and_places_are_free(tmp_path: Path):
    with running_host() as host:
        add_model(tmp_path / "models", "talker", dict(TALKER_CONFIG))
        add_model(tmp_path / "models", "embedder", dict(EMBEDDER_CONFIG))
        with served_stoa(tmp_path, host.run_dir, tmp_path / "models", load=["talker"]) as stoa:
            keys = make_keys(stoa.environment, {"small": {"limits": [None, 5000, 2]}})
            limited = Limited(stoa, [stoa.url], keys)
            async with limited.client("small") as client:
                sending = client.build_request("POST", "/inference/stream", json=LONG | {"max_tokens": 100})
                answer = await client.send(sending, stream=True)
                lines = answer.aiter_lines()
                await anext(lines)
                os.kill(server_process(stoa).pid, signal.SIGTERM)
                assert '"done":true' in [line async for line in lines if line][-1]
            await asyncio.to_thread(server_process_ended, stoa)
            assert sums_in_the_database(stoa.environment) == (
                '{"requests": 1, "prompt_tokens": 5, "cached_tokens": 2, "completion_tokens": 100}'
            )


async def test_of_a_server_that_is_killed_the_places_come_back(limited: Limited, tmp_path: Path, whole: bool):
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


def server_process_ended(stoa: Any) -> None:
    with suppress(psutil.NoSuchProcess):
        server_process(stoa).wait(60)
