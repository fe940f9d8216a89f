"""Uploads to a real server: large bodies, malformed forms and non-ASCII file names."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from tests.commerce.attachments.samples import image_file, pdf_file
from tests.commerce.live_server import ServedShop, served_shop

pytestmark = pytest.mark.no_database

MEBIBYTE = 1024 * 1024
NINE_MEBIBYTES = pdf_file().replace(b"trailer", b" " * 9 * MEBIBYTE + b"trailer")
BOUNDARY = "b0undary"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


@pytest.fixture(scope="module")
def shop() -> Iterator[ServedShop]:
    with served_shop(provider_url="http://127.0.0.1:9/v1") as served:
        yield served


@pytest.fixture(scope="module")
def customer(shop: ServedShop) -> dict[str, str]:
    return shop.headers("CUSTOMER")


def part(name: str, content: bytes, *, file_name: str = "", headers: str = "") -> bytes:
    file_part = f'; filename="{file_name}"' if file_name else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file_part}\r\n{headers}\r\n'
    return head.encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def post(shop: ServedShop, content: Any, headers: dict[str, str]) -> httpx2.Response:
    return httpx2.post(f"{shop.url}/api/attachments", content=content, headers=headers | FORM, timeout=100)


def in_chunks(content: bytes) -> Iterator[bytes]:
    """Yield the content in chunks, so that the request has no Content-Length."""
    for start in range(0, len(content), 65_536):
        yield content[start : start + 65_536]


THREE_FILES = form(*[part("attachment[]", NINE_MEBIBYTES, file_name=f"{number}.pdf") for number in range(3)])


@pytest.mark.parametrize("has_length", [True, False])
def test_several_large_files_fit_one_request(shop: ServedShop, has_length: bool):
    admin = shop.headers("SUPER_ADMIN")  # who has no quota, which both requests together exceed
    response = post(shop, THREE_FILES if has_length else in_chunks(THREE_FILES), admin)

    assert response.status_code == 200, response.text
    read = httpx2.get(response.json()[0]["original"], timeout=60)
    assert read.content == NINE_MEBIBYTES
    assert read.headers["Content-Disposition"] == "attachment; filename*=UTF-8''0.pdf"


def test_u4_anonymous_large_upload_is_refused(shop: ServedShop):
    assert post(shop, THREE_FILES, {}).status_code == 401
    assert post(shop, THREE_FILES, {"Authorization": "Bearer stale"}).status_code == 401


def status_of_declared(shop: ServedShop, length: int, headers: dict[str, str]) -> int:
    """Return the status that a request gets after its head, before any of its body."""
    lines = ["POST /api/attachments HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in (headers | FORM).items()]
    with socket.create_connection(("127.0.0.1", urlsplit(shop.url).port or 0), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(1000).split()[1])


def refused(shop: ServedShop, content: Any, headers: dict[str, str]) -> bool:
    """Return whether the server answers 413, or closes the connection while the body is sent."""
    try:
        response = post(shop, content, headers)
    except httpx2.WriteError:
        return True
    return response.status_code == 413 and response.json()["code"] == "payload_too_large"


def test_u4_body_over_the_limit_is_refused_with_or_without_a_token(shop: ServedShop, customer: dict[str, str]):
    assert status_of_declared(shop, 300 * MEBIBYTE, {}) == 413
    assert status_of_declared(shop, 300 * MEBIBYTE, customer) == 413
    assert refused(shop, in_chunks(b"x" * 30 * MEBIBYTE), {})
    assert refused(shop, in_chunks(b"x" * 110 * MEBIBYTE), customer)


def cpu_seconds(shop: ServedShop) -> float:
    event = next(json.loads(line) for line in shop.log.read_text().splitlines() if '"pid"' in line)
    times = psutil.Process(event["pid"]).cpu_times()
    return float(times.user + times.system)


MALFORMED_FORMS = {
    "10,000 files": form(*[part("attachment[]", b"x", file_name=f"{number}.pdf") for number in range(10_000)]),
    "10,000 fields": form(*[part(f"field{number}", b"x") for number in range(10_000)]),
    "20 MB of base64 whitespace": form(
        part(
            "attachment[]",
            b" " * 20_000_000,
            file_name="a.pdf",
            headers="Content-Transfer-Encoding: base64\r\n",
        )
    ),
    "no end": part("attachment[]", b"%PDF-1.7", file_name="a.pdf"),
    "no boundary in it": b"x" * 1000,
    "nothing": b"",
    "a head without an end": f"--{BOUNDARY}\r\n".encode() + b"X-Header: x\r\n" * 20_000,
}


@pytest.mark.parametrize("name", MALFORMED_FORMS)
def test_u5_malformed_form_is_refused_at_little_cost(shop: ServedShop, customer: dict[str, str], name: str):
    before = cpu_seconds(shop)

    response = post(shop, MALFORMED_FORMS[name], customer)

    assert response.status_code in (400, 422), response.text
    assert response.json()["request_id"]
    assert cpu_seconds(shop) - before < 10


def test_non_ascii_name_is_part_of_the_url(shop: ServedShop, customer: dict[str, str]):
    response = post(shop, form(part("attachment[]", image_file(), file_name="Grüße 図.png")), customer)

    url = response.json()[0]["original"]
    assert url.endswith("/Gr%C3%BC%C3%9Fe-%E5%9B%B3.png")
    read = httpx2.get(url, timeout=60)
    assert read.status_code == 200
    assert read.headers["Content-Type"] == "image/png"
    assert read.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_repeated_idempotency_key_replays_the_first_response(shop: ServedShop, customer: dict[str, str]):
    headers = customer | {"Idempotency-Key": "upload-1"}
    sent = form(part("attachment[]", image_file(), file_name="once.png"))

    first, second = post(shop, sent, headers), post(shop, sent, headers)

    assert first.json() == second.json()
    assert second.headers["Idempotent-Replayed"] == "true"
