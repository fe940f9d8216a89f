"""Services of stored responses and conversations, on the database alone."""

import asyncio
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, OperationalError, connection, transaction
from django.utils import timezone
from msgspec.structs import replace

from inference.access.responses import ObjectNotFound
from inference.access.resumption import StreamKey
from inference.engine import InvalidRequest
from inference.protocol.openai.responses.items import MessageItem
from inference.protocol.openai.responses.request import parse_response_request
from inference.responses import context, conversations, services
from inference.responses.context import InputContext, read_context
from inference.responses.models import Conversation, ConversationItem, StoredResponse
from inference.responses.services import NewResponse
from inference.responses.worker.claims import ClaimedResponse, UserTurns, requeue
from inference.streams import services as streams
from inference.streams.recorder import Flusher, StreamRecorder
from inference.streams.services import NewEvents, end_interrupted, open_stream, read_all
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from shared.api.errors import ApiError
from shared.backoff import Backoff

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return new_user("writer")


def new_user(name: str) -> User:
    return create_user(email=f"{name}@example.com", name=name, password=None, role=Role.SUPER_ADMIN, now=timezone.now())


def queue(user: User, name: str, key: StreamKey | None = None) -> StoredResponse:
    """Store a background response that no worker has claimed."""
    body = parse_response_request({"model": "talker", "input": name, "background": True})
    response = body.to_response(f"resp_{name}", 1, "queued")
    new = NewResponse(Principal(user=user, permissions=frozenset()), response, InputContext([], []))
    request = body.generation_request(response.id, InputContext([], body.new_items()).messages(None))
    return services.create_background(new=new, request=request, key=key, now=timezone.now())


def claim(limit: int = 10, now: datetime | None = None) -> list[ClaimedResponse]:
    return UserTurns().claim(limit=limit, now=now or timezone.now())


def test_resuming_the_stream_of_a_queued_response_leaves_it_to_the_workers(user: User):
    row = queue(user, "one", StreamKey("scope", "fingerprint"))

    ended = end_interrupted(stream_pk=row.stream_pk, frame=b"data: {}\n\n", now=timezone.now() + timedelta(minutes=1))

    assert not ended
    assert [one.row.pk for one in claim()] == [row.pk]


def test_n4_p5_a_conversation_and_their_number_have_maxima(user: User, monkeypatch: pytest.MonkeyPatch):
    now, item = timezone.now(), MessageItem(role="user", content="x" * 400)
    monkeypatch.setattr(context, "MAX_CONVERSATION_LENGTH", 1000)
    monkeypatch.setattr(conversations, "MAX_CONVERSATIONS", 2)
    made = conversations.create_conversation(user=user, items=[item], metadata={}, now=now)

    with pytest.raises(InvalidRequest, match="at most 1000 characters"):
        conversations.create_items(user=user, conversation_id=made.id, items=[item, item], now=now)
    conversations.create_conversation(user=user, items=[item], metadata={}, now=now)
    with pytest.raises(InvalidRequest, match="2 conversations, the maximum: 0 are left"):
        conversations.create_conversation(user=user, items=[], metadata={}, now=now)
    conversations.create_conversation(user=new_user("other"), items=[item], metadata={}, now=now)


@pytest.mark.django_db(transaction=True)
def test_n4_of_concurrent_conversations_no_more_than_the_maximum_are_created(
    user: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(conversations, "MAX_CONVERSATIONS", 3)

    def create(_: int) -> str:
        try:
            conversations.create_conversation(user=user, items=[], metadata={}, now=timezone.now())
        except InvalidRequest:
            return "refused"
        finally:
            connection.close()
        return "created"

    with ThreadPoolExecutor(50) as threads:
        results = Counter(threads.map(create, range(50)))
    assert results == {"created": 3, "refused": 47}
    assert Conversation.objects.count() == 3


def test_p3_events_expire_after_a_day_and_responses_after_their_retention(user: User):
    now, row = timezone.now(), queue(user, "old")
    services.cancel_response(user=user, response_id=row.response_id, now=now)
    almost, second = now + settings.RESPONSE_RETENTION, timedelta(seconds=1)

    assert streams.delete_old_streams(now=now + timedelta(days=1) - second) == 0
    assert streams.delete_old_streams(now=now + timedelta(days=1) + second) == 1
    with pytest.raises(ApiError) as caught:
        services.find_stream(user=user, response_id=row.response_id)
    assert caught.value.problem.status == 404
    assert services.find_response(user=user, response_id=row.response_id).status == "cancelled"
    assert services.delete_old_responses(now=almost - second) == 0
    assert services.delete_old_responses(now=almost + second) == 1
    with pytest.raises(ObjectNotFound):
        services.find_response(user=user, response_id=row.response_id)


def test_p5_the_oldest_responses_above_a_users_storage_are_deleted(user: User, monkeypatch: pytest.MonkeyPatch):
    now = timezone.now()
    rows = [queue(one, f"{one.name}{number}") for number in range(3) for one in (user, new_user(f"u{number}"))]
    for row in rows:
        services.cancel_response(user=row.user, response_id=row.response_id, now=now)
    size = services.find_response(user=user, response_id=rows[0].response_id).size
    monkeypatch.setattr(settings, "MAX_RESPONSE_BYTES_PER_USER", 2 * size)

    assert services.delete_surplus_responses(now=now) == 1
    assert not StoredResponse.objects.filter(pk=rows[0].pk).exists()
    assert StoredResponse.objects.count() == 5


def test_p2_a_response_that_could_not_be_run_for_a_day_fails(user: User):
    now, row = timezone.now(), queue(user, "late")

    assert services.fail_expired(now=now + timedelta(hours=23)) == 0
    assert services.fail_expired(now=now + timedelta(hours=24, seconds=1)) == 1
    failed = services.find_response(user=user, response_id=row.response_id)
    assert failed.status == "failed"
    assert read_all(row.stream_pk)[-1].startswith(b"event: response.failed\n")
    assert claim(now=now + timedelta(days=2)) == []


def test_p5_users_take_turns_whatever_one_of_them_has_queued(user: User):
    mine = [queue(user, f"mine{number}").pk for number in range(6)]
    other = new_user("other")
    theirs = [queue(other, f"theirs{number}").pk for number in range(2)]
    turns = UserTurns()

    polls = [[one.row.pk for one in turns.claim(limit=limit, now=timezone.now())] for limit in (3, 1, 2, 9)]

    assert polls == [[mine[0], theirs[0], mine[1]], [theirs[1]], [mine[2], mine[3]], [mine[4], mine[5]]]


def test_p5_a_user_whose_responses_take_long_leaves_the_others_their_share(user: User):
    mine = [queue(user, f"mine{number}").pk for number in range(2)]
    other = new_user("other")
    theirs = [queue(other, f"theirs{number}").pk for number in range(2)]

    claimed = UserTurns().claim(limit=3, now=timezone.now(), running={user.pk: 2})

    assert [one.row.pk for one in claimed] == [*theirs, mine[0]]


def test_p2_claims_made_before_the_database_failed_are_run(user: User, monkeypatch: pytest.MonkeyPatch):
    rows = [queue(user, f"some{number}").pk for number in range(2)]
    whole = streams.take_over

    def fail_second(*, stream_pk: int, **given: Any) -> bool:
        if stream_pk == StoredResponse.objects.get(pk=rows[1]).stream_pk:
            raise OperationalError("database is locked")
        return whole(stream_pk=stream_pk, **given)

    monkeypatch.setattr(streams, "take_over", fail_second)

    assert [one.row.pk for one in claim(limit=2)] == rows[:1]
    with pytest.raises(OperationalError):
        claim(limit=2)


def test_p5_a_claim_reads_no_more_rows_when_more_wait(user: User):
    for number in range(3):
        queue(user, f"one{number}")
    free = StoredResponse.objects.filter(ended_at=None, user__gt=0).order_by("user_id", "resume_at", "pk")

    plan = free.values_list("pk")[:1].explain()

    if connection.vendor == "sqlite":  # PostgreSQL prefers a scan of three rows
        assert "inference_responses_turns" in plan
        assert "TEMP B-TREE" not in plan


def record(stream_pk: int, owner: uuid.UUID, frames: list[bytes]) -> StreamRecorder:
    recorder = StreamRecorder(stream_pk, owner)
    for frame in frames:
        recorder.append(frame)
    return recorder


def stream(user: User, name: str, owner: uuid.UUID) -> StoredResponse:
    """Store a response whose stream `owner` writes."""
    body = parse_response_request({"model": "talker", "input": name, "stream": True})
    response = body.to_response(f"resp_{name}", 1, "in_progress")
    new = NewResponse(Principal(user=user, permissions=frozenset()), response, InputContext([], []))
    return services.create_streamed(new=new, owner=owner, now=timezone.now())


FRAMES = [b"data: %d\n\n" % number for number in range(4)]


@pytest.mark.django_db(transaction=True)
def test_p1_a_cancelled_stream_ends_after_the_events_that_its_writer_has_sent(
    user: User, monkeypatch: pytest.MonkeyPatch
):
    flusher, owner = StillFlusher(), uuid.uuid4()
    monkeypatch.setattr("inference.streams.recorder._flusher", flusher)
    row = stream(user, "cut", owner)

    async def run() -> StreamRecorder:
        recorder = record(row.stream_pk, owner, FRAMES[:1])
        await asyncio.to_thread(flusher.flush)
        for frame in FRAMES[1:]:  # readers have them before the database
            recorder.append(frame)
        cancel = partial(services.cancel_response, user=user, response_id=row.response_id, now=timezone.now())
        body = await asyncio.to_thread(cancel)
        assert context.decode_response(body).status == "cancelled"
        assert not recorder.is_cancelled
        await asyncio.to_thread(flusher.flush)
        assert recorder.is_cancelled
        completed = replace(context.decode_response(row.body), status="completed")
        await recorder.finish(
            lambda number: services.end_run(row=row, response=completed, number=number, now=timezone.now())
        )
        return recorder

    recorder = asyncio.run(run())

    stored = read_all(row.stream_pk)
    assert stored[:4] == FRAMES
    assert len(stored) == 5
    assert stored[4].startswith(b"event: response.incomplete\n")
    assert b'"sequence_number":4' in stored[4]
    assert b'"status":"cancelled"' in stored[4]
    assert recorder.next_index == 5
    assert services.find_response(user=user, response_id=row.response_id).status == "cancelled"


def test_p1_a_cancelled_stream_whose_writer_has_died_is_ended_by_a_sweep(user: User):
    now, owner = timezone.now(), uuid.uuid4()
    row = stream(user, "dead", owner)
    streams.write_events([NewEvents(row.stream_pk, owner, 0, FRAMES[:2])])
    services.cancel_response(user=user, response_id=row.response_id, now=now)
    assert services.end_all_interrupted(now=now) == 0
    assert read_all(row.stream_pk) == FRAMES[:2]

    later = now + streams.LEASE_DURATION + timedelta(seconds=1)
    assert services.end_all_interrupted(now=later) == 1

    assert b'"status":"cancelled"' in read_all(row.stream_pk)[2]
    assert services.end_all_interrupted(now=later) == 0


def test_p1_a_background_response_that_is_cancelled_between_two_runs_ends_and_is_not_run_again(user: User):
    row, now = queue(user, "between"), timezone.now()
    [claimed] = claim(now=now)
    services.cancel_response(user=user, response_id=row.response_id, now=now)
    requeue(claimed=claimed, delay=timedelta(), now=now)  # its model crashed

    assert claim(now=now + timedelta(minutes=1)) == []
    assert services.end_all_interrupted(now=now) == 1
    assert b'"status":"cancelled"' in read_all(row.stream_pk)[-1]


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_response_is_written_once_the_database_answers_again(user: User, monkeypatch: pytest.MonkeyPatch):
    flusher, owner, failures = StillFlusher(), uuid.uuid4(), 12
    monkeypatch.setattr("inference.streams.recorder._flusher", flusher)
    monkeypatch.setattr("inference.streams.recorder.END_BACKOFF", Backoff(0.001, 0.001))
    row = stream(user, "patient", owner)
    response = replace(context.decode_response(row.body), status="completed")
    calls = 0

    def write_end(number: int) -> bytes:
        nonlocal calls
        calls += 1
        assert flusher.count == 0  # nobody else writes its events meanwhile
        if calls <= failures:
            raise OperationalError("the disk is full")
        return services.end_run(row=row, response=response, number=number, now=timezone.now())

    async def run() -> None:
        await record(row.stream_pk, owner, FRAMES[:1]).finish(write_end)

    asyncio.run(run())

    assert calls == failures + 1
    assert len(read_all(row.stream_pk)) == 2
    assert services.find_response(user=user, response_id=row.response_id).status == "completed"


@pytest.mark.django_db(transaction=True)
def test_an_end_that_the_database_will_never_take_is_not_tried_again(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("inference.streams.recorder._flusher", StillFlusher())
    owner = uuid.uuid4()
    row = stream(user, "never", owner)

    def write_end(number: int) -> bytes:
        raise IntegrityError("a constraint is violated")

    async def run() -> None:
        await record(row.stream_pk, owner, []).finish(write_end)

    with pytest.raises(IntegrityError):
        asyncio.run(run())


def test_p5_a_full_conversation_is_refused_before_the_generation(user: User, monkeypatch: pytest.MonkeyPatch):
    now, item = timezone.now(), MessageItem(role="user", content="one")
    made = conversations.create_conversation(user=user, items=[item, item], metadata={}, now=now)
    body = parse_response_request({"model": "talker", "input": "two", "conversation": made.id})

    monkeypatch.setattr(context, "MAX_ITEMS", 4)
    assert len(read_context(user=user, body=body, response_id="resp_a").preceding) == 2
    monkeypatch.setattr(context, "MAX_ITEMS", 3)  # there is no place for the answer
    with pytest.raises(InvalidRequest, match="at most 3 items"):
        read_context(user=user, body=body, response_id="resp_a")


def test_p5_an_answer_is_kept_by_a_conversation_that_became_full_meanwhile(user: User, monkeypatch: pytest.MonkeyPatch):
    now, item = timezone.now(), MessageItem(role="user", content="one")
    made = conversations.create_conversation(user=user, items=[item], metadata={}, now=now)
    body = parse_response_request({"model": "talker", "input": "two", "conversation": made.id})
    read = read_context(user=user, body=body, response_id="resp_b")
    monkeypatch.setattr(context, "MAX_ITEMS", 1)

    response = body.to_response("resp_b", 1, "completed")
    new = NewResponse(Principal(user=user, permissions=frozenset()), response, read)
    services.store_ended(new=new, response=response, now=now)

    items = conversations.list_items(user=user, conversation_id=made.id, after=None, limit=9, newest_first=False)
    assert [one.content[0].text for one in items.data] == ["one", "two"]  # type: ignore[union-attr, index]


@pytest.mark.django_db(transaction=True)
def test_a_conversation_is_deleted_after_the_items_that_are_being_added(user: User):
    now, item = timezone.now(), MessageItem(role="user", content="one")
    made = conversations.create_conversation(user=user, items=[item], metadata={}, now=now)
    is_adding = threading.Event()

    def add() -> None:
        try:
            with transaction.atomic():
                conversation = conversations.lock_conversation(Conversation.objects.get(conversation_id=made.id).pk)
                assert conversation is not None
                is_adding.set()
                time.sleep(0.3)
                conversations.add_items(conversation=conversation, items=[item], now=now)
        finally:
            connection.close()

    adding = threading.Thread(target=add)
    adding.start()
    assert is_adding.wait(10)
    conversations.delete_conversation(user=user, conversation_id=made.id)
    adding.join()

    assert not Conversation.objects.exists()
    assert not ConversationItem.objects.exists()


def test_a_response_whose_conversation_was_deleted_meanwhile_is_stored_without_it(user: User):
    now = timezone.now()
    made = conversations.create_conversation(user=user, items=[], metadata={}, now=now)
    body = parse_response_request({"model": "talker", "input": "two", "conversation": made.id})
    read = read_context(user=user, body=body, response_id="resp_c")
    conversations.delete_conversation(user=user, conversation_id=made.id)

    response = body.to_response("resp_c", 1, "completed")
    new = NewResponse(Principal(user=user, permissions=frozenset()), response, read)
    services.store_ended(new=new, response=response, now=now)

    assert services.find_response(user=user, response_id="resp_c").conversation_id is None


class StillFlusher(Flusher):
    """A flusher without a thread."""

    def add(self, recorder: StreamRecorder) -> None:
        self._recorders[recorder.owner] = recorder

    @property
    def count(self) -> int:
        return len(self._recorders)


def test_a_commit_that_only_seemed_to_fail_is_not_repeated_and_stops_nothing(
    user: User, monkeypatch: pytest.MonkeyPatch
):
    flusher, owner = StillFlusher(), uuid.uuid4()
    monkeypatch.setattr("inference.streams.recorder._flusher", flusher)
    opened = open_stream(user=user, now=timezone.now(), owner=owner)
    frames = FRAMES
    write_events = streams.write_events

    def lose_answer(events: list[NewEvents]) -> None:
        write_events(events)
        raise OperationalError("the connection was lost during COMMIT")

    async def start() -> StreamRecorder:
        return record(opened.pk, owner, frames[:1])

    recorder = asyncio.run(start())
    with monkeypatch.context() as broken:
        broken.setattr(streams, "write_events", lose_answer)
        with pytest.raises(OperationalError):
            flusher.flush()
    recorder.append(frames[1])
    flusher.flush()
    recorder.append(frames[2])
    recorder.append(frames[3])
    flusher.flush()

    assert read_all(opened.pk) == frames
    assert not recorder.is_lost
