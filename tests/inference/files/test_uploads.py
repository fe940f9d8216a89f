"""Routes of /v1/uploads on a running server, by OpenAI's client and by hand."""

import hashlib
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from inference.files.models import StoredFile, Upload
from inference.files.services import sweep_files
from inference.files.uploads import services
from shared.accounts.models import User
from shared.api.errors import ApiError
from tests.inference.running_server import RunningServer

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LINES = b"".join(b'{"custom_id": "r%d"}\n' % number for number in range(3000))


def post(stoa: RunningServer, path: str, role: str = "STAFF", **body: Any) -> httpx2.Response:
    return httpx2.post(f"{stoa.url}/v1/uploads{path}", json=body, headers=stoa.headers(role), timeout=60)


def create(stoa: RunningServer, size: int = len(LINES), **fields: Any) -> httpx2.Response:
    body = {"bytes": size, "filename": "lines.jsonl", "mime_type": "application/jsonl", "purpose": "batch"}
    return post(stoa, "", **body | fields)


def add(stoa: RunningServer, upload_id: str, data: bytes, role: str = "STAFF") -> httpx2.Response:
    return httpx2.post(
        f"{stoa.url}/v1/uploads/{upload_id}/parts",
        files={"data": ("part", data, "application/octet-stream")},
        headers=stoa.headers(role),
        timeout=60,
    )


def test_openais_client_uploads_a_file_in_chunks_and_makes_a_batch_of_it(stoa: RunningServer, tmp_path: Path):
    line = {"method": "POST", "url": "/v1/completions", "body": {"model": "talker", "prompt": "speak", "max_tokens": 2}}
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(json.dumps({"custom_id": f"r{number}"} | line) for number in range(20)))
    client = openai.OpenAI(base_url=f"{stoa.url}/v1", api_key=stoa.keys["STAFF"])

    upload = client.uploads.upload_file_chunked(
        file=path, mime_type="application/jsonl", purpose="batch", part_size=1000
    )

    assert upload.status == "completed"
    assert upload.file
    assert (upload.file.filename, upload.file.bytes) == ("requests.jsonl", path.stat().st_size)
    assert client.files.content(upload.file.id).read() == path.read_bytes()
    batch = client.batches.create(input_file_id=upload.file.id, endpoint="/v1/completions", completion_window="24h")
    assert batch.input_file_id == upload.file.id


def test_parts_are_joined_in_the_order_of_the_completion_and_one_that_came_twice_may_be_left_out(stoa: RunningServer):
    upload = create(stoa, expires_after={"anchor": "created_at", "seconds": 3600}).json()
    assert (upload["status"], upload["bytes"], upload["file"]) == ("pending", len(LINES), None)
    assert upload["expires_at"] - upload["created_at"] == 3600
    last, again, first = (add(stoa, upload["id"], data) for data in (LINES[20_000:], LINES[:20_000], LINES[:20_000]))
    assert again.status_code == 200, again.text
    part_ids = [first.json()["id"], last.json()["id"]]
    assert stoa.get(f"/v1/files/{part_ids[0]}", "STAFF").status_code == 404
    assert part_ids[0] not in stoa.get("/v1/files", "STAFF").text

    wrong = post(stoa, f"/{upload['id']}/complete", part_ids=part_ids, md5="0" * 32)
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "md5")
    completed = post(
        stoa,
        f"/{upload['id']}/complete",
        part_ids=part_ids,
        md5=hashlib.md5(LINES, usedforsecurity=False).hexdigest(),
    )

    assert completed.status_code == 200, completed.text
    file = completed.json()["file"]
    assert file["expires_at"] - file["created_at"] == 3600
    assert stoa.get(f"/v1/files/{file['id']}/content", "STAFF").content == LINES
    again = post(stoa, f"/{upload['id']}/complete", part_ids=part_ids)
    assert (again.status_code, again.json()) == (200, completed.json())
    assert post(stoa, f"/{upload['id']}/cancel").status_code == 409
    assert add(stoa, upload["id"], b"x").status_code == 409


def send_half_a_part(stoa: RunningServer, upload_id: str, data: bytes) -> None:
    """Send a request that promises this part, and close the connection after half of it."""
    start = b'--x\r\nContent-Disposition: form-data; name="data"; filename="part"\r\n\r\n'
    length = len(start) + len(data) + len(b"\r\n--x--\r\n")
    key = stoa.headers("STAFF")["Authorization"]
    head = f"POST /v1/uploads/{upload_id}/parts HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\n"
    head += f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {length}\r\n\r\n"
    url = urlsplit(stoa.url)
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall(head.encode() + start + data[: len(data) // 2])


def test_a_client_that_died_within_a_part_learns_which_parts_arrived_and_sends_the_rest(stoa: RunningServer):
    upload = create(stoa).json()
    path = f"/v1/uploads/{upload['id']}"
    assert stoa.get(path, "STAFF").json() == upload | {"parts": []}
    parts = [add(stoa, upload["id"], LINES[:20_000]).json()]
    send_half_a_part(stoa, upload["id"], LINES[20_000:40_000])

    found = stoa.get(path, "STAFF").json()
    assert found["parts"] == parts
    assert {key: found["parts"][0][key] for key in ("object", "upload_id", "bytes")} == {
        "object": "upload.part",
        "upload_id": upload["id"],
        "bytes": 20_000,
    }
    assert stoa.get(path, "SUPER_ADMIN").status_code == 404
    sent = sum(part["bytes"] for part in found["parts"])
    parts += [
        add(stoa, upload["id"], LINES[start : start + 15_000]).json() for start in range(sent, len(LINES), 15_000)
    ]
    found = stoa.get(path, "STAFF").json()
    assert found["parts"] == parts
    completed = post(stoa, f"/{upload['id']}/complete", part_ids=[part["id"] for part in found["parts"]]).json()

    assert stoa.get(f"/v1/files/{completed['file']['id']}/content", "STAFF").content == LINES
    assert stoa.get(path, "STAFF").json() == completed | {"parts": []}


def test_completions_at_once_make_one_file(stoa: RunningServer):
    upload = create(stoa).json()["id"]
    part = add(stoa, upload, LINES).json()["id"]
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: post(stoa, f"/{upload}/complete", part_ids=[part]), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["file"]["id"] for answer in answers}) == 1


def test_incomplete_foreign_and_repeated_parts_are_refused_and_change_nothing(stoa: RunningServer):
    upload, other = create(stoa).json()["id"], create(stoa).json()["id"]
    part, foreign = add(stoa, upload, LINES[:10]).json()["id"], add(stoa, other, LINES[10:]).json()["id"]
    for part_ids in ([part], [part, part], [part, foreign], ["part_none"], []):
        answer = post(stoa, f"/{upload}/complete", part_ids=part_ids)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "part_ids")
    rest = add(stoa, upload, LINES[10:]).json()["id"]
    assert post(stoa, f"/{upload}/complete", part_ids=[part, rest]).status_code == 200


def test_bad_requests_say_what_to_change(stoa: RunningServer):
    assert create(stoa, size=10**12).status_code == 413
    for field, value in {"bytes": 0, "purpose": "assistants", "filename": ""}.items():
        answer = create(stoa, **{field: value})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
    upload = create(stoa, size=10).json()["id"]
    assert add(stoa, upload, b"x" * 21).status_code == 413
    assert add(stoa, upload, b"").status_code == 400
    assert add(stoa, "upload_none", b"x").status_code == 404
    assert add(stoa, upload, b"x", role="SUPER_ADMIN").status_code == 404
    assert post(stoa, f"/{upload}/cancel", role="SUPER_ADMIN").status_code == 404
    assert post(stoa, f"/{upload}/cancel").json()["status"] == "cancelled"
    assert add(stoa, upload, b"x").status_code == 409


def test_an_upload_counts_what_it_announces(owner: User, settings: Any):
    settings.MAX_FILE_BYTES_PER_USER = 1000
    announced = {"owner": owner, "name": "a", "retention": None, "now": NOW}
    services.create_upload(size=700, **announced)
    with pytest.raises(ApiError) as refused:
        services.create_upload(size=301, **announced)
    assert refused.value.problem.status == 413
    services.create_upload(size=300, **announced)


@pytest.fixture
def stored(settings: Any, tmp_path: Path) -> Callable[[], int]:
    """Return a function that returns the size of all stored content."""
    settings.MEDIA_ROOT = tmp_path
    return lambda: sum(path.stat().st_size for path in (tmp_path / "files").iterdir())


def add_whole(owner: User, size: int) -> tuple[str, str]:
    """Create an upload and add its one part. Return the ids of both."""
    upload = services.create_upload(owner=owner, name="a", size=size, retention=None, now=NOW)
    content = SimpleUploadedFile("part", b"x" * size)
    part = services.add_part(owner=owner, upload_id=upload.upload_id, content=content, now=NOW)
    return upload.upload_id, part.file_id


def test_an_ended_upload_leaves_no_content_that_does_not_count(
    owner: User, stored: Callable[[], int], django_capture_on_commit_callbacks: Any
):
    upload_id, part_id = add_whole(owner, 1000)
    with django_capture_on_commit_callbacks(execute=True):
        services.complete_upload(owner=owner, upload_id=upload_id, part_ids=[part_id], md5="", now=NOW)
    assert stored() == 1000
    upload_id, _ = add_whole(owner, 500)
    assert stored() == 1500
    with django_capture_on_commit_callbacks(execute=True):
        services.cancel_upload(owner=owner, upload_id=upload_id, now=NOW)
    assert stored() == 1000


def test_a_part_that_is_stored_when_its_upload_is_cancelled_is_refused_and_removed(
    owner: User, stored: Callable[[], int], monkeypatch: pytest.MonkeyPatch
):
    upload = services.create_upload(owner=owner, name="a", size=9, retention=None, now=NOW)
    store = services.store

    def store_and_cancel(file: StoredFile, content: Any) -> None:
        store(file, content)
        services.cancel_upload(owner=owner, upload_id=upload.upload_id, now=NOW)

    monkeypatch.setattr(services, "store", store_and_cancel)
    with pytest.raises(ApiError, match="cancelled"):
        services.add_part(owner=owner, upload_id=upload.upload_id, content=SimpleUploadedFile("part", b"123"), now=NOW)
    assert (stored(), StoredFile.objects.count()) == (0, 0)


@pytest.mark.parametrize("moment", ["before it reads the parts", "after it has stored its file"])
def test_a_completion_that_another_one_overtakes_returns_the_others_file_and_leaves_nothing(
    owner: User,
    stored: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
    moment: str,
):
    upload_id, part_id = add_whole(owner, 1000)
    name = "TemporaryFile" if moment == "before it reads the parts" else "store"
    replaced = getattr(services, name)
    others = []

    def let_another_one_complete(*arguments: Any, **options: Any) -> Any:
        result = replaced(*arguments, **options)
        monkeypatch.setattr(services, name, replaced)
        with django_capture_on_commit_callbacks(execute=True):
            others.append(complete())
        return result

    def complete() -> StoredFile:
        _, file = services.complete_upload(owner=owner, upload_id=upload_id, part_ids=[part_id], md5="", now=NOW)
        return file

    monkeypatch.setattr(services, name, let_another_one_complete)
    assert complete() == others[0]
    assert stored() == 1000
    assert list(StoredFile.objects.filter(upload=None)) == others


def test_each_part_keeps_an_upload_for_another_hour_and_for_a_day_in_all(owner: User):
    upload_id = services.create_upload(owner=owner, name="a", size=100, retention=None, now=NOW).upload_id

    def add_at(minutes: int) -> StoredFile:
        now, content = NOW + timedelta(minutes=minutes), SimpleUploadedFile("part", b"1")
        sweep_files(now=now)
        return services.add_part(owner=owner, upload_id=upload_id, content=content, now=now)

    parts = [add_at(minutes) for minutes in (59, *range(100, 24 * 60, 59), 24 * 60 - 1)]
    last = NOW + timedelta(hours=24)
    upload, _, found = services.find_upload(owner=owner, upload_id=upload_id, now=last - timedelta(minutes=1))
    assert (upload.expires_at, found) == (last, parts)
    assert {part.expires_at for part in found} == {last}
    upload, _, found = services.find_upload(owner=owner, upload_id=upload_id, now=last)
    assert (services.upload_status(upload, last), found) == ("expired", [])
    with pytest.raises(ApiError, match="expired"):
        add_at(24 * 60)


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_parts_of_a_cancelled_or_expired_upload_are_swept(owner: User, is_cancelled: bool):
    upload = services.create_upload(owner=owner, name="a", size=9, retention=None, now=NOW)
    content = SimpleUploadedFile("part", b"123")
    services.add_part(owner=owner, upload_id=upload.upload_id, content=content, now=NOW)
    later = NOW + services.UPLOAD_LIFETIME
    if is_cancelled:
        services.cancel_upload(owner=owner, upload_id=upload.upload_id, now=NOW)
    else:
        with pytest.raises(ApiError, match="expired"):
            services.cancel_upload(owner=owner, upload_id=upload.upload_id, now=later)
    for hours in (1, 2.1, 2.2):
        sweep_files(now=NOW + timedelta(hours=hours))
    assert (StoredFile.objects.count(), Upload.objects.count()) == (0, 0)
