"""The official openai client against /v1/batches, with strict response validation."""

import json
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types import Batch, Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion

from tests.running_stoa import RunningStoa

CHAT, COMPLETION, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {
        "model": "stoa-describer",
        "messages": [{"role": "user", "content": "Product name: Lamp\nKeywords: brass"}],
        "max_tokens": 8,
        "temperature": 0,
    },
    COMPLETION: {"model": "stoa-describer", "prompt": "The kettle is", "max_tokens": 8, "temperature": 0},
    EMBEDDINGS: {"model": "stoa-encoder", "input": ["a lamp", "a kettle"], "encoding_format": "float"},
}
DONE_WITHIN_S = 120


@pytest.fixture
def client(stoa: RunningStoa) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def lines(endpoint: str, count: int, **other: Any) -> bytes:
    wanted = [
        {"custom_id": f"number {number}", "method": "POST", "url": endpoint, "body": BODIES[endpoint] | other}
        for number in range(count)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in wanted)


def make_batch(client: openai.OpenAI, endpoint: Any, content: bytes, **options: Any) -> Batch:
    file = client.files.create(file=("lines.jsonl", content), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **options)


def ended(client: openai.OpenAI, batch_id: str) -> Batch:
    deadline = time.monotonic() + DONE_WITHIN_S
    while (batch := client.batches.retrieve(batch_id)).status in ("validating", "in_progress", "finalizing"):
        assert time.monotonic() < deadline, batch
        time.sleep(0.2)
    return batch


def read_lines(client: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(line) for line in client.files.content(file_id).text.splitlines()]


@pytest.mark.parametrize(
    ("endpoint", "answer"),
    [(CHAT, ChatCompletion), (COMPLETION, Completion), (EMBEDDINGS, CreateEmbeddingResponse)],
    ids=[CHAT, COMPLETION, EMBEDDINGS],
)
def test_a_batch_returns_the_same_as_the_live_endpoint(client: openai.OpenAI, endpoint: Any, answer: Any):
    live = client.post(endpoint.removeprefix("/v1"), body=BODIES[endpoint], cast_to=answer)

    made = make_batch(client, endpoint, lines(endpoint, 3), metadata={"for": "a test"})

    assert made.status == "in_progress"
    assert (made.endpoint, made.completion_window, made.metadata) == (endpoint, "24h", {"for": "a test"})
    batch = ended(client, made.id)
    assert batch.status == "completed"
    assert batch.request_counts is not None
    assert batch.request_counts.to_dict() == {"total": 3, "completed": 3, "failed": 0}
    assert batch.error_file_id is None
    assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at  # type: ignore[operator]
    output = read_lines(client, batch.output_file_id)
    assert [line["custom_id"] for line in output] == ["number 0", "number 1", "number 2"]
    for line in output:
        assert line.keys() == {"id", "custom_id", "response", "error"}
        assert (line["error"], line["response"]["status_code"]) == (None, 200)
        one = answer.model_validate(line["response"]["body"], strict=True)
        if endpoint == CHAT:
            assert one.choices == live.choices
        elif endpoint == COMPLETION:
            assert [choice.text for choice in one.choices] == [choice.text for choice in live.choices]
        else:
            assert one.data[1].embedding == pytest.approx(live.data[1].embedding, abs=1e-5)
        assert one.model == live.model


def test_failed_requests_are_in_the_error_file(client: openai.OpenAI):
    good, long = lines(CHAT, 2), "lamp " * 10_000
    bad = {"custom_id": "too long", "method": "POST", "url": CHAT}
    bad_body = BODIES[CHAT] | {"messages": [{"role": "user", "content": long}]}

    made = make_batch(client, CHAT, json.dumps(bad | {"body": bad_body}).encode() + b"\n" + good)

    batch = ended(client, made.id)
    assert batch.status == "completed"
    assert [line["custom_id"] for line in read_lines(client, batch.output_file_id)] == ["number 0", "number 1"]
    (line,) = read_lines(client, batch.error_file_id)
    assert (line["custom_id"], line["error"]) == ("too long", None)
    assert line["response"]["status_code"] == 400
    assert line["response"]["body"]["error"]["code"] == "context_length_exceeded"


def test_an_invalid_input_file_fails_with_an_error_for_each_line(client: openai.OpenAI):
    content = lines(CHAT, 1) + b"{\n" + lines(CHAT, 1) + lines(COMPLETION, 1)

    batch = make_batch(client, CHAT, content)

    assert batch.status == "failed"
    assert batch.failed_at is not None
    assert batch.errors is not None
    told = [(error.line, error.code, error.param) for error in batch.errors.data or ()]
    assert told == [
        (2, "invalid_json_line", None),
        (3, "duplicate_custom_id", "custom_id"),
        (4, "mismatched_endpoint", "url"),
    ]
    assert client.batches.retrieve(batch.id) == batch


def test_a_cancelled_batch_keeps_its_completed_results(client: openai.OpenAI):
    made = make_batch(client, CHAT, lines(CHAT, 400, max_tokens=200, ignore_eos=True))

    cancelled = client.batches.cancel(made.id)
    assert cancelled.status in ("cancelling", "cancelled")
    deadline = time.monotonic() + DONE_WITHIN_S
    while (batch := client.batches.retrieve(made.id)).status != "cancelled":
        assert time.monotonic() < deadline, batch
        time.sleep(0.2)

    assert batch.cancelled_at is not None
    assert batch.request_counts is not None
    not_done = read_lines(client, batch.error_file_id)
    assert len(not_done) == 400 - batch.request_counts.completed > 0
    assert {line["error"]["code"] for line in not_done} == {"batch_cancelled"}


def test_batches_are_listed_newest_first_to_their_owner_only(client: openai.OpenAI, stoa: RunningStoa):
    ids = [make_batch(client, CHAT, b"{").id for _ in range(3)]

    assert [batch.id for batch in client.batches.list(limit=2)][:3] == ids[::-1]
    assert [batch.id for batch in client.batches.list(limit=1, after=ids[2])][:2] == ids[1::-1]
    other = client.with_options(api_key=stoa.login("STAFF"))
    for ask in (other.batches.retrieve, other.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            ask(ids[0])
    assert list(other.batches.list()) == []


def test_errors_are_raised_as_the_errors_of_the_client(client: openai.OpenAI):
    file = client.files.create(file=("a.jsonl", lines(CHAT, 1)), purpose="batch")
    good: dict[str, Any] = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    for wrong, param in (
        ({"endpoint": "/v1/images/generations"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"a": 1}}, "metadata[...]"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            client.batches.create(**good | wrong)
        assert refused.value.param == param
    with pytest.raises(openai.NotFoundError) as missing:
        client.batches.create(**good | {"input_file_id": "file-0"})
    assert missing.value.body["param"] == "input_file_id"  # type: ignore[index]


async def test_the_async_client_works(stoa: RunningStoa):
    async with openai.AsyncOpenAI(
        base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    ) as client:
        file = await client.files.create(file=("lines.jsonl", b"{"), purpose="batch")
        batch = await client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")

        assert batch.status == "failed"
        assert await client.batches.retrieve(batch.id) == batch
        assert batch.id in [one.id async for one in client.batches.list(limit=1)]
        with pytest.raises(openai.BadRequestError):
            await client.batches.cancel(batch.id)
