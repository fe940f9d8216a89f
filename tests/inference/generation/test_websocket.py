"""Concurrent inferences over one WebSocket connection."""

import asyncio
import json
import time
from collections import defaultdict

import pytest
from websockets.asyncio.client import connect

from tests.inference.engine.processes import eventually_idle
from tests.inference.running_server import RunningServer
from tests.inference.websocket_client import (
    Message,
    authenticated_websocket,
    receive_message,
    receive_until,
    send_and_receive_each,
    send_messages,
    websocket_url,
)

INFERENCE = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak"}
LONG = INFERENCE | {"max_tokens": 4000}  # the fake takes 10 ms a token


async def test_auth_and_inferences_may_be_pipelined(stoa: RunningServer):
    async with connect(websocket_url(stoa)) as client:
        await send_messages(client, {"type": "auth", "token": stoa.keys["STAFF"]}, INFERENCE | {"max_tokens": 2})
        frames = await receive_until(client, "complete")

    assert frames[0] == {
        "type": "auth",
        "status": "ok",
        "user": frames[0]["user"],
        "limits": {
            "inferences": 16,
            "message_bytes": 2**20,
            "requests_per_minute": 100_000,
            "tokens_per_minute": 1_000_000_000,
            "concurrent_requests": 10_000,
        },
        "server_version": stoa.get("/health").json()["version"],
    }
    assert (frames[0]["user"]["username"], frames[0]["user"]["role"]) == ("staff@example.com", "STAFF")
    assert frames[1:3] == [
        {"type": "token", "id": "a", "token": "w0 ", "index": 0},
        {"type": "token", "id": "a", "token": "w1 ", "index": 1},
    ]
    assert frames[3] == {
        "type": "complete",
        "id": "a",
        "model": "talker",
        "finish_reason": "length",
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
        "processing_time_ms": frames[3]["processing_time_ms"],
    }


async def test_without_streaming_the_whole_text_of_each_choice_is_sent(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        await send_messages(client, INFERENCE | {"max_tokens": 2, "stream": False})
        whole = await receive_message(client)
        assert (whole["type"], whole["text"], "choices" in whole) == ("complete", "w0 w1 ", False)

        await send_messages(client, INFERENCE | {"max_tokens": 2, "stream": False, "n": 2})
        several = await receive_message(client)
        assert several["usage"]["completion_tokens"] == 4
        assert several["choices"] == [
            {"index": index, "finish_reason": "length", "text": "w0 w1 "} for index in range(2)
        ]

        await send_messages(client, INFERENCE | {"max_tokens": 1, "n": 2})
        frames = await receive_until(client, "complete")
        assert [(frame["choice"], frame["index"]) for frame in frames[:-1]] == [(0, 0), (1, 0)]
        assert [choice["finish_reason"] for choice in frames[-1]["choices"]] == ["length", "length"]


async def test_messages_replace_a_prompt(stoa: RunningServer):
    chat = {name: value for name, value in INFERENCE.items() if name != "prompt"}
    chat |= {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    async with authenticated_websocket(stoa) as client:
        await send_messages(client, chat)
        assert (await receive_until(client, "complete"))[0]["token"] == "w0 "


async def test_a_pong_has_the_fields_of_its_ping(stoa: RunningServer):
    ping = {"type": "ping", "id": 7, "at": [1.5, None, 2**80, {"é": "\u2028"}]}
    async with authenticated_websocket(stoa) as client:
        await send_messages(client, ping)
        assert await receive_message(client) == ping | {"type": "pong"}


async def test_a_clients_own_pong_is_ignored(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        await send_messages(client, {"type": "pong"}, {"type": "pong", "at": 17}, {"type": "ping", "id": 1})
        assert await receive_message(client) == {"type": "pong", "id": 1}


async def test_r2_inferences_over_the_limit_of_a_connection_are_told_when_to_try_again(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        await send_messages(client, *[LONG | {"id": str(number)} for number in range(24)])
        refused = [message for _ in range(8) for message in await receive_until(client, "error") if "code" in message]
        assert sorted(message["id"] for message in refused) == [str(number) for number in range(16, 24)]
        assert {message["code"] for message in refused} == {"RATE_LIMIT_EXCEEDED"}
        assert {message["details"]["retry_after"] for message in refused} == {1}
    await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


async def test_s10_sixteen_concurrent_streams_over_one_connection_have_the_texts_of_single_ones(stoa: RunningServer):
    requests = [
        INFERENCE | {"id": f"id {number}", "prompt": "introduce", "timeout": 100 + number, "max_tokens": 10 + number}
        for number in range(16)
    ]  # each says its own time limit with every token
    async with authenticated_websocket(stoa) as client:
        alone: dict[str, list[Message]] = {}
        for request in requests:
            await send_messages(client, request)
            alone[str(request["id"])] = await receive_until(client, "complete")
        together: dict[str, list[Message]] = defaultdict(list)
        await send_messages(client, *requests)
        while sum(frames[-1]["type"] == "complete" for frames in together.values()) < 16:
            frame = await receive_message(client)
            together[frame["id"]].append(frame)

    for number in range(16):
        tokens = together[f"id {number}"][:-1]
        assert len(tokens) == 10 + number
        assert all(f"timeout={100 + number}.0 " in frame["token"] for frame in tokens)
    for frame in [frames[-1] for frames in [*alone.values(), *together.values()]]:
        del frame["processing_time_ms"]
    assert together == alone


async def test_s10_sixteen_of_fifty_inferences_run_undisturbed_by_rejected_ones(
    stoa: RunningServer,
):
    async with authenticated_websocket(stoa) as client:
        fifty = [INFERENCE | {"id": str(number), "prompt": "silence"} for number in range(50)]
        await send_messages(client, *fifty[:16])
        *surplus, same = await send_and_receive_each(client, *fifty[16:], INFERENCE | {"id": "3"})
        assert {frame["code"] for frame in surplus} == {"RATE_LIMIT_EXCEEDED"}
        assert [frame["id"] for frame in surplus] == [str(number) for number in range(16, 50)]
        assert (same["code"], same["id"], same["details"]) == ("INVALID_REQUEST", "3", {"field": "id"})

        await send_messages(client, {"type": "cancel", "id": "3"}, INFERENCE | {"id": "16", "max_tokens": 1})
        ended = [frame for frame in await receive_until(client, "token") if frame["type"] == "complete"]
        assert [(frame["id"], frame["finish_reason"]) for frame in ended] == [("3", "cancelled")]
    await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


async def test_s10_a_cancelled_inference_completes_and_frees_its_slot(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client, authenticated_websocket(stoa) as other:
        await send_messages(client, LONG, INFERENCE | {"id": "b", "max_tokens": 30})
        frames = [await receive_message(client), await receive_message(client)]
        foreign, unknown = await send_and_receive_each(
            other, {"type": "cancel", "id": "a"}, {"type": "cancel", "id": "nobody"}
        )
        assert foreign["code"] == unknown["code"] == "INVALID_REQUEST"

        await send_messages(client, {"type": "cancel", "id": "a"})
        frames += await receive_until(client, "complete")
        told = [frame for frame in frames if frame["id"] == "a"]
        assert told[-1]["finish_reason"] == "cancelled"
        assert told[-1]["usage"]["prompt_tokens"] == 5
        assert told[-1]["usage"]["completion_tokens"] == told[-2]["index"] + 1
        assert (await receive_until(client, "complete"))[-1]["finish_reason"] == "length"
        assert (await send_and_receive_each(client, {"type": "cancel", "id": "a"}))[0]["code"] == "INVALID_REQUEST"
        await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


async def test_s2_a_disconnected_client_frees_all_its_slots(stoa: RunningServer):
    for _ in range(5):
        async with authenticated_websocket(stoa) as client:
            await send_messages(client, *(LONG | {"id": str(number)} for number in range(8)))
            await receive_message(client)
            client.transport.abort()
        await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        ({"type": "nothing"}, "type"),
        ({"type": 7}, "type"),
        ({}, "type"),
        ({"type": "inference"}, "id"),
        (INFERENCE | {"id": ""}, "id"),
        (INFERENCE | {"id": 7}, "id"),
        (INFERENCE | {"id": "x" * 129}, "id"),
        ({"type": "inference", "id": "a", "model": "talker"}, "prompt"),
        (INFERENCE | {"messages": [{"role": "user", "content": "x"}]}, "messages"),
        ({"type": "inference", "id": "a", "model": "talker", "messages": []}, "messages"),
        (INFERENCE | {"prompt": None}, "prompt"),
        (INFERENCE | {"unknown": 1}, "unknown"),
        (INFERENCE | {"temperature": 2.1}, "temperature"),
        (INFERENCE | {"max_tokens": "3"}, "max_tokens"),
        (INFERENCE | {"n": 9}, "n"),
        (INFERENCE | {"stop": ["x"] * 17}, "stop"),
        (INFERENCE | {"stream": 1}, "stream"),
        (INFERENCE | {"logit_bias": []}, "logit_bias"),
        ({"type": "cancel"}, "id"),
        ({"type": "cancel", "id": "a", "more": 1}, "more"),
        ({"type": "auth"}, "token"),
    ],
)
async def test_i4_s13_the_error_of_an_invalid_message_names_the_field(stoa: RunningServer, frame: Message, field: str):
    async with authenticated_websocket(stoa) as client:
        (refused,) = await send_and_receive_each(client, frame)
        assert refused["type"] == "error"
        assert refused["code"] == "INVALID_REQUEST"
        assert refused["details"]["field"] == field
        assert (await send_and_receive_each(client, {"type": "ping"}))[0] == {"type": "pong"}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "7", '"x"', "{'type': 'ping'}", '{"type": "ping", "type": "ping"}', '{"type": NaN}',
        '{"type": "ping", "x": 1e999}', '{"type": "ping", "x": ' + "9" * 5000 + "}", '{"x": "\\u0000"}',
        '{"x": "\\ud800"}', "[" * 2000, '{"x":' * 70 + "1" + "}" * 70, b"\xff\x00", b"{}",
    ],
)  # fmt: skip
async def test_i2_s13_a_message_that_is_no_json_object_is_an_error_and_the_connection_stays_open(
    stoa: RunningServer, text: str | bytes
):
    async with authenticated_websocket(stoa) as client:
        (refused,) = await send_and_receive_each(client, text)
        assert (refused["type"], refused["code"]) == ("error", "INVALID_REQUEST")
        assert "id" not in refused
        assert (await send_and_receive_each(client, {"type": "ping"}))[0] == {"type": "pong"}


async def test_an_engine_error_reads_as_over_http(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        nobody, idle, long = await send_and_receive_each(
            client, INFERENCE | {"model": "nobody"}, INFERENCE | {"model": "idle"}, INFERENCE | {"prompt": "long"}
        )
    for told, (model, prompt) in zip(
        (nobody, idle, long), (("nobody", "speak"), ("idle", "speak"), ("talker", "long")), strict=True
    ):
        over_http = stoa.post("/inference", {"model": model, "prompt": prompt}).json()["error"]
        assert {name: told[name] for name in over_http} == over_http
        assert told["id"] == "a"
        assert told["request_id"].startswith("req_")


async def test_s11_a_model_that_crashes_during_a_stream_is_an_error_of_that_inference(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        await send_messages(client, LONG)
        await receive_message(client)
        await send_messages(client, INFERENCE | {"id": "b", "prompt": "die"})
        broken: dict[str, tuple[str, dict[str, object]]] = {}
        while len(broken) < 2:
            frame = (await receive_until(client, "error"))[-1]
            broken[frame["id"]] = (frame["code"], frame["details"])
        again = ("INFERENCE_FAILED", {"reason": "model_restarting", "retry_after": 2})
        assert broken == {"a": again, "b": again}
        deadline = time.monotonic() + 100
        while True:
            await send_messages(client, INFERENCE | {"max_tokens": 1})
            if (await receive_until(client, "complete", "error"))[-1]["type"] == "complete":
                break
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def test_each_inference_has_one_log_event_with_its_own_request_id_and_no_text(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        await send_messages(client, INFERENCE | {"prompt": "a very secret prompt", "max_tokens": 1})
        await receive_until(client, "complete")
        (refused,) = await send_and_receive_each(client, INFERENCE | {"model": "no such model"})
    lines = [json.loads(line) for line in stoa.log.read_text().splitlines()]
    inferences = [line for line in lines if line["event"] == "socket_inference"]
    assert (inferences[-2]["outcome"], inferences[-1]["outcome"]) == ("length", "MODEL_NOT_FOUND")
    assert inferences[-1]["request_id"] == refused["request_id"] != inferences[-2]["request_id"]
    assert "secret" not in stoa.log.read_text()
    assert "w0" not in stoa.log.read_text()
