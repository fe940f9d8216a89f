"""Row S15: hundreds of concurrent streams over HTTP and WebSockets, which are not mixed while some disconnect."""

import asyncio
import json
import random

import httpx2
import pytest

from tests.inference.engine.processes import eventually_idle
from tests.inference.running_server import RunningServer
from tests.inference.websocket_client import authenticated_websocket, receive_message, send_messages

ON_A_SOCKET, WORDS = 16, 20
BODY = {"model": "talker", "prompt": "introduce", "max_tokens": WORDS}  # with every token it says its time limit


def tag_of(number: int) -> str:
    return f"timeout={100 + number}.0 "


class StreamCounts:
    """Counts of complete, abandoned and rejected streams."""

    def __init__(self) -> None:
        self.whole = self.left = self.refused = 0


async def over_http(client: httpx2.AsyncClient, number: int, leaves_after: int | None, counts: StreamCounts) -> None:
    body = BODY | {"timeout": 100 + number}
    async with client.stream("POST", "/inference/stream", json=body, timeout=100) as answer:
        if answer.status_code == 503:
            counts.refused += 1
            return
        assert answer.status_code == 200
        words = 0
        async for line in answer.aiter_lines():
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if event.get("done"):
                assert words == WORDS
                counts.whole += 1
            elif "token" in event:
                assert tag_of(number) in event["token"]
                words += 1
            if words == leaves_after:
                counts.left += 1
                return


async def over_a_socket(
    stoa: RunningServer, numbers: list[int], leaves: dict[int, int | None], counts: StreamCounts
) -> None:
    words = dict.fromkeys(numbers, 0)
    async with authenticated_websocket(stoa) as client:
        asked = [BODY | {"type": "inference", "id": str(number), "timeout": 100 + number} for number in numbers]
        await send_messages(client, *asked)
        ended: set[int] = set()
        while len(ended) < len(numbers):
            frame = await receive_message(client)
            number = int(frame["id"])
            if frame["type"] == "token":
                assert number not in ended
                assert tag_of(number) in frame["token"]
                words[number] += 1
                if words[number] == leaves[number]:
                    await send_messages(client, {"type": "cancel", "id": str(number)})
                continue
            if number in ended:  # it was whole before it counts that it was cancelled
                assert (frame["type"], frame["details"]["field"], words[number]) == ("error", "id", WORDS)
                continue
            ended.add(number)
            if frame["type"] == "error":
                assert frame["code"] == "INFERENCE_FAILED", frame
                counts.refused += 1
            elif frame["finish_reason"] == "cancelled":
                counts.left += 1
            else:
                assert (frame["finish_reason"], words[number]) == ("length", WORDS)
                counts.whole += 1


@pytest.mark.timeout(600)
async def test_s15_hundreds_of_streams_are_not_mixed_while_some_clients_disconnect(stoa: RunningServer, whole: bool):
    streams, sockets = (500, 10) if whole else (150, 3)
    chance, counts = random.Random(15), StreamCounts()
    leaves = {number: chance.randrange(1, WORDS) if chance.random() < 0.3 else None for number in range(streams)}
    on_sockets = sockets * ON_A_SOCKET
    limits = httpx2.Limits(max_connections=streams)
    async with httpx2.AsyncClient(base_url=stoa.url, headers=stoa.headers(), limits=limits) as client:
        await asyncio.gather(
            *(
                over_a_socket(stoa, list(range(first, first + ON_A_SOCKET)), leaves, counts)
                for first in range(0, on_sockets, ON_A_SOCKET)
            ),
            *(over_http(client, number, leaves[number], counts) for number in range(on_sockets, streams)),
        )

    assert counts.whole + counts.left + counts.refused == streams
    assert counts.left > 0.2 * (streams - counts.refused)
    assert counts.whole > 0.5 * (streams - counts.refused)
    await eventually_idle(stoa.engine, "talker")
    await stoa.engine.close()
