"""Requests of a batch that have messages in place of a prompt."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.inference.batches.workers import RunningWorker, all_results, ended, running_worker
from tests.inference.served import ServedStoa

SPOKEN = [{"role": "user", "content": "speak"}]


@pytest.fixture(scope="module")
def worker(stoa: ServedStoa) -> Iterator[RunningWorker]:
    with running_worker(stoa) as worker:
        yield worker


def post(stoa: ServedStoa, *requests: dict[str, Any]) -> httpx2.Response:
    body = {"model": "talker", "max_tokens": 3, "requests": list(requests)}
    return httpx2.post(f"{stoa.url}/batch", json=body, headers=stoa.headers(), timeout=60)


def test_messages_go_through_the_models_template_beside_prompts_that_do_not(stoa: ServedStoa, worker: RunningWorker):
    answer = post(stoa, {"id": "chat", "messages": SPOKEN}, {"id": "raw", "prompt": "speak"})
    batch_id = answer.json()["batch_id"]
    told = ended(stoa, batch_id)
    chat, raw = all_results(stoa, batch_id)

    assert (told["status"], told["completed"]) == ("completed", 2)
    assert chat["choices"][0]["text"] == raw["choices"][0]["text"] == "w0 w1 w2 "
    assert (chat["usage"]["prompt_tokens"], raw["usage"]["prompt_tokens"]) == (0, 5)  # the fake counts raw text alone


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"messages": SPOKEN, "prompt": "speak"}, "requests[0]: prompt and messages exclude each other"),
        ({}, "requests[0]: prompt is required"),
        ({"messages": []}, "requests[0]: messages is wrong"),
        ({"messages": [{"role": "king", "content": "x"}]}, "requests[0]: messages[0].role is wrong"),
    ],
)
def test_a_request_has_either_and_both_are_checked(stoa: ServedStoa, request_: dict[str, Any], message: str):
    answer = post(stoa, {"id": "a"} | request_)

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(message)
