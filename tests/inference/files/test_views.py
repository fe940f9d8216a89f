"""Routes of /v1/files on a running server."""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.inference.running_server import RunningServer

LINES = b'{"custom_id": "a"}\n{"custom_id": "b"}\n'


def upload(
    stoa: RunningServer,
    content: bytes = LINES,
    *,
    name: str = "lines.jsonl",
    role: str = "STAFF",
    **fields: str,
) -> httpx2.Response:
    return httpx2.post(
        f"{stoa.url}/v1/files",
        data={"purpose": "batch"} | fields,
        files={"file": (name, content, "application/jsonl")},
        headers=stoa.headers(role),
        timeout=60,
    )


def delete(stoa: RunningServer, path: str, role: str = "STAFF") -> httpx2.Response:
    return httpx2.delete(stoa.url + path, headers=stoa.headers(role), timeout=30)


def content_path(stoa: RunningServer, file_id: str) -> Path:
    return Path(stoa.environment["STOA_HOME"]) / "var" / "files" / "files" / file_id


def test_an_uploaded_file_is_downloaded_byte_for_byte(stoa: RunningServer):
    content = LINES + bytes(range(256)) * 5000

    answer = upload(stoa, content, name="my lines.jsonl")

    assert answer.status_code == 200, answer.text
    metadata = answer.json()
    assert metadata["id"].startswith("file-")
    assert time.time() - 60 < metadata["created_at"] <= time.time()
    assert metadata | {"id": "", "created_at": 0, "expires_at": 0} == {
        "id": "",
        "object": "file",
        "bytes": len(content),
        "created_at": 0,
        "expires_at": 0,
        "filename": "my lines.jsonl",
        "purpose": "batch",
        "status": "processed",
    }
    assert metadata["expires_at"] - metadata["created_at"] == 7 * 24 * 3600
    assert stoa.get(f"/v1/files/{metadata['id']}", "STAFF").json() == metadata
    read = stoa.get(f"/v1/files/{metadata['id']}/content", "STAFF")
    assert read.content == content
    assert read.headers["content-type"] == "application/octet-stream"
    assert read.headers["content-disposition"] == "attachment; filename*=UTF-8''my%20lines.jsonl"
    head = httpx2.head(f"{stoa.url}/v1/files/{metadata['id']}/content", headers=stoa.headers("STAFF"), timeout=30)
    assert (head.headers["content-length"], head.content) == (str(len(content)), b"")


def test_stored_files_are_readable_by_the_server_user_only(stoa: RunningServer):
    file_id = upload(stoa).json()["id"]

    path = content_path(stoa, file_id)
    assert path.read_bytes() == LINES
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_deleted_file_and_its_content_are_gone(stoa: RunningServer):
    file_id = upload(stoa).json()["id"]

    answer = delete(stoa, f"/v1/files/{file_id}")

    assert (answer.status_code, answer.json()) == (200, {"id": file_id, "object": "file", "deleted": True})
    assert not content_path(stoa, file_id).exists()
    for path in (f"/v1/files/{file_id}", f"/v1/files/{file_id}/content"):
        assert stoa.get(path, "STAFF").status_code == 404
    assert delete(stoa, f"/v1/files/{file_id}").status_code == 404
    assert file_id not in [file["id"] for file in stoa.get("/v1/files", "STAFF").json()["data"]]


def test_c1_another_users_file_looks_like_a_missing_one(stoa: RunningServer):
    file_id, nothing = upload(stoa).json()["id"], "file-000000000000000000000000"

    for role in ("STORE_OWNER", "SUPER_ADMIN"):
        for ask in (
            lambda one, role=role: stoa.get(f"/v1/files/{one}", role),
            lambda one, role=role: stoa.get(f"/v1/files/{one}/content", role),
            lambda one, role=role: delete(stoa, f"/v1/files/{one}", role),
            lambda one, role=role: stoa.get(f"/v1/files?after={one}", role),
        ):
            foreign, missing = ask(file_id), ask(nothing)
            assert foreign.status_code == missing.status_code == 404
            assert (
                foreign.text.replace(file_id, nothing).split('"request_id"')[0] == missing.text.split('"request_id"')[0]
            )
        assert file_id not in stoa.get("/v1/files", role).text
    assert content_path(stoa, file_id).exists()


@pytest.mark.parametrize("role", ["CUSTOMER", "READER"])
def test_files_need_permission_to_run_inference(stoa: RunningServer, role: str):
    assert upload(stoa, role=role).status_code == 403
    assert stoa.get("/v1/files", role).status_code == 403


def test_files_are_listed_in_pages_in_both_orders(stoa: RunningServer):
    ids = [upload(stoa, role="STORE_OWNER").json()["id"] for _ in range(5)]

    for order, expected in (("asc", ids), ("desc", ids[::-1])):
        seen: list[str] = []
        after = ""
        while True:
            page = stoa.get(f"/v1/files?order={order}&limit=2{after}", "STORE_OWNER").json()
            data = [file["id"] for file in page["data"]]
            assert (page["object"], page["first_id"], page["last_id"]) == ("list", data[0], data[-1])
            seen += data
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert seen == expected
    assert stoa.get("/v1/files?purpose=batch", "STORE_OWNER").json()["last_id"] == ids[0]
    nothing = stoa.get("/v1/files?purpose=batch_output", "STORE_OWNER").json()
    assert nothing == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_deleting_page_by_page_reaches_every_file(stoa: RunningServer):
    ids = {upload(stoa).json()["id"] for _ in range(5)}

    deleted: set[str] = set()
    after = ""
    while True:
        page = stoa.get(f"/v1/files?limit=2{after}", "STAFF").json()
        for file in page["data"]:
            assert delete(stoa, f"/v1/files/{file['id']}").status_code == 200
            deleted.add(file["id"])
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"

    assert deleted >= ids
    assert stoa.get("/v1/files", "STAFF").json()["data"] == []


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("limit=two", "limit"),
        ("order=up", "order"),
        ("purpose=vision", "purpose"),
        (f"after={'x' * 101}", "after"),
    ],
)
def test_i4_an_invalid_query_parameter_is_refused_by_name(stoa: RunningServer, query: str, param: str):
    answer = stoa.get(f"/v1/files?{query}", "STAFF")

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"purpose": "fine-tune"}, "purpose"),
        ({"purpose": ""}, "purpose"),
        ({"expires_after[anchor]": "created_at"}, "expires_after"),
        ({"expires_after[seconds]": "3600"}, "expires_after"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"}, "seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "x"}, "seconds"),
    ],
    ids=str,
)
def test_an_invalid_form_field_is_refused_by_name(stoa: RunningServer, fields: dict[str, str], param: str):
    answer = upload(stoa, **fields)

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_an_upload_may_set_its_expiry(stoa: RunningServer):
    metadata = upload(stoa, **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}).json()

    assert metadata["expires_at"] - metadata["created_at"] == 3600


def send(stoa: RunningServer, **parts: Any) -> httpx2.Response:
    return httpx2.post(f"{stoa.url}/v1/files", headers=stoa.headers("STAFF"), timeout=30, **parts)


def test_a_form_must_have_exactly_one_file(stoa: RunningServer):
    batch = {"purpose": "batch"}
    one = ("lines.jsonl", LINES)

    assert send(stoa, json=batch).status_code == 415
    assert send(stoa, data=batch).status_code == 415
    for wrong in (
        {"data": batch, "files": {"other": one}},
        {"data": batch, "files": [("file", one), ("file", one)]},
        {"data": batch, "files": {"file": ("empty.jsonl", b"")}},
        {"data": batch, "files": {"file": (None, LINES)}},
    ):
        answer = send(stoa, **wrong)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "file"), answer.text
    assert send(stoa, files={"file": one}).json()["error"]["param"] == "purpose"


@pytest.mark.parametrize("charset", ["zlib", "latin-1", "nonsense"])
@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "a form that is no text"}])
def test_a_form_in_another_charset_is_refused(stoa: RunningServer, charset: str, key: dict[str, str]):
    content = b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x--\r\n'
    content_type = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
    headers = stoa.headers("STAFF") | content_type | key
    answer = httpx2.post(f"{stoa.url}/v1/files", content=content, headers=headers, timeout=30)

    assert answer.status_code == 415, answer.text


def test_u4_oversized_form_fields_are_refused(stoa: RunningServer):
    answer = send(stoa, data={"purpose": "batch", "other": "x" * (11 * 1024 * 1024)}, files={"file": ("a", LINES)})

    assert answer.status_code == 413, answer.text


@pytest.mark.parametrize(
    "content_type", ["multipart/form-data", "multipart/form-data; boundary=é", "multipart/form-data; boundary=x"]
)
def test_a_malformed_form_is_a_bad_request(stoa: RunningServer, content_type: str):
    answer = httpx2.post(
        f"{stoa.url}/v1/files",
        content=b"--y\r\nContent-Disposition: form-data",
        headers=stoa.headers("STAFF") | {"Content-Type": content_type.encode()},  # type: ignore[dict-item]
        timeout=30,
    )

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd",
        "..\\..\\x",
        "a\r\nX-Evil: 1",
        '"; filename="x',
        "é" * 300,
        "\u202egpj.jsonl",
        "CON",
        "a\x00b",
    ],
)
def test_u3_a_hostile_file_name_is_never_used_as_a_path(stoa: RunningServer, name: str):
    folder = content_path(stoa, "x").parent
    answer = upload(stoa, name=name)

    assert answer.status_code == 200, answer.text
    file_id, metadata = answer.json()["id"], answer.json()["filename"]
    assert "/" not in metadata
    assert len(metadata) <= 255
    read = stoa.get(f"/v1/files/{file_id}/content", "STAFF")
    assert read.content == LINES
    assert "x-evil" not in read.headers
    assert {path.parent for path in folder.parent.rglob("*") if path.is_file()} == {folder}


def test_u4_an_oversized_body_is_refused_before_it_is_read(stoa: RunningServer):
    large = str(300 * 1024 * 1024)

    for headers in ({}, stoa.headers("STAFF")):
        status, _, body = stoa.ask_as_written("POST", "/v1/files", {"Content-Length": large} | headers)
        assert (status, body["error"]["code"]) == (413, "invalid_request")
    status, _, _ = stoa.ask_as_written("POST", "/v1/files", {"Content-Length": str(50 * 1024 * 1024)})
    assert status == 401


def test_a_chunked_upload_is_stored(stoa: RunningServer):
    boundary = "a-boundary"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{boundary}\r\n'
    head += 'Content-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
    line = json.dumps({"custom_id": "x", "text": "y" * 1000}).encode() + b"\n"
    pieces = [head.encode(), *[line] * 12_000, f"\r\n--{boundary}--\r\n".encode()]

    answer = httpx2.post(
        f"{stoa.url}/v1/files",
        content=iter(pieces),
        headers=stoa.headers("STAFF") | {"Content-Type": f"multipart/form-data; boundary={boundary}"},
        timeout=100,
    )

    assert answer.status_code == 200, answer.text
    assert answer.json()["bytes"] == 12_000 * len(line) > 10 * 1024 * 1024
    assert content_path(stoa, answer.json()["id"]).stat().st_size == 12_000 * len(line)


def test_uploads_with_one_idempotency_key_create_one_file(stoa: RunningServer):
    key = {"Idempotency-Key": "one upload"}

    def again(content: bytes) -> httpx2.Response:
        form: dict[str, Any] = {"data": {"purpose": "batch"}, "files": {"file": ("a.jsonl", content)}}
        headers = stoa.headers("STAFF") | key
        return httpx2.post(f"{stoa.url}/v1/files", headers=headers, timeout=30, **form)

    first, second = again(LINES), again(LINES)

    assert second.json() == first.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert again(LINES + b"{}\n").status_code == 400


def test_slow_downloads_hold_no_database_connections(stoa: RunningServer):
    file_id = upload(stoa, bytes(16 * 1024 * 1024)).json()["id"]
    path = f"/v1/files/{file_id}/content"

    with contextlib.ExitStack() as downloads:
        for _ in range(12):  # more than the connection pool of a process
            answer = downloads.enter_context(
                httpx2.stream("GET", stoa.url + path, headers=stoa.headers("STAFF"), timeout=30)
            )
            assert answer.status_code == 200
        assert stoa.get(f"/v1/files/{file_id}", "STAFF").status_code == 200


def test_an_unsupported_method_lists_the_allowed_ones(stoa: RunningServer):
    answer = httpx2.put(f"{stoa.url}/v1/files", headers=stoa.headers("STAFF"), timeout=30)

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST, HEAD")
