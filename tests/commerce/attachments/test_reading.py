"""Tests of GET and PUT on /api/attachments, and of the files under /media."""

from pathlib import Path
from urllib.parse import quote

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient, Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from commerce.attachments import storage
from commerce.attachments.models import Attachment
from shared.accounts.models import User
from tests.commerce.attachments.conftest import Upload
from tests.commerce.attachments.samples import image_file, pdf_file


def create_rows(owner: User, count: int) -> None:
    Attachment.objects.bulk_create(
        Attachment(
            owner=owner, key=f"{number:032x}", name="a.png", content_type="image/png", size=1, width=900, height=600
        )
        for number in range(count)
    )


async def fetch(path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    response = await AsyncClient().get(path, headers=headers)
    body = b"".join([chunk async for chunk in response]) if response.streaming else response.content
    response.close()
    await sync_to_async(connections.close_all)()  # those of the thread that queried the database
    return response.status_code, dict(response.headers), body


def test_list_is_public_and_newest_first(upload: Upload):
    upload(("a.pdf", pdf_file()))
    upload(("b.png", image_file()))

    response = Client().get("/api/attachments", {"limit": 1})

    body = response.json()
    newest = Attachment.objects.get(name="b.png")
    base = f"http://testserver/media/attachments/{newest.key}"
    assert response.status_code == 200
    assert body["data"] == [
        {
            "id": newest.pk,
            "original": f"{base}/b.png",
            "thumbnail": f"{base}/sizes/thumbnail.webp",
            "alt": "",
            "focal_point": None,
            "variants": [],
            "created_at": newest.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "updated_at": newest.updated_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
    ]
    assert (body["current_page"], body["per_page"], body["total"], body["last_page"]) == (1, 1, 2, 2)


def test_default_page_has_15_attachments(db: None, customer: User):
    create_rows(customer, 16)

    assert len(Client().get("/api/attachments").json()["data"]) == 15
    assert len(Client().get("/api/attachments?page=2").json()["data"]) == 1


def test_list_can_be_ordered_oldest_first(db: None, customer: User):
    create_rows(customer, 3)

    listed = Client().get("/api/attachments?orderBy=created_at&sortedBy=asc").json()["data"]

    assert [record["id"] for record in listed] == list(Attachment.objects.order_by("pk").values_list("pk", flat=True))
    newest_first = Client().get("/api/attachments?orderBy=owner").json()["data"]
    assert newest_first == listed[::-1]


def test_invalid_limit_gets_422(db: None):
    assert Client().get("/api/attachments?limit=0").status_code == 422


@pytest.mark.parametrize("count", [10, 1000])
def test_list_takes_two_queries_for_any_table_size(
    db: None, customer: User, count: int, django_assert_num_queries: DjangoAssertNumQueries
):
    create_rows(customer, count)

    with django_assert_num_queries(2 if count > 15 else 1):
        assert Client().get("/api/attachments").status_code == 200


def test_attachment_is_public_without_its_owner(upload: Upload):
    pk = upload(("a.pdf", pdf_file())).json()[0]["id"]

    body = Client().get(f"/api/attachments/{pk}").json()

    assert sorted(body) == ["created_at", "id", "original", "updated_at"]


@pytest.mark.parametrize("pk", ["999999", "0", "-1", "9223372036854775808", "٣", "abc"])
def test_unknown_id_gets_404(db: None, pk: str):
    response = Client().get(f"/api/attachments/{pk}")

    assert response.status_code == 404
    assert response.json()["code"] == "not_found"


def test_public_reads_ignore_an_expired_token(db: None):
    client = Client(headers={"Authorization": "Bearer stale"})

    assert client.get("/api/attachments").status_code == 200
    assert client.get("/api/attachments/999").status_code == 404


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer stale"}])
def test_put_returns_false_for_any_id(db: None, headers: dict[str, str]):
    response = Client(headers=headers).put("/api/attachments/999999", b"anything", content_type="text/plain")

    assert (response.status_code, response.json()) == (200, False)


@pytest.mark.django_db(transaction=True)
async def test_image_is_served_inline_in_a_sandbox(media_root: Path):
    path = "attachments/" + "a" * 32 + "/tea.png"
    (media_root / path).parent.mkdir(parents=True)
    (media_root / path).write_bytes(image_file())

    status, headers, body = await fetch(f"/media/{path}")

    assert (status, body) == (200, image_file())
    assert headers["Content-Type"] == "image/png"
    assert headers["Content-Length"] == str(len(body))
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert headers["Content-Disposition"] == "inline; filename*=UTF-8''tea.png"
    assert headers["Cache-Control"] == "public, max-age=86400"
    assert (await fetch(f"/media/{path}", **{"If-None-Match": headers["ETag"]}))[0] == 304
    head = await AsyncClient().head(f"/media/{path}")
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(len(body)), b"")


@pytest.mark.django_db(transaction=True)
async def test_document_is_served_as_a_download(media_root: Path):
    path = "attachments/" + "b" * 32 + "/prices.pdf"
    (media_root / path).parent.mkdir(parents=True)
    (media_root / path).write_bytes(pdf_file())

    status, headers, _ = await fetch(f"/media/{path}")

    assert status == 200
    assert headers["Content-Type"] == "application/pdf"
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''prices.pdf"


def test_non_ascii_name_is_escaped_in_the_header():
    disposition = storage.response_headers("größe-図.pdf")["Content-Disposition"]

    assert disposition == "attachment; filename*=UTF-8''gr%C3%B6%C3%9Fe-%E5%9B%B3.pdf"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "path",
    [
        "attachments/" + "c" * 32 + "/none.png",
        "attachments/" + "c" * 32 + "/page.html",
        "attachments/" + "c" * 32 + "/../../secret.key",
        "attachments/" + "c" * 32 + "/%2e%2e/secret.png",
        "attachments/" + "c" * 32 + "/sizes/thumbnail.webp",
        "attachments/" + "c" * 32,
        "attachments/",
        "secret.key",
    ],
)
async def test_only_stored_files_are_served(media_root: Path, path: str):
    (media_root / "secret.key").write_text("secret")
    (media_root / "secret.png").write_text("secret")

    status, _, body = await fetch(f"/media/{path}")

    assert status == 404
    assert b"secret" not in body


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stem", ["a" * 255, "\N{CJK UNIFIED IDEOGRAPH-56F3}" * 86])
@pytest.mark.parametrize("folder", ["", "sizes/"])
async def test_u3_too_long_file_name_gets_404(media_root: Path, folder: str, stem: str):
    (media_root / "attachments" / ("c" * 32) / "sizes").mkdir(parents=True)

    assert (await fetch(f"/media/attachments/{'c' * 32}/{folder}{quote(stem)}.webp"))[0] == 404


@pytest.mark.django_db(transaction=True)
async def test_media_accepts_only_get_and_head(media_root: Path):
    path = "/media/attachments/" + "c" * 32 + "/none.png"

    assert (await AsyncClient().post(path)).status_code == 405
    assert (await AsyncClient().delete(path)).status_code == 405


@pytest.mark.django_db(transaction=True)
async def test_missing_smaller_copy_redirects_to_the_original(customer: User):
    key = "d" * 32
    fields = {"name": "a.png", "content_type": "image/png", "size": 1, "width": 900, "height": 600}
    attachment = await Attachment.objects.acreate(owner=customer, key=key, **fields)

    status, headers, _ = await fetch(f"/media/attachments/{key}/sizes/thumbnail.webp")

    assert (status, headers["Location"]) == (302, f"/media/attachments/{key}/a.png")
    assert headers["Cache-Control"] == "no-store"
    attachment.sizes_made_at = timezone.now()
    await attachment.asave()
    assert (await fetch(f"/media/attachments/{key}/sizes/thumbnail.webp"))[0] == 404
