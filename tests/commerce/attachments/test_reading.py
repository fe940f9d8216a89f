"""GET /api/attachments, one of them, PUT, and the files themselves."""

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


def rows(owner: User, count: int) -> None:
    Attachment.objects.bulk_create(
        Attachment(
            owner=owner, key=f"{number:032x}", name="a.png", content_type="image/png", size=1, width=900, height=600
        )
        for number in range(count)
    )


async def body_of(path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    answer = await AsyncClient().get(path, headers=headers)
    body = b"".join([chunk async for chunk in answer]) if answer.streaming else answer.content
    answer.close()
    await sync_to_async(connections.close_all)()  # of the thread that looked into the database
    return answer.status_code, dict(answer.headers), body


def test_the_list_is_public_and_newest_first(upload: Upload):
    upload(("a.pdf", pdf_file()))
    upload(("b.png", image_file()))

    answer = Client().get("/api/attachments", {"limit": 1})

    body = answer.json()
    newest = Attachment.objects.get(name="b.png")
    base = f"http://testserver/media/attachments/{newest.key}"
    assert answer.status_code == 200
    assert body["data"] == [
        {
            "id": newest.pk,
            "original": f"{base}/b.png",
            "thumbnail": f"{base}/sizes/thumbnail.webp",
            "variants": [],
            "created_at": newest.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "updated_at": newest.updated_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
    ]
    assert (body["current_page"], body["per_page"], body["total"], body["last_page"]) == (1, 1, 2, 2)


def test_a_page_has_fifteen_unless_asked_otherwise(db: None, customer: User):
    rows(customer, 16)

    assert len(Client().get("/api/attachments").json()["data"]) == 15
    assert len(Client().get("/api/attachments?page=2").json()["data"]) == 1


def test_the_oldest_can_be_asked_for_first(db: None, customer: User):
    rows(customer, 3)

    listed = Client().get("/api/attachments?orderBy=created_at&sortedBy=asc").json()["data"]

    assert [record["id"] for record in listed] == list(Attachment.objects.order_by("pk").values_list("pk", flat=True))
    assert Client().get("/api/attachments?orderBy=owner").status_code == 422


def test_a_limit_that_is_no_number_is_refused(db: None):
    assert Client().get("/api/attachments?limit=0").status_code == 422


@pytest.mark.parametrize("count", [10, 1000])
def test_a_list_takes_two_queries_however_long_the_table(
    db: None, customer: User, count: int, django_assert_num_queries: DjangoAssertNumQueries
):
    rows(customer, count)

    with django_assert_num_queries(2 if count > 15 else 1):
        assert Client().get("/api/attachments").status_code == 200


def test_one_attachment_is_public_and_its_owner_is_not_shown(upload: Upload):
    pk = upload(("a.pdf", pdf_file())).json()[0]["id"]

    body = Client().get(f"/api/attachments/{pk}").json()

    assert sorted(body) == ["created_at", "id", "original", "updated_at"]


@pytest.mark.parametrize("pk", ["999999", "0", "-1", "9223372036854775808", "٣", "abc"])
def test_what_is_no_attachment_is_404(db: None, pk: str):
    answer = Client().get(f"/api/attachments/{pk}")

    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


def test_a_stale_token_is_ignored_by_public_reads(db: None):
    client = Client(headers={"Authorization": "Bearer stale"})

    assert client.get("/api/attachments").status_code == 200
    assert client.get("/api/attachments/999").status_code == 404


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer stale"}])
def test_put_answers_false_to_anyone_for_any_id(db: None, headers: dict[str, str]):
    answer = Client(headers=headers).put("/api/attachments/999999", b"anything", content_type="text/plain")

    assert (answer.status_code, answer.json()) == (200, False)


@pytest.mark.django_db(transaction=True)
async def test_an_image_is_shown_within_a_sandbox(media_root: Path):
    path = "attachments/" + "a" * 32 + "/tea.png"
    (media_root / path).parent.mkdir(parents=True)
    (media_root / path).write_bytes(image_file())

    status, headers, body = await body_of(f"/media/{path}")

    assert (status, body) == (200, image_file())
    assert headers["Content-Type"] == "image/png"
    assert headers["Content-Length"] == str(len(body))
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert headers["Content-Disposition"] == "inline; filename*=UTF-8''tea.png"
    assert headers["Cache-Control"] == "public, max-age=86400"
    assert (await body_of(f"/media/{path}", **{"If-None-Match": headers["ETag"]}))[0] == 304
    head = await AsyncClient().head(f"/media/{path}")
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(len(body)), b"")


@pytest.mark.django_db(transaction=True)
async def test_what_is_no_image_is_downloaded(media_root: Path):
    path = "attachments/" + "b" * 32 + "/prices.pdf"
    (media_root / path).parent.mkdir(parents=True)
    (media_root / path).write_bytes(pdf_file())

    status, headers, _ = await body_of(f"/media/{path}")

    assert status == 200
    assert headers["Content-Type"] == "application/pdf"
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''prices.pdf"


def test_a_name_in_another_alphabet_is_escaped_in_the_header():
    told = storage.headers_of("größe-図.pdf")["Content-Disposition"]

    assert told == "attachment; filename*=UTF-8''gr%C3%B6%C3%9Fe-%E5%9B%B3.pdf"


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
async def test_nothing_else_is_given_out(media_root: Path, path: str):
    (media_root / "secret.key").write_text("secret")
    (media_root / "secret.png").write_text("secret")

    status, _, body = await body_of(f"/media/{path}")

    assert status == 404
    assert b"secret" not in body


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stem", ["a" * 255, "\N{CJK UNIFIED IDEOGRAPH-56F3}" * 86])
@pytest.mark.parametrize("folder", ["", "sizes/"])
async def test_u3_a_name_that_no_file_can_have_is_not_found(media_root: Path, folder: str, stem: str):
    (media_root / "attachments" / ("c" * 32) / "sizes").mkdir(parents=True)

    assert (await body_of(f"/media/attachments/{'c' * 32}/{folder}{quote(stem)}.webp"))[0] == 404


@pytest.mark.django_db(transaction=True)
async def test_files_are_only_read(media_root: Path):
    path = "/media/attachments/" + "c" * 32 + "/none.png"

    assert (await AsyncClient().post(path)).status_code == 405
    assert (await AsyncClient().delete(path)).status_code == 405


@pytest.mark.django_db(transaction=True)
async def test_in_place_of_a_size_that_is_not_made_yet_the_original_is_shown(customer: User):
    key = "d" * 32
    fields = {"name": "a.png", "content_type": "image/png", "size": 1, "width": 900, "height": 600}
    attachment = await Attachment.objects.acreate(owner=customer, key=key, **fields)

    status, headers, _ = await body_of(f"/media/attachments/{key}/sizes/thumbnail.webp")

    assert (status, headers["Location"]) == (302, f"/media/attachments/{key}/a.png")
    assert headers["Cache-Control"] == "no-store"
    attachment.sizes_made_at = timezone.now()
    await attachment.asave()
    assert (await body_of(f"/media/attachments/{key}/sizes/thumbnail.webp"))[0] == 404
