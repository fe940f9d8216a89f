"""Tests of attachments in S3, against moto's server over HTTP.

moto checks signatures and the conditions of a form less strictly than S3. Their refusals are not tested here.
"""

import base64
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import IO, Any

import boto3
import httpx2
import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from moto.server import ThreadedMotoServer
from PIL import Image
from pytest_django import Settings

from commerce.attachments import services, storage
from commerce.attachments.models import Attachment, ScheduledDeletion
from commerce.config.settings.s3 import s3_storage
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.environment import env
from tests.commerce.attachments.conftest import Upload
from tests.commerce.attachments.samples import image_file, pdf_file
from tests.commerce.conftest import bearer, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.no_database]
BUCKET = "stoa-test"


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def bucket(s3_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return an empty bucket, with the settings of S3 taken from the environment."""
    variables = {
        "BUCKET": BUCKET,
        "ENDPOINT": s3_url,
        "REGION": "us-east-1",
        "ACCESS_KEY": "key",
        "SECRET_KEY": "secret",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"STOA_S3_{name}", value)
    settings.STORAGE = "s3"
    settings.STORAGES = settings.STORAGES | {"default": s3_storage(env)}
    resource = boto3.resource(
        "s3", endpoint_url=s3_url, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret"
    )
    bucket = resource.create_bucket(Bucket=BUCKET)
    yield bucket
    bucket.objects.all().delete()


def keys_in(bucket: Any) -> list[str]:
    return sorted(stored.key for stored in bucket.objects.all())


def contents_of(bucket: Any) -> dict[str, bytes]:
    return {stored.key: stored.get()["Body"].read() for stored in bucket.objects.all()}


def test_files_are_stored_in_the_bucket_with_our_response_headers(upload: Upload, bucket: Any):
    assert upload(("tea.png", image_file("PNG", 400, 300)), ("größe.pdf", pdf_file())).status_code == 200

    pdf, png = Attachment.objects.all()
    folder = f"attachments/{png.key}"
    assert keys_in(bucket) == sorted(
        [
            f"attachments/{pdf.key}/größe.pdf",
            f"{folder}/sizes/thumbnail.webp",
            f"{folder}/sizes/w320.avif",
            f"{folder}/sizes/w320.webp",
            f"{folder}/tea.png",
        ]
    )
    stored = bucket.Object(f"attachments/{pdf.key}/größe.pdf")
    assert stored.content_type == "application/pdf"
    assert stored.content_disposition == "attachment; filename*=UTF-8''gr%C3%B6%C3%9Fe.pdf"
    assert stored.cache_control == "public, max-age=86400"
    assert bucket.Object(f"{folder}/sizes/thumbnail.webp").content_type == "image/webp"
    assert bucket.Object(f"{folder}/sizes/w320.avif").content_type == "image/avif"


def test_file_redirects_to_a_signed_url(upload: Upload, client: Client):
    url = upload(("tea.png", image_file())).json()[0]["original"]
    assert "?" not in url

    response = client.get(url.removeprefix("http://testserver"))

    assert response.status_code == 302
    assert response.headers["Cache-Control"] == "private, max-age=240"
    assert "X-Amz-Signature=" in response.headers["Location"]
    read = httpx2.get(response.headers["Location"], timeout=60)
    assert read.content.startswith(b"\x89PNG")
    assert read.headers["Content-Disposition"] == "inline; filename*=UTF-8''tea.png"


def test_missing_file_gets_404(client: Client):
    assert client.get("/media/attachments/" + "a" * 32 + "/none.png").status_code == 404


def test_urls_of_a_public_bucket_are_direct(upload: Upload, settings: Settings):
    settings.MEDIA_URL = "https://cdn.example/"

    record = upload(("tea.png", image_file())).json()[0]

    key = Attachment.objects.get().key
    assert record["original"] == f"https://cdn.example/attachments/{key}/tea.png"
    assert record["thumbnail"] == f"https://cdn.example/attachments/{key}/sizes/thumbnail.webp"


def test_missing_smaller_copy_has_a_url_of_this_server(upload: Upload, settings: Settings):
    settings.MEDIA_URL = "https://cdn.example/"

    record = upload(("large.jpg", image_file("JPEG", 2000, 1500))).json()[0]

    attachment = Attachment.objects.get()
    assert record["thumbnail"] == f"http://testserver/media/attachments/{attachment.key}/sizes/thumbnail.webp"
    services.make_sizes(attachment_id=attachment.pk, now=timezone.now())
    later = Client().get(f"/api/attachments/{attachment.pk}").json()
    assert later["thumbnail"] == f"https://cdn.example/attachments/{attachment.key}/sizes/thumbnail.webp"


def test_deletion_empties_the_bucket(upload: Upload, customer: User, bucket: Any):
    pk = upload(("tea.png", image_file("PNG", 400, 300))).json()[0]["id"]

    assert Client(headers=bearer(customer)).delete(f"/api/attachments/{pk}").status_code == 200

    assert keys_in(bucket) == []
    assert not ScheduledDeletion.objects.exists()


def presigned(user: User, name: str = "tea.png") -> dict[str, Any]:
    response = Client(headers=bearer(user)).post("/api/attachments/presign", {"name": name}, "application/json")
    assert response.status_code == 200, response.content
    return dict(response.json())


def send(form: dict[str, Any], content: bytes) -> None:
    assert httpx2.post(form["url"], data=form["fields"], files={"file": content}, timeout=60).status_code == 204


def finalize(user: User, upload_id: str) -> Any:
    body = {"upload_id": upload_id}
    return Client(headers=bearer(user)).post("/api/attachments/finalize", body, "application/json")


def test_presigned_upload_becomes_an_attachment_once(customer: User, bucket: Any):
    form = presigned(customer, "My tea.jpeg")
    send(form, image_file("JPEG", 100, 80, comment=b"canary comment"))

    response = finalize(customer, form["upload_id"])

    assert response.status_code == 200, response.content
    attachment = Attachment.objects.get()
    assert response.json()["original"].endswith(f"/{attachment.key}/My-tea.jpg")
    folder = f"attachments/{attachment.key}"
    assert keys_in(bucket) == [f"{folder}/My-tea.jpg", f"{folder}/sizes/thumbnail.webp"]
    with Image.open(bucket.Object(f"{folder}/My-tea.jpg").get()["Body"]) as stored:
        assert "comment" not in stored.info
    assert finalize(customer, form["upload_id"]).status_code == 404


def test_u7_second_upload_after_finalization_changes_nothing_and_is_deleted(customer: User, bucket: Any):
    form = presigned(customer)
    send(form, image_file())
    assert finalize(customer, form["upload_id"]).status_code == 200
    stored = contents_of(bucket)

    send(form, image_file("PNG", 400, 300))
    response = finalize(customer, form["upload_id"])

    assert response.status_code == 404
    services.collect_garbage(now=timezone.now() + timedelta(hours=2))
    assert contents_of(bucket) == stored
    assert len(stored) == 2
    assert services.compare_storage(now=timezone.now()) == ([], [])
    assert not ScheduledDeletion.objects.exists()


def test_deleted_attachment_is_not_recreated_by_a_second_upload(customer: User, bucket: Any):
    form = presigned(customer)
    send(form, image_file())
    pk = finalize(customer, form["upload_id"]).json()["id"]
    assert Client(headers=bearer(customer)).delete(f"/api/attachments/{pk}").status_code == 200

    send(form, image_file())

    assert finalize(customer, form["upload_id"]).status_code == 404
    assert not Attachment.objects.exists()


def test_u7_one_of_six_concurrent_finalizations_succeeds(customer: User, bucket: Any, monkeypatch: pytest.MonkeyPatch):
    form = presigned(customer)
    send(form, image_file())
    read, copy, statuses = threading.Barrier(6), storage.copy_to, []

    def copy_and_wait(path: str, target: IO[bytes]) -> None:
        copy(path, target)
        read.wait(timeout=60)

    def attempt() -> None:
        statuses.append(finalize(customer, form["upload_id"]).status_code)
        connection.close()

    monkeypatch.setattr(storage, "copy_to", copy_and_wait)
    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200] + [404] * 5
    folder = f"attachments/{Attachment.objects.get().key}"
    assert keys_in(bucket) == [f"{folder}/sizes/thumbnail.webp", f"{folder}/tea.png"]


def test_u7_overtaken_finalization_changes_nothing(customer: User, bucket: Any, monkeypatch: pytest.MonkeyPatch):
    form = presigned(customer)
    send(form, image_file())
    copy, first = storage.copy_to, []

    def copy_and_be_overtaken(path: str, target: IO[bytes]) -> None:
        copy(path, target)
        monkeypatch.setattr(storage, "copy_to", copy)
        first.append((finalize(customer, form["upload_id"]).status_code, contents_of(bucket)))

    monkeypatch.setattr(storage, "copy_to", copy_and_be_overtaken)

    assert finalize(customer, form["upload_id"]).status_code == 404
    assert first == [(200, contents_of(bucket))]


def test_presigned_upload_is_checked_before_it_is_stored(customer: User, bucket: Any):
    form = presigned(customer, "tea.png")
    send(form, b"<script>alert(1)</script>")

    response = finalize(customer, form["upload_id"])

    assert response.status_code == 422
    assert response.json()["message"].startswith("tea.png has an unsupported type.")
    assert not Attachment.objects.exists()
    assert services.collect_garbage(now=timezone.now(), include_running=True) == 1
    assert keys_in(bucket) == []


def test_too_large_presigned_upload_is_refused_unread(customer: User, settings: Settings):
    form = presigned(customer)
    send(form, b"x" * 2000)
    settings.MAX_FILE_BYTES = 1000

    assert finalize(customer, form["upload_id"]).status_code == 422


def test_form_limits_the_content_length(customer: User):

    policy = json.loads(base64.b64decode(presigned(customer)["fields"]["policy"]))

    assert ["content-length-range", 1, 10 * 1024 * 1024] in policy["conditions"]


@pytest.mark.parametrize("upload_id", ["", "nonsense", "WzEsImEiLCJiIl0:1vHk2q:forged"])
def test_forged_upload_id_is_refused(customer: User, upload_id: str):
    assert finalize(customer, upload_id).status_code in (404, 422)


def test_finalizing_another_users_upload_gets_404(customer: User):
    form = presigned(customer)
    send(form, image_file())

    assert finalize(make_user(Role.CUSTOMER, "other"), form["upload_id"]).status_code == 404
    assert finalize(customer, form["upload_id"]).status_code == 200


def test_finalizing_before_the_upload_gets_404(customer: User):
    assert finalize(customer, presigned(customer)["upload_id"]).status_code == 404


def test_scan_knows_unfinalized_uploads(customer: User):
    send(presigned(customer), image_file())

    assert services.compare_storage(now=timezone.now())[0] == []


def test_presign_without_s3_gets_422(customer: User, settings: Settings):
    settings.STORAGE = "files"

    response = Client(headers=bearer(customer)).post("/api/attachments/presign", {"name": "a.png"}, "application/json")

    assert response.status_code == 422
    assert "POST /api/attachments" in response.json()["message"]
