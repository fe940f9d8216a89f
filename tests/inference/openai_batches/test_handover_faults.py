"""Members and workers that fail while a batch is handed over: nothing hangs, is lost, or is counted twice."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch, BatchResult
from inference.openai_batches.handover import member_client
from inference.openai_batches.handover.services import advance_handover
from inference.openai_batches.models import Handover
from inference.pools import cache
from inference.pools.definitions import Member, Pool
from inference.remote.configuration import RemoteModel
from inference.usage.models import DailyUsage
from tests.inference.openai_batches.conftest import ApiUser
from tests.inference.openai_batches.fake_member import KEY, FakeMember, Line, running_member
from tests.inference.openai_batches.handover_helpers import (
    BODY,
    MODEL,
    THEIR_NAME,
    add_member,
    advance,
    claim,
    completed,
    failed,
    make_batch,
)

State = Handover.State
SECONDS = timedelta(seconds=1)
NESTED = b"[" * 100_000 + b"]" * 100_000


def forget_batch(job: Batch) -> None:
    """Leave the row as a worker does that is killed after it created the member's batch."""
    Handover.objects.filter(batch_id=job.batch_id).update(
        state=State.SENDING, remote_batch_id="", due_at=timezone.now()
    )


def with_body(**changes: Any) -> Line:
    found = completed({"custom_id": "0"})
    return found | {"body": found["body"] | changes}


def test_a_member_that_ignores_idempotency_keys_gets_no_second_batch(api_user: ApiUser, member: FakeMember):
    member.ignores_keys = True
    job = make_batch(api_user, "a")
    advance(job)
    forget_batch(job)

    assert advance(job).remote_batch_id == "batch-0"
    assert len(member.batches) == 1


def test_a_batch_that_no_worker_has_noted_is_cancelled_with_ours(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    forget_batch(job)
    api_user.post(f"/v1/batches/{job.batch_id}/cancel")

    assert [advance(job).state for _ in range(2)] == [State.CANCELLING, State.ENDED]
    assert (member.batch["status"], member.files) == ("cancelled", {})


def test_the_files_of_a_batch_that_ends_while_it_is_cancelled_are_deleted(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    api_user.post(f"/v1/batches/{job.batch_id}/cancel")
    member.statuses["POST /v1/batches/batch-N/cancel"] = [400]

    def end(call: str) -> None:
        if call.endswith("cancel"):
            member.finish(completed)

    member.before_call = end
    assert (advance(job).state, member.files) == (State.ENDED, {})


def test_files_that_cannot_be_deleted_now_are_deleted_later(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    member.finish(completed)
    member.statuses["DELETE /v1/files/file-N"] = [503]

    assert advance(job, 11 * SECONDS).state == State.CANCELLING
    job.refresh_from_db()
    assert job.status == Batch.Status.COMPLETED
    assert advance(job, 32 * SECONDS).state == State.ENDED
    assert member.files == {}


def test_what_nobody_deletes_expires_at_the_member(api_user: ApiUser, member: FakeMember):
    sent: list[bytes] = []
    member.on_body = sent.append
    job = make_batch(api_user, "a")
    advance(job)

    expiry = {"anchor": "created_at", "seconds": 3 * 24 * 3600}
    announced, _parts, _completed, created = sent
    assert json.loads(announced)["expires_after"] == json.loads(created)["output_expires_after"] == expiry


@pytest.mark.parametrize(
    "line",
    [
        {"custom_id": "9" * 30, "response": with_body()},
        {"custom_id": "-1", "response": with_body()},
        {"custom_id": "1", "response": with_body()},
        {"custom_id": "0", "response": with_body(usage={"prompt_tokens": 10**30})},
        {"custom_id": "0", "response": with_body(usage={"prompt_tokens": -5, "completion_tokens": 1})},
        {"custom_id": "0", "response": with_body(usage=None)},
        {"custom_id": "0", "response": with_body(usage={})},
        {"custom_id": "0", "response": with_body(choices=[])},
        {"custom_id": "0", "response": with_body(choices="none")},
        {"custom_id": "0", "response": {"status_code": 200, "body": {"usage": {"prompt_tokens": 5}}}},
        {"custom_id": "0", "response": {"status_code": 400, "body": {}}},
        b'{"custom_id": "0", "response": {"status_code": 200, "body": {"choices": [1], "x": %b}}}' % NESTED,
        b'{"custom_id": "0", "response": {"status_code": 400, "body": {"detail": %b}}}' % NESTED,
        b'{"custom_id": "0", "response": {"status_code": 200, "body": {"choices": ["\xff"]}}}',
    ],
    ids=lambda line: str(line)[:80],
)
def test_a_line_that_cannot_be_a_result_leaves_its_request_to_our_workers(
    api_user: ApiUser, member: FakeMember, line: Line | bytes
):
    job = make_batch(api_user, "a")
    advance(job)
    member.add_file("output_file_id", line if isinstance(line, bytes) else json.dumps(line).encode())
    member.batch["status"] = "completed"

    assert advance(job, 11 * SECONDS).state == State.ENDED
    assert claim(job) == [0]
    assert not DailyUsage.objects.exists()


def test_a_file_has_at_most_as_many_lines_and_bytes_as_it_may(
    api_user: ApiUser, member: FakeMember, settings: Settings
):
    jobs = [make_batch(api_user, "a"), make_batch(api_user, "b")]
    reasons = ["It has more results than the batch has requests.", "Its results take more bytes than all batches"]
    for job, content in zip(jobs, (b"{}\n" * 3, b"x" * 10_000), strict=True):
        member.batches.clear()
        advance(job)
        member.add_file("output_file_id", content)
        member.batch["status"] = "completed"
        settings.MAX_BATCH_BYTES_PER_USER = 9_000

        row = advance(job, 11 * SECONDS)

        assert (row.state, claim(job)) == (State.CANCELLING, [0])
        assert row.error.startswith(reasons.pop(0))


def test_a_file_that_goes_on_without_results_is_left(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    row = advance(job)
    member.add_file("output_file_id", b"x" * 4 * 1024 * 1024)
    member.batch["status"] = "completed"
    later = iter(timezone.now() + 20 * SECONDS * step for step in range(1, 1000))

    advance_handover(handover_pk=row.pk, ending=threading.Event(), clock=lambda: next(later))

    row.refresh_from_db()
    assert row.error.startswith("Its file goes on without results.")
    assert claim(job) == [0]


@pytest.mark.parametrize("its_id", ["a\nb", "../models", "x" * 300, None, 5])
@pytest.mark.parametrize("call", ["POST /v1/uploads", "POST /v1/batches"])
def test_an_id_that_is_none_makes_our_workers_run_the_batch(
    api_user: ApiUser, member: FakeMember, call: str, its_id: object
):
    member.bodies[call] = {"id": its_id, "status": "in_progress"}
    job = make_batch(api_user, "a")

    assert "in another form than OpenAI's" in advance(job).error
    assert claim(job) == [0]


@pytest.mark.parametrize(
    "body", [{"error": {"message": f"The key {KEY}\0 may not."}}, {"detail": f"Bearer {KEY}"}, NESTED]
)
def test_a_members_reason_is_noted_without_its_key(
    api_user: ApiUser, member: FakeMember, body: Any, capsys: pytest.CaptureFixture[str]
):
    member.statuses["POST /v1/uploads"] = [400]
    member.bodies["POST /v1/uploads"] = body
    job = make_batch(api_user, "a")

    row = advance(job)

    assert row.error.startswith("It answers 400: ")
    assert "\0" not in row.error
    assert KEY not in row.error + capsys.readouterr().err
    assert claim(job) == [0]


def test_an_answer_that_never_ends_is_left(api_user: ApiUser, member: FakeMember, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(member_client, "MAX_BODY_SECONDS", -1.0)
    job = make_batch(api_user, "a")

    assert advance(job).state == State.SENDING
    assert advance(job, timedelta(minutes=9)).state == State.SENDING
    assert "takes too long" in advance(job, timedelta(minutes=11)).error


def test_what_the_member_has_done_is_fetched_before_the_batch_expires(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a", "b")
    advance(job)
    is_done = {"0": completed({"custom_id": "0"})}

    def cancel(call: str) -> None:
        if call.endswith("cancel"):
            member.finish(lambda line: is_done.get(line["custom_id"]), status="cancelled")

    member.before_call = cancel
    before = job.expires_at - timezone.now() - timedelta(minutes=14)
    assert advance(job, before).state == State.RUNNING

    assert advance(job, before + 11 * SECONDS).state == State.ENDED
    assert list(BatchResult.objects.values_list("request__index", flat=True)) == [0]
    job.refresh_from_db()
    assert (job.status, job.resume_at < job.expires_at) == (Batch.Status.PROCESSING, True)


def test_a_member_that_nobody_asked_for_an_hour_has_not_lost_the_batch(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    hour = timedelta(hours=1)
    member.statuses["GET /v1/batches/batch-N"] = [503, 503]

    assert advance(job, hour).state == State.RUNNING
    assert (claim(job), advance(job, hour + 610 * SECONDS).state) == ([], State.CANCELLING)


def test_a_second_message_for_one_step_does_nothing(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    row = advance(job)
    calls = len(member.calls)

    assert not advance_handover(handover_pk=row.pk, ending=threading.Event())
    assert len(member.calls) == calls


def test_members_get_batches_only_of_what_they_can_do(api_user: ApiUser, member: FakeMember):
    add_member(member, name="embedder", capabilities=["embeddings"], takes_batches=False)
    job = make_batch(api_user, "a", endpoint="/v1/embeddings", body={"model": MODEL, "input": "x"})

    assert (Handover.objects.count(), claim(job)) == (0, [0])


@pytest.mark.parametrize(
    ("endpoint", "body", "answer"),
    [
        (
            "/v1/messages",
            BODY | {"max_tokens": 5},
            {
                "content": [{"type": "text", "text": "x"}],
                "usage": {"input_tokens": 1, "cache_read_input_tokens": 6, "output_tokens": 2},
            },
        ),
        (
            "/v1/responses",
            {"model": MODEL, "input": "x"},
            {
                "output": [{"type": "message"}],
                "usage": {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 6}, "output_tokens": 2},
            },
        ),
        (
            "/v1/chat/completions",
            BODY,
            {
                "choices": [{"message": {}}],
                "usage": {
                    "prompt_tokens": 7,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 6},
                },
            },
        ),
    ],
    ids=["messages", "responses", "chat"],
)
def test_the_tokens_that_the_members_cache_had_are_counted_once(
    api_user: ApiUser, member: FakeMember, endpoint: str, body: Line, answer: Line
):
    job = make_batch(api_user, "a", endpoint=endpoint, body=body)
    advance(job)
    member.finish(lambda line: {"status_code": 200, "body": answer})
    advance(job, 11 * SECONDS)

    usage = DailyUsage.objects.get(user=api_user.user)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (7, 2, 6)


@pytest.mark.django_db(transaction=True)
def test_no_database_connection_is_held_while_a_member_answers(api_user: ApiUser):
    ours, held = connections["default"], dict[str, bool]()
    with running_member(THEIR_NAME) as member:
        model = RemoteModel(id=MODEL, base_url=member.url, api_key=KEY, model=THEIR_NAME)
        cache.use_only(Pool(MODEL, (Member("one", model, 1, takes_batches=True),)))  # in the database it is audited
        job = make_batch(api_user, "a")
        member.before_call = lambda call: held.update({call: ours.connection is not None})
        advance(job)
        member.finish(completed)
        assert advance(job, 11 * SECONDS).state == State.ENDED
    cache.use_only()
    cache.expire()

    assert held.keys() >= {"POST /v1/batches", "GET /v1/files/file-N/content", "DELETE /v1/files/file-N"}
    assert not any(held.values())


def test_errors_of_a_line_are_short(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    member.finish(lambda line: failed(400, "invalid", "x" * 100_000))
    advance(job, 11 * SECONDS)

    assert len(BatchResult.objects.get().error_message) == 500


def test_errors_of_a_line_are_quoted_without_the_key_of_the_member(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    member.finish(lambda line: failed(400, "invalid", f"Bearer {KEY}\0 may not."))
    advance(job, 11 * SECONDS)

    assert BatchResult.objects.get().error_message == "Bearer [key]\ufffd may not."
