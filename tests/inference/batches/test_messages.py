"""Requests of a batch with messages instead of a prompt."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.inference.batches.workers import RunningWorker, get_results, running_worker, wait_until_ended
from tests.inference.running_server import RunningServer

pytestmark = pytest.mark.no_database

MESSAGES = [{"role": "user", "content": "speak"}]


@pytest.fixture(scope="module")
def worker(stoa: RunningServer) -> Iterator[RunningWorker]:
    with running_worker(stoa) as worker:
        yield worker


def post(stoa: RunningServer, *requests: dict[str, Any]) -> httpx2.Response:
    body = {"model": "talker", "max_tokens": 3, "requests": list(requests)}
    return httpx2.post(f"{stoa.url}/batch", json=body, headers=stoa.headers(), timeout=60)


def test_messages_use_the_chat_template_and_prompts_do_not(stoa: RunningServer, worker: RunningWorker):
    answer = post(stoa, {"id": "chat", "messages": MESSAGES}, {"id": "raw", "prompt": "speak"})
    batch_id = answer.json()["batch_id"]
    batch = wait_until_ended(stoa, batch_id)
    chat, raw = get_results(stoa, batch_id)

    assert (batch["status"], batch["completed"]) == ("completed", 2)
    assert chat["choices"][0]["text"] == raw["choices"][0]["text"] == "w0 w1 w2 "
    assert (chat["usage"]["prompt_tokens"], raw["usage"]["prompt_tokens"]) == (
        0,
        5,
    )  # the fake model counts prompts only


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"messages": MESSAGES, "prompt": "speak"}, "requests[0]: `prompt` and `messages` exclude each other"),
        ({}, "requests[0]: `prompt` is required"),
        ({"messages": []}, "requests[0]: `messages` is not valid"),
        ({"messages": [{"role": "king", "content": "x"}]}, "requests[0]: `messages[0].role` is not valid"),
    ],
)
def test_a_request_has_either_messages_or_a_prompt(stoa: RunningServer, request_: dict[str, Any], message: str):
    answer = post(stoa, {"id": "a"} | request_)

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(message)
