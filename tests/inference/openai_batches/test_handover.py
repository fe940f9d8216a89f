"""Batches that are handed over whole to a member of their model's pool."""

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch, BatchResult
from inference.batches.services import delete_batch
from inference.engine import Usage
from inference.metrics.queue_metrics import read_queue_metrics
from inference.openai_batches.handover.services import advance_handover
from inference.openai_batches.models import Handover
from inference.openai_batches.output_files import write_output_files
from inference.pools import cache
from inference.pools.models import PoolMember
from inference.usage.models import DailyUsage
from inference.usage.services import record_usage
from tests.inference.openai_batches.conftest import ApiUser
from tests.inference.openai_batches.fake_member import FakeMember, Line
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


def test_a_batch_runs_at_the_member_and_its_files_are_as_if_it_had_run_here(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a", "b", "c")
    assert claim(job) == []

    assert advance(job).state == State.RUNNING
    sent = member.input_lines()
    assert [(line["custom_id"], line["url"]) for line in sent] == [(str(n), "/v1/chat/completions") for n in range(3)]
    assert [line["body"] for line in sent] == [BODY | {"model": THEIR_NAME}] * 3
    assert (member.batch["endpoint"], member.batch["completion_window"]) == ("/v1/chat/completions", "24h")
    assert advance(job, timedelta(seconds=11)).state == State.RUNNING
    assert api_user.get(f"/v1/batches/{job.batch_id}").json()["status"] == "in_progress"

    too_long = failed(400, "context_length_exceeded", "Too long.")
    member.finish(lambda line: too_long if line["custom_id"] == "1" else completed(line))
    assert advance(job, timedelta(seconds=22)).state == State.ENDED
    assert write_output_files(batch_pk=job.pk, now=timezone.now())
    batch = api_user.get(f"/v1/batches/{job.batch_id}").json()

    assert (batch["status"], batch["request_counts"]) == ("completed", {"total": 3, "completed": 2, "failed": 1})
    assert (batch["usage"]["input_tokens"], batch["usage"]["output_tokens"]) == (10, 4)
    output = api_user.read_lines(batch["output_file_id"])
    assert [line["custom_id"] for line in output] == ["a", "c"]
    bodies = [line["response"]["body"] for line in output]
    assert [body["choices"][0]["message"]["content"] for body in bodies] == ["answer 0", "answer 2"]
    assert {body["model"] for body in bodies} == {MODEL}
    [error] = api_user.read_lines(batch["error_file_id"])
    assert (error["custom_id"], error["response"]["status_code"]) == ("b", 400)
    assert error["response"]["body"]["error"]["message"] == "Too long."
    usage = DailyUsage.objects.get(user=api_user.user)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.requests) == (10, 4, 2)
    assert member.files == {}


def test_what_the_member_did_not_run_our_workers_run_and_nothing_twice(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a", "b", "c", "d")
    advance(job)
    answers: dict[str, Line | None] = {"1": failed(500, "server_error"), "2": None, "3": {"error": "of another form"}}
    member.finish(lambda line: answers.get(line["custom_id"], completed(line)), status="expired")

    row = advance(job, timedelta(seconds=11))

    assert (row.state, row.error) == (State.ENDED, "The member's batch is expired.")
    assert list(BatchResult.objects.filter(request__batch=job).values_list("request__index", flat=True)) == [0]
    assert claim(job) == [1, 2, 3]
    assert member.files == {}


@pytest.mark.parametrize("status", [400, 401, 404, 413])
@pytest.mark.parametrize("call", ["POST /v1/uploads", "POST /v1/batches"])
def test_our_workers_run_what_a_member_refuses(api_user: ApiUser, member: FakeMember, call: str, status: int):
    member.statuses[call] = [status]
    job = make_batch(api_user, "a")

    row = advance(job)

    rejected = "The remote server rejects the configured API key."
    assert row.error == (rejected if status == 401 else f"It answers {status}: This was asked for by the test.")
    assert claim(job) == [0]
    if row.state != State.ENDED:
        assert advance(job).state == State.ENDED
    assert member.files == member.batches == {}


def test_a_call_that_fails_is_repeated_and_creates_one_batch(api_user: ApiUser, member: FakeMember):
    member.statuses = {"POST /v1/batches": [503], "POST /v1/uploads": [429]}
    job = make_batch(api_user, "a")

    waits = [timedelta(seconds=seconds) for seconds in (0, 21, 42)]
    assert [advance(job, wait).state for wait in waits] == [State.SENDING, State.SENDING, State.RUNNING]

    assert member.calls.count("POST /v1/uploads/upload-N/complete") == len(member.batches) == 1
    assert claim(job) == []


def test_a_worker_that_is_killed_after_it_created_the_batch_creates_no_second_one(
    api_user: ApiUser, member: FakeMember
):
    job = make_batch(api_user, "a")
    advance(job)
    died = Handover.objects.filter(batch_id=job.batch_id)
    died.update(state=State.SENDING, remote_batch_id="", lease_expires_at=timezone.now() + timedelta(minutes=1))
    assert advance(job).state == State.SENDING

    row = advance(job, timedelta(minutes=2))

    assert (row.state, row.remote_batch_id, len(member.batches)) == (State.RUNNING, "batch-0", 1)
    member.finish(completed)
    advance(job, timedelta(minutes=3))
    job.refresh_from_db()
    assert (job.status, job.completed) == (Batch.Status.COMPLETED, 1)


def test_a_worker_that_is_killed_while_it_records_results_leaves_the_rest_to_the_next(
    api_user: ApiUser, member: FakeMember
):
    job = make_batch(api_user, *map(str, range(1200)))
    advance(job)
    member.finish(completed)
    ending = threading.Event()
    row = Handover.objects.get(batch_id=job.batch_id)
    later = iter(timezone.now() + timedelta(seconds=20 * step) for step in range(1, 1000))

    def end_after_a_page() -> datetime:
        if BatchResult.objects.exists():
            ending.set()
        return next(later)

    advance_handover(handover_pk=row.pk, ending=ending, clock=end_after_a_page)
    assert BatchResult.objects.count() == 500

    advance(job, timedelta(minutes=20))

    job.refresh_from_db()
    assert (job.status, job.completed, BatchResult.objects.count()) == (Batch.Status.COMPLETED, 1200, 1200)
    assert (job.prompt_tokens, DailyUsage.objects.get(user=api_user.user).requests) == (6000, 1200)


def test_a_member_that_is_silent_for_ten_minutes_has_lost_the_batch(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    member.statuses["GET /v1/batches/batch-N"] = [500] * 3
    assert advance(job, timedelta(minutes=1)).state == State.RUNNING
    assert claim(job) == []

    row = advance(job, timedelta(minutes=11))

    assert (row.state, row.error[:16]) == (State.CANCELLING, "It answers 500. ")
    assert claim(job) == [0]
    assert advance(job, timedelta(minutes=12)).state == State.CANCELLING
    assert advance(job, timedelta(minutes=13)).state == State.ENDED
    assert (member.batch["status"], member.files) == ("cancelled", {})


def test_a_cancellation_is_passed_on(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    assert api_user.post(f"/v1/batches/{job.batch_id}/cancel").status_code == 200

    row = advance(job)

    assert (row.state, member.batch["status"], member.files) == (State.ENDED, "cancelled", {})


def test_what_is_left_at_the_member_is_deleted_with_the_batch(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    advance(job)
    delete_batch(batch_pk=job.pk)

    row = advance(job)

    assert (row.job_id, row.state, member.batch["status"], member.files) == (None, State.ENDED, "cancelled", {})


def test_two_workers_do_not_advance_one_hand_over_at_once(api_user: ApiUser, member: FakeMember):
    job = make_batch(api_user, "a")
    row = Handover.objects.get(batch_id=job.batch_id)
    Handover.objects.update(lease_expires_at=timezone.now() + timedelta(minutes=1))

    assert not advance_handover(handover_pk=row.pk, ending=threading.Event())
    assert member.calls == []


@pytest.mark.parametrize(("left", "count"), [(0, 1), (100, 3)])
def test_a_batch_that_may_exceed_a_quota_runs_here_where_it_ends_at_it(
    api_user: ApiUser, member: FakeMember, settings: Settings, left: int, count: int
):
    jobs = [make_batch(api_user, "a", body=BODY | {"max_tokens": 30}) for _ in range(count)]
    settings.USER_MONTHLY_TOKEN_LIMIT = 5 + left
    usage = Usage(5, 0, 0)
    record_usage(user_id=api_user.user.pk, api_key_id=None, model_id=MODEL, usage=usage, requests=1, now=timezone.now())

    rows = [advance(job) for job in jobs]

    assert [row.state for row in rows] == [State.RUNNING] * (count - 1) + [State.ENDED]
    assert rows[-1].error == "It may exceed a monthly quota, at which our own workers stop."
    assert (claim(jobs[-1]), len(member.batches)) == ([0], count - 1)


@pytest.mark.parametrize(
    "changes",
    [{"takes_batches": False}, {"state": "draining"}],
    ids=["it does not take batches", "it drains"],
)
def test_a_pool_without_a_member_that_takes_batches_hands_nothing_over(
    api_user: ApiUser, member: FakeMember, changes: dict[str, Any]
):
    PoolMember.objects.update(**changes)
    cache.expire()

    job = make_batch(api_user, "a")

    assert (Handover.objects.count(), claim(job)) == (0, [0])


def test_a_pool_with_a_local_member_hands_nothing_over(api_user: ApiUser, member: FakeMember):
    add_member(member, name="here", kind="local", base_url="", model_name="", takes_batches=False)

    assert claim(make_batch(api_user, "a")) == [0]
    assert not Handover.objects.exists()


def test_what_a_member_has_is_no_work_that_waits_for_our_workers(api_user: ApiUser, member: FakeMember):
    def waiting() -> tuple[float, float]:
        found = {family.name: family.samples[0].value for family in read_queue_metrics(timezone.now())}
        return found["stoa_batches_processing"], found["stoa_batch_requests_open"]

    member.statuses["POST /v1/batches"] = [400]
    job = make_batch(api_user, "a", "b")
    assert waiting() == (1, 0)

    advance(job)

    assert waiting() == (1, 2)


def test_a_kind_without_batches_cannot_take_them():
    with pytest.raises(ValidationError, match="kinds openai and stoa"):
        PoolMember(model_id=MODEL, base_url="http://127.0.0.1:9/v1", kind="vllm", takes_batches=True).clean()
