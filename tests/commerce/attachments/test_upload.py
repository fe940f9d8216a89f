"""POST /api/attachments."""

import io
from pathlib import Path

import pytest
from django.test import Client
from PIL import Image

from commerce.attachments.models import Attachment, Leftover
from shared.accounts.models import User
from tests.commerce.attachments.conftest import Upload, files_in
from tests.commerce.attachments.samples import TYPES, epub_file, image_file, pdf_file, zip_file
from tests.commerce.conftest import bearer


@pytest.mark.parametrize("image_format", TYPES)
def test_an_image_is_stored_with_a_thumbnail_and_its_variants(upload: Upload, media_root: Path, image_format: str):
    answer = upload(("my photo.dat", image_file(image_format, 800, 400)))

    assert answer.status_code == 200, answer.content
    attachment = Attachment.objects.get()
    extension = {"JPEG": "jpg"}.get(image_format, image_format.lower())
    base = f"http://testserver/media/attachments/{attachment.key}"
    assert answer.json() == [
        {
            "id": attachment.pk,
            "original": f"{base}/my-photo.{extension}",
            "thumbnail": f"{base}/sizes/thumbnail.webp",
            "variants": [
                {"url": f"{base}/sizes/w320.webp", "width": 320, "height": 160},
                {"url": f"{base}/sizes/w640.webp", "width": 640, "height": 320},
            ],
        }
    ]
    folder = media_root / "attachments" / attachment.key
    assert files_in(folder) == [f"my-photo.{extension}", "sizes/thumbnail.webp", "sizes/w320.webp", "sizes/w640.webp"]
    with Image.open(folder / f"my-photo.{extension}") as stored:
        assert (stored.format, stored.size) == (image_format, (800, 400))
    with Image.open(folder / "sizes" / "thumbnail.webp") as thumbnail:
        assert (thumbnail.format, thumbnail.size) == ("WEBP", (368, 184))
    assert attachment.size == (folder / f"my-photo.{extension}").stat().st_size
    assert not Leftover.objects.exists()


@pytest.mark.parametrize(
    ("content", "extension", "content_type"),
    [
        (pdf_file(), "pdf", "application/pdf"),
        (zip_file(), "zip", "application/zip"),
        (epub_file(), "epub", "application/epub+zip"),
    ],
)
def test_a_document_is_stored_as_it_is_without_a_thumbnail(
    upload: Upload, media_root: Path, content: bytes, extension: str, content_type: str
):
    answer = upload(("Prices 2026.jpg", content))

    attachment = Attachment.objects.get()
    original = f"http://testserver/media/attachments/{attachment.key}/Prices-2026.{extension}"
    assert answer.json() == [{"id": attachment.pk, "original": original}]
    assert attachment.content_type == content_type
    assert (media_root / "attachments" / attachment.key / f"Prices-2026.{extension}").read_bytes() == content


def test_several_files_are_answered_in_their_order(upload: Upload):
    answer = upload(("b.png", image_file()), ("a.pdf", pdf_file()), ("c.gif", image_file("GIF")))

    assert [record["original"].rpartition("/")[2] for record in answer.json()] == ["b.png", "a.pdf", "c.gif"]


def test_one_bad_file_and_nothing_is_stored(upload: Upload, media_root: Path):
    answer = upload(
        ("good.png", image_file()),
        ("evil.jpg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("also.pdf", b"%PDF-1.4 cut"),
    )

    assert answer.status_code == 422
    taken = "JPEG, PNG, WebP, GIF, AVIF, PDF, ZIP or EPUB"
    first = f"evil.jpg is none of the types that are taken: {taken}. It looks like image/svg+xml."
    body = answer.json()
    assert body["message"] == first
    assert body["errors"] == {"attachment[]": [first, "also.pdf is cut short: it has no end mark."]}
    assert files_in(media_root) == []
    assert not Attachment.objects.exists()
    assert not Leftover.objects.exists()


def test_an_image_that_lies_below_its_header_is_refused_and_nothing_is_stored(upload: Upload, media_root: Path):
    whole = image_file("PNG", 300, 300)

    answer = upload(("good.png", image_file()), ("torn.png", whole[: len(whole) // 2] + whole[-12:]))

    assert answer.status_code == 422
    assert answer.json()["message"].startswith("torn.png ")
    assert files_in(media_root) == []


@pytest.mark.parametrize("count", [0, 11])
def test_u5_no_file_or_more_than_ten_are_refused(upload: Upload, count: int):
    answer = upload(*[(f"{number}.png", image_file()) for number in range(count)])

    assert answer.status_code == 422
    assert answer.json()["errors"] == {"attachment[]": ["Send from 1 to 10 files in this field."]}
    assert not Attachment.objects.exists()


def test_u5_another_field_is_refused(upload: Upload):
    answer = upload(("a.png", image_file()), field="file")

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == ["attachment[]"]


def test_a_file_over_ten_mebibytes_is_refused_by_name(upload: Upload):
    answer = upload(("large.pdf", pdf_file() + b" " * (10 * 1024 * 1024)))

    assert answer.status_code == 422
    assert answer.json()["message"] == "large.pdf is larger than 10 MiB."


def test_an_empty_file_is_refused(upload: Upload):
    assert upload(("nothing.png", b"")).json()["message"] == "nothing.png is empty."


def test_an_endless_extension_is_no_trouble(upload: Upload):
    answer = upload(("a." + "x" * 300, image_file()))

    assert answer.status_code == 200, answer.content
    assert answer.json()[0]["original"].endswith("xxx.png")


def test_nobody_uploads_without_signing_in(upload: Upload):
    answer = upload(("a.png", image_file()), by=None)

    assert answer.status_code == 401
    assert not Attachment.objects.exists()


def test_json_is_not_what_is_uploaded(customer: User):
    client = Client(headers=bearer(customer))

    answer = client.post("/api/attachments", "{}", content_type="application/json")

    assert answer.status_code == 415


def test_a_picture_is_turned_upright(upload: Upload, media_root: Path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter, clockwise, to see it upright
    upload(("turned.jpg", image_file("JPEG", 80, 40, exif=exif)))

    attachment = Attachment.objects.get()
    assert (attachment.width, attachment.height) == (40, 80)
    with Image.open(media_root / "attachments" / attachment.key / "turned.jpg") as stored:
        assert stored.size == (40, 80)
        red, green, _ = stored.convert("RGB").getpixel((35, 5))  # type: ignore[misc]
        assert red > 200
        assert green < 60


def test_what_is_stored_can_be_uploaded_again(upload: Upload, media_root: Path):
    upload(("first.webp", image_file("WEBP", lossless=True)))
    stored = next(media_root.glob("attachments/*/first.webp")).read_bytes()

    assert upload(("second.webp", stored)).status_code == 200
    second = next(media_root.glob("attachments/*/second.webp")).read_bytes()
    assert Image.open(io.BytesIO(second)).tobytes() == Image.open(io.BytesIO(stored)).tobytes()
