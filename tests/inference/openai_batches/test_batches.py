"""/v1/batches: an input file becomes a batch, and its results become output and error files."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch, BatchRequest
from inference.batches.worker.sweeper import delete_old_batches, expire_batches
from inference.files.models import StoredFile
from inference.files.services import sweep_files
from inference.openai_batches import output_files, services, views
from inference.openai_batches.models import FileBatch
from tests.inference.openai_batches.conftest import ANSWERED, CHAT, MODEL, TOO_LONG, ApiUser, chat_lines, run_worker

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def write_files(now: datetime | None = None) -> None:
    """Write the files of the one ended batch, as a worker does."""
    now = now or timezone.now()
    (job,) = FileBatch.objects.without_output_files(now).values_list("job", flat=True)
    assert job is not None
    assert output_files.write_output_files(batch_pk=job, now=now)


def get_batch(api_user: ApiUser, batch_id: str) -> dict[str, Any]:
    return dict(api_user.get(f"/v1/batches/{batch_id}").json())


def test_creating_a_batch_stores_all_its_requests(api_user: ApiUser):
    created = api_user.make(chat_lines("a", "b"), metadata={"for": "me"})

    job = Batch.objects.get(batch_id=created["id"])
    assert (job.user, job.kind, job.model_id, job.total) == (api_user.user, Batch.Kind.CHAT, MODEL, 2)
    assert list(BatchRequest.objects.order_by("index").values_list("custom_id", flat=True)) == ["a", "b"]
    assert created == {
        "id": job.batch_id,
        "object": "batch",
        "endpoint": CHAT,
        "model": MODEL,
        "errors": None,
        "input_file_id": created["input_file_id"],
        "completion_window": "24h",
        "status": "in_progress",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": int(job.created_at.timestamp()),
        "in_progress_at": int(job.created_at.timestamp()),
        "expires_at": int(job.created_at.timestamp()) + 24 * 3600,
        "finalizing_at": None,
        "completed_at": None,
        "failed_at": None,
        "expired_at": None,
        "cancelling_at": None,
        "cancelled_at": None,
        "request_counts": {"total": 2, "completed": 0, "failed": 0},
        "metadata": {"for": "me"},
        "usage": {
            "input_tokens": 0,
            "output_tokens": 0,
            "total_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def test_results_are_written_to_an_output_and_an_error_file(api_user: ApiUser):
    created = api_user.make(chat_lines("a", "b", "c"))
    run_worker(created["id"], ANSWERED, TOO_LONG, ANSWERED)

    assert get_batch(api_user, created["id"])["status"] == "finalizing"
    write_files()

    batch = get_batch(api_user, created["id"])
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert batch["created_at"] <= batch["finalizing_at"] <= batch["completed_at"]
    number = created["id"].removeprefix("batch_")
    assert api_user.read_lines(batch["output_file_id"]) == [
        {
            "id": f"batch_req_{number}_{index}",
            "custom_id": name,
            "response": {
                "status_code": 200,
                "request_id": f"req_{number}_{index}",
                "body": {"id": "chatcmpl-1", "choices": []},
            },
            "error": None,
        }
        for index, name in ((0, "a"), (2, "c"))
    ]
    (line,) = api_user.read_lines(batch["error_file_id"])
    assert (line["custom_id"], line["error"], line["response"]["status_code"]) == ("b", None, 400)
    assert line["response"]["body"] == {
        "error": {
            "message": "The prompt is too long.",
            "type": "invalid_request_error",
            "param": None,
            "code": "context_length_exceeded",
        }
    }
    listed = api_user.get("/v1/files?purpose=batch_output").json()["data"]
    assert {file["filename"] for file in listed} == {f"{created['id']}_output.jsonl", f"{created['id']}_errors.jsonl"}


def test_a_batch_without_successes_is_completed_with_an_error_file_only(api_user: ApiUser):
    created = api_user.make(chat_lines("a"))
    assert run_worker(created["id"], TOO_LONG).status == Batch.Status.FAILED
    write_files()

    batch = get_batch(api_user, created["id"])

    assert (batch["status"], batch["output_file_id"]) == ("completed", None)
    assert len(api_user.read_lines(batch["error_file_id"])) == 1


def test_b4_a_crash_leaves_neither_a_batch_nor_a_stored_response(api_user: ApiUser, monkeypatch: pytest.MonkeyPatch):
    file_id = api_user.upload(chat_lines("a"))
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    key = {"Idempotency-Key": "mine"}

    def broken(*given: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(views, "store_keyed_response", broken)
        assert api_user.post("/v1/batches", body, key).status_code == 500
    assert not Batch.objects.exists()
    assert not FileBatch.objects.exists()

    first, second = api_user.post("/v1/batches", body, key), api_user.post("/v1/batches", body, key)
    assert first.status_code == second.status_code == 200
    assert first.json() == second.json()
    assert Batch.objects.count() == 1


def test_no_database_connection_is_held_during_validation(api_user: ApiUser, monkeypatch: pytest.MonkeyPatch):
    check, held = services.validate_file, []

    def look_and_check(*given: Any, **options: Any) -> Any:
        held.append(connection.connection)
        return check(*given, **options)

    monkeypatch.setattr(services, "validate_file", look_and_check)
    api_user.make(chat_lines("a"))

    assert held == [None]


def test_an_invalid_file_creates_a_failed_batch_without_a_job(api_user: ApiUser):
    created = api_user.make(b"{\n" + chat_lines("a", "a"))

    assert created["status"] == "failed"
    assert created["failed_at"] == created["created_at"]
    assert created["errors"]["object"] == "list"
    assert [(one["line"], one["code"]) for one in created["errors"]["data"]] == [
        (1, "invalid_json_line"),
        (3, "duplicate_custom_id"),
    ]
    assert created["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert get_batch(api_user, created["id"]) == created
    assert not Batch.objects.exists()


def test_an_unknown_model_creates_a_failed_batch(api_user: ApiUser):
    created = api_user.make(chat_lines("a").replace(MODEL.encode(), b"nobody"))

    (error,) = created["errors"]["data"]
    assert (error["code"], error["param"], error["line"]) == ("model_not_found", "body.model", None)
    assert MODEL in error["message"]


def test_a_cancelled_batch_writes_finished_results(api_user: ApiUser):
    created = api_user.make(chat_lines("a", "b", "c"))
    run_worker(created["id"], ANSWERED, None)

    answer = api_user.post(f"/v1/batches/{created['id']}/cancel")

    assert (answer.status_code, answer.json()["status"]) == (200, "cancelling")
    write_files()
    batch = get_batch(api_user, created["id"])
    assert batch["status"] == "cancelled"
    assert batch["cancelling_at"] <= batch["cancelled_at"]
    assert [line["custom_id"] for line in api_user.read_lines(batch["output_file_id"])] == ["a"]
    not_done = api_user.read_lines(batch["error_file_id"])
    assert [(line["custom_id"], line["response"], line["error"]["code"]) for line in not_done] == [
        ("b", None, "batch_cancelled"),
        ("c", None, "batch_cancelled"),
    ]
    again = api_user.post(f"/v1/batches/{created['id']}/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")


def test_an_ended_batch_cannot_be_cancelled(api_user: ApiUser):
    created = api_user.make(chat_lines("a"))
    run_worker(created["id"], ANSWERED)
    failed = api_user.make(b"{")

    for one in (created, failed):
        assert api_user.post(f"/v1/batches/{one['id']}/cancel").status_code == 400
    write_files()
    assert get_batch(api_user, created["id"])["status"] == "completed"


def test_an_expired_batch_reports_its_unfinished_requests(api_user: ApiUser):
    created = api_user.make(chat_lines("a", "b"))
    run_worker(created["id"], ANSWERED)
    assert expire_batches(now=timezone.now() + DAY) == 1
    write_files()

    batch = get_batch(api_user, created["id"])

    assert batch["status"] == "expired"
    assert batch["expired_at"] is not None
    assert len(api_user.read_lines(batch["output_file_id"])) == 1
    (line,) = api_user.read_lines(batch["error_file_id"])
    assert (line["response"], line["error"]["code"]) == (None, "batch_expired")


def test_concurrent_workers_write_the_files_once(api_user: ApiUser, monkeypatch: pytest.MonkeyPatch):
    created = api_user.make(chat_lines("a"))
    job = run_worker(created["id"], ANSWERED)
    write, others = output_files.write_file, [True]

    def write_while_others_finish(**options: Any) -> StoredFile:
        file = write(**options)
        if others.pop():
            others.append(False)
            assert not output_files.write_output_files(batch_pk=job.pk, now=timezone.now())
            later = timezone.now() + output_files.LEASE_DURATION + timedelta(seconds=1)  # as if this worker had died
            assert output_files.write_output_files(batch_pk=job.pk, now=later)
        return file

    monkeypatch.setattr(output_files, "write_file", write_while_others_finish)
    assert not output_files.write_output_files(batch_pk=job.pk, now=timezone.now())

    batch = get_batch(api_user, created["id"])
    assert batch["status"] == "completed"
    assert len(api_user.read_lines(batch["output_file_id"])) == 1
    (listed,) = api_user.get("/v1/files?purpose=batch_output").json()["data"]
    assert listed["id"] == batch["output_file_id"]
    assert StoredFile.objects.filter(status=StoredFile.Status.STORING).count() == 1


def test_writing_files_is_retried_after_a_failure(api_user: ApiUser, monkeypatch: pytest.MonkeyPatch):
    created = api_user.make(chat_lines("a"))
    run_worker(created["id"], ANSWERED)

    def broken(**options: Any) -> StoredFile:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(output_files, "write_file", broken)
        with pytest.raises(ConnectionError):
            write_files()
    assert get_batch(api_user, created["id"])["status"] == "finalizing"
    assert not FileBatch.objects.without_output_files(timezone.now()).exists()  # the retry is delayed

    write_files(timezone.now() + output_files.RETRY_DELAY)
    assert get_batch(api_user, created["id"])["status"] == "completed"


def test_the_write_lease_is_renewed_during_slow_writes(api_user: ApiUser, monkeypatch: pytest.MonkeyPatch):
    created = api_user.make(chat_lines("a", "b"))
    job = run_worker(created["id"], ANSWERED, ANSWERED)
    now, passed = timezone.now(), [timedelta()]
    read_lines, save = output_files.output_lines, default_storage.save

    def time_passes(most: timedelta) -> None:
        passed[0] += most * 0.9
        assert not FileBatch.objects.without_output_files(now + passed[0]).exists()

    def slow_lines(job: Batch) -> Iterator[bytes]:
        for line in read_lines(job):
            time_passes(output_files.LEASE_DURATION)
            yield line

    def slow_save(name: str, content: Any) -> str:
        time_passes(
            output_files.LEASE_DURATION + timedelta(seconds=content.size / output_files.MIN_STORAGE_BYTES_PER_SECOND)
        )
        return str(save(name, content))

    monkeypatch.setattr(output_files, "MIN_STORAGE_BYTES_PER_SECOND", 0.5)
    monkeypatch.setattr(output_files, "output_lines", slow_lines)
    monkeypatch.setattr(default_storage, "save", slow_save)
    assert output_files.write_output_files(batch_pk=job.pk, now=now, clock=lambda: now + passed[0])
    assert get_batch(api_user, created["id"])["status"] == "completed"


def test_output_files_are_kept_a_week_or_as_requested(api_user: ApiUser):
    for expiry, expected in ((None, 7 * DAY), ({"anchor": "created_at", "seconds": 3600}, timedelta(hours=1))):
        created = api_user.make(chat_lines("a"), **({"output_expires_after": expiry} if expiry else {}))
        run_worker(created["id"], ANSWERED)
        write_files()
        file = api_user.get(f"/v1/files/{get_batch(api_user, created['id'])['output_file_id']}").json()
        assert file["expires_at"] - file["created_at"] == expected.total_seconds()


def test_an_old_batch_is_deleted_with_its_files(api_user: ApiUser):
    created = api_user.make(chat_lines("a"))
    run_worker(created["id"], ANSWERED)
    write_files()
    api_user.make(b"{")

    later = timezone.now() + 8 * DAY
    assert delete_old_batches(now=later) == 1
    output_files.sweep_file_batches(now=later)
    sweep_files(now=later)
    sweep_files(now=later + DAY)

    assert not FileBatch.objects.exists()
    assert not StoredFile.objects.exists()


def test_b11_another_users_batch_looks_like_a_missing_one(api_user: ApiUser, other_user: ApiUser):
    created = api_user.make(chat_lines("a"))

    for ask in (
        lambda one: other_user.get(f"/v1/batches/{one}"),
        lambda one: other_user.post(f"/v1/batches/{one}/cancel"),
        lambda one: other_user.get(f"/v1/batches?after={one}"),
    ):
        foreign, missing = ask(created["id"]), ask("batch_0")
        assert foreign.status_code == missing.status_code == 404
        assert (
            foreign.json()["error"]["message"].replace(created["id"], "batch_0") == missing.json()["error"]["message"]
        )
    body = {"input_file_id": created["input_file_id"], "endpoint": CHAT, "completion_window": "24h"}
    stolen = other_user.post("/v1/batches", body)
    assert (stolen.status_code, stolen.json()["error"]["param"]) == (404, "input_file_id")
    assert other_user.get("/v1/batches").json()["data"] == []


def test_an_output_file_is_not_accepted_as_input(api_user: ApiUser):
    created = api_user.make(chat_lines("a"))
    run_worker(created["id"], ANSWERED)
    write_files()

    body = {
        "input_file_id": get_batch(api_user, created["id"])["output_file_id"],
        "endpoint": CHAT,
        "completion_window": "24h",
    }
    refused = api_user.post("/v1/batches", body)

    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input_file_id")


def test_batches_are_listed_newest_first(api_user: ApiUser):
    ids = [api_user.make(b"{")["id"] for _ in range(3)]

    first = api_user.get("/v1/batches?limit=2").json()
    assert ([one["id"] for one in first["data"]], first["has_more"]) == (ids[:0:-1], True)
    second = api_user.get(f"/v1/batches?limit=2&after={first['last_id']}").json()
    assert ([one["id"] for one in second["data"]], second["has_more"]) == (ids[:1], False)


def test_the_input_file_may_be_deleted_while_the_batch_runs(api_user: ApiUser):
    created = api_user.make(chat_lines("a"))

    assert api_user.delete(f"/v1/files/{created['input_file_id']}").status_code == 200
    run_worker(created["id"], ANSWERED)
    write_files()

    assert get_batch(api_user, created["id"])["status"] == "completed"


def test_the_native_route_returns_the_same_batch(api_user: ApiUser):
    created = api_user.make(chat_lines("a", "b"))
    run_worker(created["id"], ANSWERED)

    native = api_user.get(f"/batch/{created['id']}").json()

    assert (native["batch_id"], native["status"], native["total"], native["completed"]) == (
        created["id"],
        "processing",
        2,
        1,
    )


def test_a_file_over_the_queue_limit_creates_no_batch(api_user: ApiUser, settings: Settings):
    settings.MAX_QUEUED_BATCH_TOKENS_PER_USER = 5000
    api_user.make(chat_lines("a", "b", "c"))
    assert 3 * 1024 < Batch.objects.get().reserved_tokens < 3 * 1100

    body = {"input_file_id": api_user.upload(chat_lines("a", "b")), "endpoint": CHAT, "completion_window": "24h"}
    refused = api_user.post("/v1/batches", body)
    assert refused.status_code == 429, refused.content
    assert refused["Retry-After"] == "60"
    assert refused["X-Should-Retry"] == "false"
    assert "cancel one" in refused.json()["error"]["message"]
    assert FileBatch.objects.count() == 1


def test_only_the_newest_invalid_batches_are_kept(
    api_user: ApiUser, other_user: ApiUser, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(services, "MAX_INVALID_BATCHES", 3)
    valid = api_user.make(chat_lines("a"))
    others = other_user.make(b"{")
    wrong = [api_user.make(b"{") for _ in range(5)]

    left = FileBatch.objects.order_by("pk").values_list("batch_id", flat=True)
    assert list(left) == [file_batch["id"] for file_batch in (valid, others, *wrong[2:])]


def message_lines(*ids: str) -> bytes:
    body = {"model": MODEL, "max_tokens": 3, "messages": [{"role": "user", "content": "x"}]}
    lines = [{"custom_id": one, "method": "POST", "url": "/v1/messages", "body": body} for one in ids]
    return b"\n".join(json.dumps(line).encode() for line in lines)


def test_a_failed_message_has_anthropics_error(api_user: ApiUser):
    created = api_user.make(message_lines("a"), endpoint="/v1/messages")
    assert Batch.objects.get(batch_id=created["id"]).kind == Batch.Kind.MESSAGE
    run_worker(created["id"], TOO_LONG)
    write_files()

    [line] = api_user.read_lines(get_batch(api_user, created["id"])["error_file_id"])
    assert line["response"]["status_code"] == 400
    assert line["response"]["body"] == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "The prompt is too long."},
    }


def test_messages_are_refused_where_the_operator_does_not_offer_them(api_user: ApiUser, settings: Settings):
    settings.ANTHROPIC_API = False
    body = {"input_file_id": "file-1", "endpoint": "/v1/messages", "completion_window": "24h"}
    refused = api_user.post("/v1/batches", body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "endpoint")
    assert not FileBatch.objects.exists()
