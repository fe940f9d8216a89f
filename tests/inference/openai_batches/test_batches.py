"""/v1/batches: a file becomes a job that is there as soon as it is answered, and what came of it becomes files."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch, BatchRequest
from inference.batches.services import expire_batches, forget_batches
from inference.files.models import StoredFile
from inference.files.services import sweep_files
from inference.openai_batches import accepting, services
from inference.openai_batches.models import FileBatch
from tests.inference.openai_batches.conftest import ANSWERED, CHAT, MODEL, TOO_LONG, Asker, chat_lines, work

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def finish(now: datetime | None = None) -> None:
    """What a worker does, where a batch has ended."""
    now = now or timezone.now()
    (job,) = FileBatch.objects.to_finish(now).values_list("job", flat=True)
    assert job is not None
    assert services.finish_file_batch(batch_pk=job, now=now)


def read(asker: Asker, batch_id: str) -> dict[str, Any]:
    return dict(asker.get(f"/v1/batches/{batch_id}").json())


def test_a_batch_is_kept_with_all_its_requests_once_it_is_answered(asker: Asker):
    told = asker.make(chat_lines("a", "b"), metadata={"for": "me"})

    job = Batch.objects.get(batch_id=told["id"])
    assert (job.user, job.kind, job.model_id, job.total) == (asker.user, Batch.Kind.CHAT, MODEL, 2)
    assert list(BatchRequest.objects.order_by("index").values_list("custom_id", flat=True)) == ["a", "b"]
    assert told == {
        "id": job.batch_id,
        "object": "batch",
        "endpoint": CHAT,
        "model": MODEL,
        "errors": None,
        "input_file_id": told["input_file_id"],
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
    }


def test_what_came_of_it_is_written_to_two_files(asker: Asker):
    told = asker.make(chat_lines("a", "b", "c"))
    work(told["id"], ANSWERED, TOO_LONG, ANSWERED)

    assert read(asker, told["id"])["status"] == "finalizing"
    finish()

    batch = read(asker, told["id"])
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert batch["created_at"] <= batch["finalizing_at"] <= batch["completed_at"]
    number = told["id"].removeprefix("batch_")
    assert asker.read_lines(batch["output_file_id"]) == [
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
    (line,) = asker.read_lines(batch["error_file_id"])
    assert (line["custom_id"], line["error"], line["response"]["status_code"]) == ("b", None, 400)
    assert line["response"]["body"] == {
        "error": {
            "message": "The prompt is too long.",
            "type": "invalid_request_error",
            "param": None,
            "code": "context_length_exceeded",
        }
    }
    listed = asker.get("/v1/files?purpose=batch_output").json()["data"]
    assert {file["filename"] for file in listed} == {f"{told['id']}_output.jsonl", f"{told['id']}_errors.jsonl"}


def test_one_of_which_nothing_worked_is_completed_with_an_error_file_alone(asker: Asker):
    told = asker.make(chat_lines("a"))
    assert work(told["id"], TOO_LONG).status == Batch.Status.FAILED
    finish()

    batch = read(asker, told["id"])

    assert (batch["status"], batch["output_file_id"]) == ("completed", None)
    assert len(asker.read_lines(batch["error_file_id"])) == 1


def test_b4_a_crash_leaves_neither_a_batch_nor_an_answer(asker: Asker, monkeypatch: pytest.MonkeyPatch):
    file_id = asker.upload(chat_lines("a"))
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    key = {"Idempotency-Key": "mine"}

    def broken(**options: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(accepting, "keep", broken)
        assert asker.post("/v1/batches", body, key).status_code == 500
    assert not Batch.objects.exists()
    assert not FileBatch.objects.exists()

    first, second = asker.post("/v1/batches", body, key), asker.post("/v1/batches", body, key)
    assert first.status_code == second.status_code == 200
    assert first.json() == second.json()
    assert Batch.objects.count() == 1


def test_no_connection_to_the_database_is_held_while_a_file_is_checked(asker: Asker, monkeypatch: pytest.MonkeyPatch):
    check, held = services.check_file, []

    def look_and_check(*given: Any, **options: Any) -> Any:
        held.append(connection.connection)
        return check(*given, **options)

    monkeypatch.setattr(services, "check_file", look_and_check)
    asker.make(chat_lines("a"))

    assert held == [None]


def test_a_wrong_file_is_a_failed_batch_and_no_job(asker: Asker):
    told = asker.make(b"{\n" + chat_lines("a", "a"))

    assert told["status"] == "failed"
    assert told["failed_at"] == told["created_at"]
    assert told["errors"]["object"] == "list"
    assert [(one["line"], one["code"]) for one in told["errors"]["data"]] == [
        (1, "invalid_json_line"),
        (3, "duplicate_custom_id"),
    ]
    assert told["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert read(asker, told["id"]) == told
    assert not Batch.objects.exists()


def test_a_model_that_is_not_there_fails_it_before_anything_is_run(asker: Asker):
    told = asker.make(chat_lines("a").replace(MODEL.encode(), b"nobody"))

    (error,) = told["errors"]["data"]
    assert (error["code"], error["param"], error["line"]) == ("model_not_found", "body.model", None)
    assert MODEL in error["message"]


def test_a_cancelled_batch_keeps_what_was_done(asker: Asker):
    told = asker.make(chat_lines("a", "b", "c"))
    work(told["id"], ANSWERED, None)

    answer = asker.post(f"/v1/batches/{told['id']}/cancel")

    assert (answer.status_code, answer.json()["status"]) == (200, "cancelling")
    finish()
    batch = read(asker, told["id"])
    assert batch["status"] == "cancelled"
    assert batch["cancelling_at"] <= batch["cancelled_at"]
    assert [line["custom_id"] for line in asker.read_lines(batch["output_file_id"])] == ["a"]
    not_done = asker.read_lines(batch["error_file_id"])
    assert [(line["custom_id"], line["response"], line["error"]["code"]) for line in not_done] == [
        ("b", None, "batch_cancelled"),
        ("c", None, "batch_cancelled"),
    ]
    again = asker.post(f"/v1/batches/{told['id']}/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")


def test_what_has_ended_cannot_be_cancelled(asker: Asker):
    told = asker.make(chat_lines("a"))
    work(told["id"], ANSWERED)
    failed = asker.make(b"{")

    for one in (told, failed):
        assert asker.post(f"/v1/batches/{one['id']}/cancel").status_code == 400
    finish()
    assert read(asker, told["id"])["status"] == "completed"


def test_an_expired_batch_says_so_of_what_was_not_done(asker: Asker):
    told = asker.make(chat_lines("a", "b"))
    work(told["id"], ANSWERED)
    assert expire_batches(now=timezone.now() + DAY) == 1
    finish()

    batch = read(asker, told["id"])

    assert batch["status"] == "expired"
    assert batch["expired_at"] is not None
    assert len(asker.read_lines(batch["output_file_id"])) == 1
    (line,) = asker.read_lines(batch["error_file_id"])
    assert (line["response"], line["error"]["code"]) == (None, "batch_expired")


def test_files_are_written_once_whoever_else_tries(asker: Asker, monkeypatch: pytest.MonkeyPatch):
    told = asker.make(chat_lines("a"))
    job = work(told["id"], ANSWERED)
    write, others = services.write_file, [True]

    def write_while_others_finish(**options: Any) -> StoredFile:
        file = write(**options)
        if others.pop():
            others.append(False)
            assert not services.finish_file_batch(batch_pk=job.pk, now=timezone.now())
            later = timezone.now() + services.FINISHES_WITHIN + timedelta(seconds=1)  # as if we had died
            assert services.finish_file_batch(batch_pk=job.pk, now=later)
        return file

    monkeypatch.setattr(services, "write_file", write_while_others_finish)
    assert not services.finish_file_batch(batch_pk=job.pk, now=timezone.now())

    batch = read(asker, told["id"])
    assert batch["status"] == "completed"
    assert len(asker.read_lines(batch["output_file_id"])) == 1
    (listed,) = asker.get("/v1/files?purpose=batch_output").json()["data"]
    assert listed["id"] == batch["output_file_id"]
    assert StoredFile.objects.filter(status=StoredFile.Status.STORING).count() == 1


def test_files_that_could_not_be_written_are_written_the_next_time(asker: Asker, monkeypatch: pytest.MonkeyPatch):
    told = asker.make(chat_lines("a"))
    work(told["id"], ANSWERED)

    def broken(**options: Any) -> StoredFile:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(services, "write_file", broken)
        with pytest.raises(ConnectionError):
            finish()
    assert read(asker, told["id"])["status"] == "finalizing"
    assert not FileBatch.objects.to_finish(timezone.now()).exists()  # others have their turn first

    finish(timezone.now() + services.TRIES_AGAIN_AFTER)
    assert read(asker, told["id"])["status"] == "completed"


def test_who_writes_for_long_is_let_finish(asker: Asker, monkeypatch: pytest.MonkeyPatch):
    told = asker.make(chat_lines("a", "b"))
    job = work(told["id"], ANSWERED, ANSWERED)
    now, passed = timezone.now(), [timedelta()]
    read_lines, save = services.output_lines, default_storage.save

    def time_passes(most: timedelta) -> None:
        passed[0] += most * 0.9
        assert not FileBatch.objects.to_finish(now + passed[0]).exists()

    def slow_lines(job: Batch) -> Iterator[bytes]:
        for line in read_lines(job):
            time_passes(services.FINISHES_WITHIN)
            yield line

    def slow_save(name: str, content: Any) -> str:
        time_passes(services.FINISHES_WITHIN + timedelta(seconds=content.size / services.SLOWEST_STORAGE))
        return str(save(name, content))

    monkeypatch.setattr(services, "SLOWEST_STORAGE", 0.5)
    monkeypatch.setattr(services, "output_lines", slow_lines)
    monkeypatch.setattr(default_storage, "save", slow_save)
    assert services.finish_file_batch(batch_pk=job.pk, now=now, clock=lambda: now + passed[0])
    assert read(asker, told["id"])["status"] == "completed"


def test_its_files_are_there_for_a_week_or_as_long_as_was_asked(asker: Asker):
    for asked, expected in ((None, 7 * DAY), ({"anchor": "created_at", "seconds": 3600}, timedelta(hours=1))):
        told = asker.make(chat_lines("a"), **({"output_expires_after": asked} if asked else {}))
        work(told["id"], ANSWERED)
        finish()
        file = asker.get(f"/v1/files/{read(asker, told['id'])['output_file_id']}").json()
        assert file["expires_at"] - file["created_at"] == expected.total_seconds()


def test_what_is_forgotten_leaves_nothing(asker: Asker):
    told = asker.make(chat_lines("a"))
    work(told["id"], ANSWERED)
    finish()
    asker.make(b"{")

    later = timezone.now() + 8 * DAY
    assert forget_batches(now=later) == 1
    services.sweep_file_batches(now=later)
    sweep_files(now=later)
    sweep_files(now=later + DAY)

    assert not FileBatch.objects.exists()
    assert not StoredFile.objects.exists()


def test_b11_another_users_batch_is_answered_as_one_that_is_not_there(asker: Asker, stranger: Asker):
    told = asker.make(chat_lines("a"))

    for ask in (
        lambda one: stranger.get(f"/v1/batches/{one}"),
        lambda one: stranger.post(f"/v1/batches/{one}/cancel"),
        lambda one: stranger.get(f"/v1/batches?after={one}"),
    ):
        theirs, nobodys = ask(told["id"]), ask("batch_0")
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json()["error"]["message"].replace(told["id"], "batch_0") == nobodys.json()["error"]["message"]
    body = {"input_file_id": told["input_file_id"], "endpoint": CHAT, "completion_window": "24h"}
    stolen = stranger.post("/v1/batches", body)
    assert (stolen.status_code, stolen.json()["error"]["param"]) == (404, "input_file_id")
    assert stranger.get("/v1/batches").json()["data"] == []


def test_what_a_batch_has_written_is_no_input(asker: Asker):
    told = asker.make(chat_lines("a"))
    work(told["id"], ANSWERED)
    finish()

    body = {
        "input_file_id": read(asker, told["id"])["output_file_id"],
        "endpoint": CHAT,
        "completion_window": "24h",
    }
    refused = asker.post("/v1/batches", body)

    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input_file_id")


def test_pages_are_newest_first(asker: Asker):
    ids = [asker.make(b"{")["id"] for _ in range(3)]

    first = asker.get("/v1/batches?limit=2").json()
    assert ([one["id"] for one in first["data"]], first["has_more"]) == (ids[:0:-1], True)
    second = asker.get(f"/v1/batches?limit=2&after={first['last_id']}").json()
    assert ([one["id"] for one in second["data"]], second["has_more"]) == (ids[:1], False)


def test_its_input_file_may_go_while_it_runs(asker: Asker):
    told = asker.make(chat_lines("a"))

    assert asker.delete(f"/v1/files/{told['input_file_id']}").status_code == 200
    work(told["id"], ANSWERED)
    finish()

    assert read(asker, told["id"])["status"] == "completed"


def test_the_native_route_knows_the_same_batch(asker: Asker):
    told = asker.make(chat_lines("a", "b"))
    work(told["id"], ANSWERED)

    native = asker.get(f"/batch/{told['id']}").json()

    assert (native["batch_id"], native["status"], native["total"], native["completed"]) == (
        told["id"],
        "processing",
        2,
        1,
    )


def test_a_file_that_would_overfill_the_queue_makes_no_batch(asker: Asker, settings: Settings):
    settings.BATCH_QUEUED_TOKENS_PER_USER = 5000
    asker.make(chat_lines("a", "b", "c"))
    assert 3 * 1024 < Batch.objects.get().reserved_tokens < 3 * 1100

    body = {"input_file_id": asker.upload(chat_lines("a", "b")), "endpoint": CHAT, "completion_window": "24h"}
    refused = asker.post("/v1/batches", body)
    assert refused.status_code == 429, refused.content
    assert refused["Retry-After"] == "60"
    assert refused["X-Should-Retry"] == "false"
    assert "cancel one" in refused.json()["error"]["message"]
    assert FileBatch.objects.count() == 1


def test_of_batches_whose_files_were_wrong_the_newest_are_kept(
    asker: Asker, stranger: Asker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(services, "MOST_FAILED", 3)
    kept = asker.make(chat_lines("a"))
    others = stranger.make(b"{")
    wrong = [asker.make(b"{") for _ in range(5)]

    left = FileBatch.objects.order_by("pk").values_list("batch_id", flat=True)
    assert list(left) == [made["id"] for made in (kept, others, *wrong[2:])]
