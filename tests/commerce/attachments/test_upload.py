"""Tests of POST /api/attachments."""

import io
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest
import structlog
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.test import Client
from PIL import AvifImagePlugin, Image

from commerce.attachments.images import processing
from commerce.attachments.images.sizes import all_sizes
from commerce.attachments.models import Attachment, ScheduledDeletion
from commerce.attachments.quota import storage_quota
from commerce.attachments.uploads import preparation
from shared.accounts.middleware import idempotency
from shared.accounts.models import User
from shared.api.models import KeyedRequest
from tests.commerce.attachments.conftest import Upload, files_in
from tests.commerce.attachments.images import bombs
from tests.commerce.attachments.samples import TYPES, epub_file, image_file, pdf_file, zip_file
from tests.commerce.conftest import bearer


@pytest.mark.parametrize("image_format", TYPES)
def test_image_is_stored_with_a_thumbnail_and_variants(upload: Upload, media_root: Path, image_format: str):
    response = upload(("my photo.dat", image_file(image_format, 800, 400)))

    assert response.status_code == 200, response.content
    attachment = Attachment.objects.get()
    extension = {"JPEG": "jpg"}.get(image_format, image_format.lower())
    base = f"http://testserver/media/attachments/{attachment.key}"
    assert response.json() == [
        {
            "id": attachment.pk,
            "original": f"{base}/my-photo.{extension}",
            "thumbnail": f"{base}/sizes/thumbnail.webp",
            "alt": "",
            "focal_point": None,
            "variants": [
                {"url": f"{base}/sizes/w{w}.webp", "width": w, "height": w // 2, "avif": f"{base}/sizes/w{w}.avif"}
                for w in (320, 640)
            ],
        }
    ]
    folder = media_root / "attachments" / attachment.key
    copies = ["thumbnail.webp", "w320.avif", "w320.webp", "w640.avif", "w640.webp"]
    assert files_in(folder) == [f"my-photo.{extension}", *(f"sizes/{name}" for name in copies)]
    with Image.open(folder / f"my-photo.{extension}") as stored:
        assert (stored.format, stored.size) == (image_format, (800, 400))
    with Image.open(folder / "sizes" / "thumbnail.webp") as thumbnail:
        assert (thumbnail.format, thumbnail.size) == ("WEBP", (368, 184))
    with Image.open(folder / "sizes" / "w320.avif") as variant:
        assert (variant.format, variant.size) == ("AVIF", (320, 160))
    assert attachment.size == (folder / f"my-photo.{extension}").stat().st_size
    quota = storage_quota(attachment.owner)
    assert (quota.max_bytes - quota.remaining_bytes, quota.max_files - quota.remaining_files) == (attachment.size, 1)
    assert not ScheduledDeletion.objects.exists()


def test_u1_decompression_bomb_and_other_invalid_files_get_422_naming_each(upload: Upload):
    response = upload(("holiday.png", bombs.png_of_174_megapixels()), ("notes.txt", b"hello"), ("a.png", image_file()))

    assert response.status_code == 422
    assert response.json()["errors"]["attachment[]"] == [
        "holiday.png has 174 megapixels; the maximum is 50.",
        "notes.txt has an unsupported type. Send JPEG, PNG, WebP, GIF, AVIF, PDF, ZIP or EPUB.",
    ]


def test_an_upload_whose_key_another_request_has_taken_over_stores_nothing(
    customer: User, media_root: Path, monkeypatch: pytest.MonkeyPatch
):
    prepare_files = preparation.prepare_files

    def lose_the_key(*arguments: Any, **options: Any) -> Any:
        KeyedRequest.objects.update(owner=uuid.uuid4())
        return prepare_files(*arguments, **options)

    monkeypatch.setattr(preparation, "prepare_files", lose_the_key)
    client = Client(headers=bearer(customer) | {"Idempotency-Key": "upload-1"})
    response = client.post("/api/attachments", {"attachment[]": SimpleUploadedFile("a.png", image_file("PNG", 8, 8))})

    assert (response.status_code, Attachment.objects.count(), files_in(media_root)) == (409, 0, [])
    assert "another request with its Idempotency-Key" in response.json()["message"]


def test_a_repeated_upload_creates_nothing_where_the_database_was_lost_after_the_first(
    customer: User, monkeypatch: pytest.MonkeyPatch
):
    def lose_the_database(**arguments: Any) -> NoReturn:
        raise OperationalError("server closed the connection unexpectedly")

    client = Client(headers=bearer(customer) | {"Idempotency-Key": "upload-1"})
    picture = image_file("PNG", 8, 8)
    with monkeypatch.context() as patch:
        patch.setattr(idempotency, "store_response", lose_the_database)
        client.post("/api/attachments", {"attachment[]": SimpleUploadedFile("a.png", picture)})
    response = client.post("/api/attachments", {"attachment[]": SimpleUploadedFile("a.png", picture)})

    assert (response.status_code, response.headers.get("Idempotent-Replayed")) == (200, "true")
    assert response.json()[0]["id"] == Attachment.objects.get().pk


def test_pillow_without_avif_makes_webp_variants_alone(
    upload: Upload, media_root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(AvifImagePlugin, "SUPPORTED", False)
    monkeypatch.setattr(preparation.image_worker, "make_sizes", make_sizes_in_this_process)

    with structlog.testing.capture_logs() as logs:
        [record] = upload(("a.png", image_file("PNG", 800, 400))).json()

    assert [variant["avif"] for variant in record["variants"]] == [None, None]
    folder = media_root / "attachments" / Attachment.objects.get().key
    assert files_in(folder / "sizes") == ["thumbnail.webp", "w320.webp", "w640.webp"]
    assert [log["event"] for log in logs] == ["avif_unsupported"]


def make_sizes_in_this_process(
    source: IO[bytes],
    targets: Sequence[IO[bytes]],
    content_type: str,
    sizes: Sequence[tuple[int, int, str]],
    **options: Any,
) -> None:
    for target, content in zip(targets, processing.make_sizes(source, content_type, sizes), strict=True):
        target.write(content)


def test_image_stored_before_avif_keeps_its_webp_variants(upload: Upload, customer: User):
    upload(("a.png", image_file("PNG", 800, 400)))
    Attachment.objects.update(has_avif=False)

    [record] = Client(headers=bearer(customer)).get("/api/attachments").json()["data"]

    assert [(variant["width"], variant["avif"]) for variant in record["variants"]] == [(320, None), (640, None)]


def test_very_tall_copies_are_webp_alone(upload: Upload, customer: User):
    upload(("a.png", image_file("PNG", 800, 400)))
    Attachment.objects.update(width=1400, height=17900)

    [record] = Client(headers=bearer(customer)).get("/api/attachments").json()["data"]
    sizes = all_sizes(1400, 17900)

    assert [(one["width"], bool(one["avif"])) for one in record["variants"]] == [
        (320, True),
        (640, False),
        (1280, False),
    ]

    assert [size.file_name for size in sizes if size.format == "avif"] == ["w320.avif"]
    assert [size.file_name for size in sizes if size.format == "webp"] == [
        "thumbnail.webp", "w320.webp", "w640.webp", "w1280.webp",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "extension", "content_type"),
    [
        (pdf_file(), "pdf", "application/pdf"),
        (zip_file(), "zip", "application/zip"),
        (epub_file(), "epub", "application/epub+zip"),
    ],
)
def test_document_is_stored_unchanged_without_a_thumbnail(
    upload: Upload, media_root: Path, content: bytes, extension: str, content_type: str
):
    response = upload(("Prices 2026.jpg", content))

    attachment = Attachment.objects.get()
    original = f"http://testserver/media/attachments/{attachment.key}/Prices-2026.{extension}"
    assert response.json() == [{"id": attachment.pk, "original": original}]
    assert attachment.content_type == content_type
    assert (media_root / "attachments" / attachment.key / f"Prices-2026.{extension}").read_bytes() == content


def test_several_files_are_returned_in_order(upload: Upload):
    response = upload(("b.png", image_file()), ("a.pdf", pdf_file()), ("c.gif", image_file("GIF")))

    assert [record["original"].rpartition("/")[2] for record in response.json()] == ["b.png", "a.pdf", "c.gif"]


def test_one_invalid_file_prevents_the_whole_upload(upload: Upload, media_root: Path):
    response = upload(
        ("good.png", image_file()),
        ("evil.jpg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("also.pdf", b"%PDF-1.4 cut"),
    )

    assert response.status_code == 422
    supported = "JPEG, PNG, WebP, GIF, AVIF, PDF, ZIP or EPUB"
    first = f"evil.jpg has an unsupported type. Send {supported}. It looks like image/svg+xml."
    body = response.json()
    assert body["message"] == first
    assert body["errors"] == {"attachment[]": [first, "also.pdf is truncated: it has no end marker."]}
    assert files_in(media_root) == []
    assert not Attachment.objects.exists()
    assert not ScheduledDeletion.objects.exists()


def test_image_with_damaged_pixels_is_refused_and_nothing_is_stored(upload: Upload, media_root: Path):
    whole = image_file("PNG", 300, 300)

    response = upload(("good.png", image_file()), ("torn.png", whole[: len(whole) // 2] + whole[-12:]))

    assert response.status_code == 422
    assert response.json()["message"].startswith("torn.png ")
    assert files_in(media_root) == []


@pytest.mark.parametrize("count", [0, 11])
def test_u5_zero_or_eleven_files_get_422(upload: Upload, count: int):
    response = upload(*[(f"{number}.png", image_file()) for number in range(count)])

    assert response.status_code == 422
    assert response.json()["errors"] == {"attachment[]": ["Send from 1 to 10 files in this field."]}
    assert not Attachment.objects.exists()


def test_u5_wrong_field_name_gets_422(upload: Upload):
    response = upload(("a.png", image_file()), field="file")

    assert response.status_code == 422
    assert list(response.json()["errors"]) == ["attachment[]"]


def test_file_over_ten_mebibytes_gets_422_naming_it(upload: Upload):
    response = upload(("large.pdf", pdf_file() + b" " * (10 * 1024 * 1024)))

    assert response.status_code == 422
    assert response.json()["message"] == "large.pdf is larger than 10 MiB."


def test_empty_file_is_refused(upload: Upload):
    assert upload(("nothing.png", b"")).json()["message"] == "nothing.png is empty."


def test_very_long_extension_is_accepted(upload: Upload):
    response = upload(("a." + "x" * 300, image_file()))

    assert response.status_code == 200, response.content
    assert response.json()[0]["original"].endswith("xxx.png")


def test_anonymous_upload_gets_401(upload: Upload):
    response = upload(("a.png", image_file()), by=None)

    assert response.status_code == 401
    assert not Attachment.objects.exists()


def test_json_body_gets_415(customer: User):
    client = Client(headers=bearer(customer))

    response = client.post("/api/attachments", "{}", content_type="application/json")

    assert response.status_code == 415


def test_image_is_rotated_upright(upload: Upload, media_root: Path):
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: rotate by 90 degrees clockwise for display
    upload(("turned.jpg", image_file("JPEG", 80, 40, exif=exif)))

    attachment = Attachment.objects.get()
    assert (attachment.width, attachment.height) == (40, 80)
    with Image.open(media_root / "attachments" / attachment.key / "turned.jpg") as stored:
        assert stored.size == (40, 80)
        red, green, _ = stored.convert("RGB").getpixel((35, 5))  # type: ignore[misc]
        assert red > 200
        assert green < 60


def test_stored_file_can_be_uploaded_again(upload: Upload, media_root: Path):
    upload(("first.webp", image_file("WEBP", lossless=True)))
    stored = next(media_root.glob("attachments/*/first.webp")).read_bytes()

    assert upload(("second.webp", stored)).status_code == 200
    second = next(media_root.glob("attachments/*/second.webp")).read_bytes()
    assert Image.open(io.BytesIO(second)).tobytes() == Image.open(io.BytesIO(stored)).tobytes()
