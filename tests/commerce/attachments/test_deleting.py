"""DELETE /api/attachments/{id}, the admin's deletion, and what is cleared after a crash."""

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
from commerce.attachments.models import Attachment, Leftover
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.attachments.conftest import Upload, files_in
from tests.commerce.attachments.samples import image_file, pdf_file
from tests.commerce.conftest import bearer, make_user

pytestmark = pytest.mark.django_db(transaction=True)


def delete(user: User | None, pk: int) -> int:
    return Client(headers=bearer(user)).delete(f"/api/attachments/{pk}").status_code


def test_u8_the_owner_deletes_an_attachment_with_all_its_files(upload: Upload, customer: User, media_root: Path):
    pk = upload(("a.png", image_file("PNG", 700, 300))).json()[0]["id"]

    answer = Client(headers=bearer(customer)).delete(f"/api/attachments/{pk}")

    assert (answer.status_code, answer.json()) == (200, True)
    assert not Attachment.objects.exists()
    assert not Leftover.objects.exists()
    assert files_in(media_root) == []
    assert list((media_root / "attachments").iterdir()) == []
    assert delete(customer, pk) == 404


def test_u8_deleted_files_are_not_confirmed_to_who_had_read_them(upload: Upload, customer: User):
    told = upload(("a.png", image_file("PNG", 700, 300))).json()[0]
    addresses = [told["original"], told["thumbnail"]]
    etags = [Client().head(address).headers["ETag"] for address in addresses]

    def asked_again() -> list[int]:
        return [
            Client().get(address, headers={"If-None-Match": etag}).status_code
            for address, etag in zip(addresses, etags, strict=True)
        ]

    assert asked_again() == [304, 304]
    assert delete(customer, told["id"]) == 200
    assert asked_again() == [404, 404]


def test_u8_another_users_attachment_is_404_and_stays(upload: Upload, media_root: Path):
    pk = upload(("a.png", image_file())).json()[0]["id"]
    before = files_in(media_root)

    assert delete(make_user(Role.STORE_OWNER, "other"), pk) == 404
    assert delete(None, pk) == 401
    assert Attachment.objects.filter(pk=pk).exists()
    assert files_in(media_root) == before


def test_a_super_admin_deletes_anybodys(upload: Upload, admin: User, media_root: Path):
    pk = upload(("a.png", image_file())).json()[0]["id"]

    assert delete(admin, pk) == 200
    assert files_in(media_root) == []


def test_u8_of_ten_deletions_at_once_one_succeeds(upload: Upload, customer: User, media_root: Path):
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


def test_what_the_storage_cannot_remove_now_goes_with_a_later_round(
    upload: Upload, customer: User, media_root: Path, monkeypatch: pytest.MonkeyPatch
):
    pk = upload(("a.pdf", pdf_file())).json()[0]["id"]

    def fail(name: str) -> None:
        raise OSError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(default_storage._wrapped, "delete", fail)  # type: ignore[attr-defined]
        assert delete(customer, pk) == 200
    assert len(files_in(media_root)) == 1
    assert Leftover.objects.count() == 1

    assert services.collect(now=timezone.now()) == 1

    assert files_in(media_root) == []
    assert not Leftover.objects.exists()


def test_an_upload_that_never_ended_goes_once_it_is_due(media_root: Path):
    now = timezone.now()
    folder = media_root / "attachments" / ("e" * 32)
    folder.mkdir(parents=True)
    (folder / "half.png").write_bytes(b"half")
    Leftover.objects.create(folder="attachments/" + "e" * 32, due_at=now + services.UPLOAD_WITHIN)

    assert services.collect(now=now) == 0
    assert files_in(media_root) != []
    assert services.collect(now=now + services.UPLOAD_WITHIN + timedelta(seconds=1)) == 1
    assert files_in(media_root) == []


def test_a_scan_finds_folders_that_nobody_knows_and_attachments_without_a_file(
    upload: Upload, media_root: Path, capsys: pytest.CaptureFixture[str]
):
    pk = upload(("a.pdf", pdf_file())).json()[0]["id"]
    next(media_root.glob("attachments/*/a.pdf")).unlink()
    strange = media_root / "attachments" / ("f" * 32)
    strange.mkdir()
    (strange / "x.png").write_bytes(b"x")

    call_command("collect_attachments", "--scan")

    assert capsys.readouterr().out.splitlines() == [
        "0 folders were left over.",
        "1 folders were nobody's; they go with the next run in an hour.",
        f"1 attachments have no file: {pk}",
    ]
    call_command("collect_attachments", "--all")
    assert files_in(media_root) == []


def test_the_admin_deletes_with_the_files(upload: Upload, admin: User, media_root: Path):
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
