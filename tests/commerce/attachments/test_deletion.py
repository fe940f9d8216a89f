"""Tests of deletion through the API and the admin, and of the cleanup after a crash."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from commerce.attachments import services
from commerce.attachments.models import Attachment, ScheduledDeletion
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.attachments.conftest import Upload, files_in
from tests.commerce.attachments.samples import image_file, pdf_file
from tests.commerce.conftest import bearer, make_user

pytestmark = pytest.mark.django_db(transaction=True)


def delete(user: User | None, pk: int) -> int:
    return Client(headers=bearer(user)).delete(f"/api/attachments/{pk}").status_code


def test_u8_owner_deletes_an_attachment_with_all_its_files(upload: Upload, customer: User, media_root: Path):
    pk = upload(("a.png", image_file("PNG", 700, 300))).json()[0]["id"]

    response = Client(headers=bearer(customer)).delete(f"/api/attachments/{pk}")

    assert (response.status_code, response.json()) == (200, True)
    assert not Attachment.objects.exists()
    assert not ScheduledDeletion.objects.exists()
    assert files_in(media_root) == []
    assert list((media_root / "attachments").iterdir()) == []
    assert delete(customer, pk) == 404


def test_u8_conditional_requests_for_deleted_files_get_404(upload: Upload, customer: User):
    record = upload(("a.png", image_file("PNG", 700, 300))).json()[0]
    urls = [record["original"], record["thumbnail"]]
    etags = [Client().head(url).headers["ETag"] for url in urls]

    def conditional_statuses() -> list[int]:
        return [
            Client().get(url, headers={"If-None-Match": etag}).status_code
            for url, etag in zip(urls, etags, strict=True)
        ]

    assert conditional_statuses() == [304, 304]
    assert delete(customer, record["id"]) == 200
    assert conditional_statuses() == [404, 404]


def test_u8_deleting_another_users_attachment_gets_404_and_keeps_it(upload: Upload, media_root: Path):
    pk = upload(("a.png", image_file())).json()[0]["id"]
    before = files_in(media_root)

    assert delete(make_user(Role.STORE_OWNER, "other"), pk) == 404
    assert delete(None, pk) == 401
    assert Attachment.objects.filter(pk=pk).exists()
    assert files_in(media_root) == before


def test_super_admin_deletes_any_attachment(upload: Upload, admin: User, media_root: Path):
    pk = upload(("a.png", image_file())).json()[0]["id"]

    assert delete(admin, pk) == 200
    assert files_in(media_root) == []


def test_u8_one_of_ten_concurrent_deletions_succeeds(upload: Upload, customer: User, media_root: Path):
    pk = upload(("a.png", image_file())).json()[0]["id"]
    headers, statuses = bearer(customer), []

    def attempt() -> None:
        statuses.append(Client(headers=headers).delete(f"/api/attachments/{pk}").status_code)
        connection.close()

    threads = [threading.Thread(target=attempt) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200] + [404] * 9
    assert files_in(media_root) == []


def test_failed_deletion_of_files_is_retried_by_the_next_run(
    upload: Upload, customer: User, media_root: Path, monkeypatch: pytest.MonkeyPatch
):
    pk = upload(("a.pdf", pdf_file())).json()[0]["id"]

    def fail(name: str) -> None:
        raise OSError("the disk is offline")

    with monkeypatch.context() as patch:
        patch.setattr(default_storage._wrapped, "delete", fail)  # type: ignore[attr-defined]
        assert delete(customer, pk) == 200
    assert len(files_in(media_root)) == 1
    assert ScheduledDeletion.objects.count() == 1

    assert services.collect_garbage(now=timezone.now()) == 1

    assert files_in(media_root) == []
    assert not ScheduledDeletion.objects.exists()


def test_unfinished_upload_is_deleted_when_due(media_root: Path):
    now = timezone.now()
    folder = media_root / "attachments" / ("e" * 32)
    folder.mkdir(parents=True)
    (folder / "half.png").write_bytes(b"half")
    ScheduledDeletion.objects.create(folder="attachments/" + "e" * 32, due_at=now + services.UPLOAD_TIMEOUT)

    assert services.collect_garbage(now=now) == 0
    assert files_in(media_root) != []
    assert services.collect_garbage(now=now + services.UPLOAD_TIMEOUT + timedelta(seconds=1)) == 1
    assert files_in(media_root) == []


def test_scan_finds_unknown_folders_and_attachments_without_a_file(
    upload: Upload, media_root: Path, capsys: pytest.CaptureFixture[str]
):
    pk = upload(("a.pdf", pdf_file())).json()[0]["id"]
    next(media_root.glob("attachments/*/a.pdf")).unlink()
    unknown = media_root / "attachments" / ("f" * 32)
    unknown.mkdir()
    (unknown / "x.png").write_bytes(b"x")

    call_command("collect_attachments", "--scan")

    assert capsys.readouterr().out.splitlines() == [
        "Folders due for deletion: 0",
        "Unknown folders, to be deleted by the next run in an hour: 1",
        f"Attachments without a file: 1 (ids: {pk})",
    ]
    call_command("collect_attachments", "--all")
    assert files_in(media_root) == []


def test_admin_deletes_attachments_with_their_files(upload: Upload, admin: User, media_root: Path):
    pks = [upload((name, image_file())).json()[0]["id"] for name in ("a.png", "b.png", "c.png")]
    client = Client()
    client.force_login(admin)

    listed = client.get("/admin/commerce_attachments/attachment/")
    assert listed.status_code == 200
    assert b"a.png" in listed.content
    assert client.get(f"/admin/commerce_attachments/attachment/{pks[0]}/change/").status_code == 200
    client.post(f"/admin/commerce_attachments/attachment/{pks[0]}/delete/", {"post": "yes"})
    chosen = {"action": "delete_selected", "_selected_action": pks[1:], "post": "yes"}
    client.post("/admin/commerce_attachments/attachment/", chosen)

    assert not Attachment.objects.exists()
    assert files_in(media_root) == []
