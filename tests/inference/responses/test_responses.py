"""Responses over a running server, with OpenAI's client in its strict mode."""

import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from inference.usage.metering import WRITE_INTERVAL_SECONDS
from tests.inference.batches.workers import RunningWorker, running_worker
from tests.inference.running_server import RunningServer

TEXT = "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 "
FINAL = ("completed", "incomplete", "failed", "cancelled")


def client_of(stoa: RunningServer, role: str = "SUPER_ADMIN") -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{stoa.url}/v1", api_key=stoa.keys[role], max_retries=0, _strict_response_validation=True
    )


@pytest.fixture
def client(stoa: RunningServer) -> openai.OpenAI:
    return client_of(stoa)


@pytest.fixture(scope="module")
def worker(stoa: RunningServer) -> Iterator[RunningWorker]:
    with running_worker(stoa) as running:
        yield running


def wait_until_ended(client: openai.OpenAI, response_id: str, seconds: float = 30) -> openai.types.responses.Response:
    deadline = time.monotonic() + seconds
    while (response := client.responses.retrieve(response_id)).status not in FINAL:
        assert time.monotonic() < deadline, response.status
        time.sleep(0.05)
    return response


def test_a_response_has_the_text_and_is_stored(client: openai.OpenAI):
    response = client.responses.create(
        model="talker", input="speak", metadata={"order": "4711"}, instructions="Be brief."
    )

    assert response.output_text == TEXT
    assert response.status == "incomplete"  # the fake always ends at its maximum
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage is not None
    assert response.usage.output_tokens == 10
    assert client.responses.retrieve(response.id) == response
    items = client.responses.input_items.list(response.id)
    assert [item.content[0].text for item in items] == ["speak"]  # type: ignore[union-attr]


def test_a_response_that_is_not_stored_cannot_be_retrieved(client: openai.OpenAI):
    response = client.responses.create(model="talker", input="speak", store=False)

    assert response.output_text == TEXT
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


@pytest.mark.parametrize("store", [True, False])
def test_a_stream_has_every_event_in_order(client: openai.OpenAI, store: bool):
    events = list(client.responses.create(model="talker", input="speak", stream=True, store=store))

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 10,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    final: Any = events[-1]
    assert final.response.output_text == TEXT
    if store:
        assert client.responses.retrieve(final.response.id) == final.response


def test_p1_a_stream_is_read_again_from_any_event(client: openai.OpenAI):
    events = list(client.responses.create(model="talker", input="speak", stream=True))
    created: Any = events[0]

    again = list(client.responses.retrieve(created.response.id, stream=True))
    rest = list(client.responses.retrieve(created.response.id, stream=True, starting_after=7))
    nothing = list(client.responses.retrieve(created.response.id, stream=True, starting_after=len(events) - 1))

    assert again == events
    assert rest == events[8:]
    assert nothing == []


def test_a_stored_stream_goes_on_when_its_client_has_disconnected(client: openai.OpenAI):
    stream = client.responses.create(model="talker", input="speak", stream=True, max_output_tokens=40)
    seen = [next(iter(stream)) for _ in range(5)]
    stream.close()
    created: Any = seen[0]

    rest = list(client.responses.retrieve(created.response.id, stream=True, starting_after=seen[-1].sequence_number))

    assert [event.sequence_number for event in [*seen, *rest]] == list(range(48))
    assert rest[-1].type == "response.incomplete"


def test_p3_another_user_and_a_wrong_position_get_no_events(stoa: RunningServer, client: openai.OpenAI):
    events = list(client.responses.create(model="talker", input="speak", stream=True))
    response_id = events[0].response.id  # type: ignore[union-attr]
    other = client_of(stoa, "STAFF")

    for call in (
        lambda: other.responses.retrieve(response_id),
        lambda: other.responses.retrieve(response_id, stream=True),
        lambda: other.responses.cancel(response_id),
        lambda: other.responses.delete(response_id),
        lambda: other.responses.input_items.list(response_id),
        lambda: other.responses.create(model="talker", input="on", previous_response_id=response_id),
    ):
        with pytest.raises(openai.NotFoundError):
            call()
    with pytest.raises(openai.BadRequestError, match="from 0 to"):
        client.responses.retrieve(response_id, stream=True, starting_after=len(events))
    for wrong in ("-1", "x", "1.5"):
        refused = stoa.get(f"/v1/responses/{response_id}?stream=true&starting_after={wrong}")
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["param"] == "starting_after"
    client.responses.delete(response_id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response_id, stream=True)


def test_a_response_continues_a_previous_one_and_a_conversation(client: openai.OpenAI):
    first = client.responses.create(model="talker", input="one")
    second = client.responses.create(model="talker", input="two", previous_response_id=first.id)
    assert second.previous_response_id == first.id

    conversation = client.conversations.create(items=[{"role": "user", "content": "zero"}], metadata={"a": "b"})
    third = client.responses.create(model="talker", input="three", conversation=conversation.id)
    items = client.conversations.items.list(conversation.id, order="asc").data

    assert third.conversation is not None
    assert third.conversation.id == conversation.id
    assert [item.content[0].text for item in items] == ["zero", "three", TEXT]  # type: ignore[union-attr]


def test_a_conversation_and_its_items_are_changed_and_deleted(stoa: RunningServer, client: openai.OpenAI):
    conversation = client.conversations.create()
    added = client.conversations.items.create(
        conversation.id,
        items=[
            {"role": "user", "content": "a"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"},
        ],
    )
    changed = client.conversations.update(conversation.id, metadata={"order": "1"})

    assert changed.metadata == {"order": "1"}
    assert client.conversations.retrieve(conversation.id) == changed
    assert [item.type for item in added.data] == ["message", "function_call"]
    assert client.conversations.items.retrieve(added.data[0].id, conversation_id=conversation.id) == added.data[0]  # type: ignore[arg-type]
    first_page = client.conversations.items.list(conversation.id, limit=1)
    assert [item.id for item in first_page] == [added.data[1].id, added.data[0].id]
    client.conversations.items.delete(added.data[0].id, conversation_id=conversation.id)  # type: ignore[arg-type]
    assert [item.id for item in client.conversations.items.list(conversation.id)] == [added.data[1].id]
    with pytest.raises(openai.NotFoundError):
        client_of(stoa, "STAFF").conversations.retrieve(conversation.id)
    assert client.conversations.delete(conversation.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.list(conversation.id)


def test_a_background_response_is_run_by_a_worker(client: openai.OpenAI, worker: RunningWorker):
    queued = client.responses.create(model="talker", input="speak", background=True)
    assert (queued.status, queued.background, queued.output) == ("queued", True, [])

    response = wait_until_ended(client, queued.id)
    events = list(client.responses.retrieve(queued.id, stream=True))

    assert response.output_text == TEXT
    assert [event.type for event in events[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response == response  # type: ignore[union-attr]


def test_a_background_response_is_streamed_while_it_runs(client: openai.OpenAI, worker: RunningWorker):
    events = list(client.responses.create(model="talker", input="speak", background=True, stream=True))

    assert [event.sequence_number for event in events] == list(range(19))
    assert events[-1].response.output_text == TEXT  # type: ignore[union-attr]


def test_a_cancelled_response_ends_its_stream(client: openai.OpenAI, worker: RunningWorker):
    stream = client.responses.create(
        model="talker", input="speak", background=True, stream=True, max_output_tokens=5000
    )
    first: Any = next(iter(stream))

    cancelled = client.responses.cancel(first.response.id)
    rest = list(stream)

    assert cancelled.status == "cancelled"
    assert client.responses.cancel(first.response.id) == cancelled
    assert rest[-1].type == "response.incomplete"
    assert [event.sequence_number for event in rest] == list(range(1, len(rest) + 1))
    assert rest[-1].response == client.responses.retrieve(first.response.id)


def test_a_live_stream_that_is_cancelled_ends_with_its_last_event(client: openai.OpenAI):
    stream = client.responses.create(model="talker", input="speak", stream=True, max_output_tokens=4000)
    seen: list[Any] = [next(stream) for _ in range(20)]

    cancelled = client.responses.cancel(seen[0].response.id)
    seen += stream

    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert seen[-1].type == "response.incomplete"
    assert seen[-1].response == cancelled
    assert cancelled.status == "cancelled"


@pytest.mark.parametrize("end", ["cancel", "delete"])
def test_a_background_response_that_is_cancelled_costs_what_it_used(
    stoa: RunningServer, worker: RunningWorker, end: str
):
    def used() -> tuple[int, int]:
        total = stoa.get("/usage", role="STAFF").json()["total"]
        return total["requests"], total["completion_tokens"]

    before = used()
    time.sleep(2 * WRITE_INTERVAL_SECONDS)
    while (now := used()) != before:  # earlier tests' usage is still being written
        before = now
        time.sleep(2 * WRITE_INTERVAL_SECONDS)
    client = client_of(stoa, "STAFF")
    stream = client.responses.create(
        model="talker", input="speak", background=True, stream=True, max_output_tokens=5000
    )
    event: Any
    for event in stream:
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta":
            break
    getattr(client.responses, end)(response_id)

    deadline = time.monotonic() + 20
    while (after := used())[0] == before[0]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert after[0] == before[0] + 1
    assert 0 < after[1] - before[1] < 5000


def test_a_background_response_of_a_model_that_does_not_exist_fails(client: openai.OpenAI, worker: RunningWorker):
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="nobody", input="speak", background=True)
