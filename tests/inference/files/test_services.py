"""Services of files: rows and contents stay consistent whatever fails in between."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage, default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client
from pytest_django import Settings

from inference.access import idempotency
from inference.files import services
from inference.files.models import StoredFile
from inference.files.services import delete_file, find_file, finish_file, sweep_files, upload_file, write_file
from shared.accounts.models import User
from shared.accounts.services import create_api_key
from shared.api.errors import ApiError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEEK = timedelta(days=7)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings: Settings, tmp_path: Path) -> Path:
    settings.MEDIA_ROOT = tmp_path
    return tmp_path / "files"


def uploaded(owner: User, **options: timedelta) -> StoredFile:
    return upload_file(owner=owner, content=SimpleUploadedFile("a.jsonl", b"{}\n"), now=NOW, **options)


def test_a_keyed_upload_is_stored_once_though_the_database_is_lost_after_it(
    owner: User, monkeypatch: pytest.MonkeyPatch
):
    def lose_database(*arguments: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(idempotency, "_store", lose_database)
    key = create_api_key(user=owner, name="test", now=NOW)[1]
    client = Client(headers={"Authorization": f"Bearer {key}", "Idempotency-Key": "mine"})
    answers = [
        client.post("/v1/files", {"purpose": "batch", "file": SimpleUploadedFile("a.jsonl", b"{}\n")}) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert StoredFile.objects.count() == 1


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_an_expired_file_is_deleted(owner: User, folder: Path):
    short, long = uploaded(owner, retention=timedelta(hours=1)), uploaded(owner)

    assert sweep_files(now=NOW + timedelta(minutes=59)) == 0
    assert names(folder) == {short.file_id, long.file_id}
    sweep_files(now=NOW + timedelta(hours=1))
    with pytest.raises(ApiError, match=short.file_id):
        find_file(owner=owner, file_id=short.file_id)
    assert sweep_files(now=NOW + timedelta(hours=2)) == 1
    assert names(folder) == {long.file_id}
    sweep_files(now=NOW + WEEK)
    sweep_files(now=NOW + WEEK + timedelta(hours=1))
    assert names(folder) == set()
    assert not StoredFile.objects.exists()


def test_an_interrupted_upload_is_deleted(owner: User, folder: Path):
    died = write_file(owner=owner, name="a.jsonl", lines=[b"{}\n"], now=NOW)
    assert names(folder) == {died.file_id}

    sweep_files(now=NOW + timedelta(hours=1))
    with pytest.raises(ApiError) as refused:
        finish_file(file=died, expires_at=NOW + WEEK)

    assert refused.value.problem.status == 503
    assert sweep_files(now=NOW + timedelta(hours=2)) == 1
    assert names(folder) == set()
    assert not StoredFile.objects.exists()


def test_a_failed_removal_is_repeated_by_the_sweeper(owner: User, folder: Path, monkeypatch: pytest.MonkeyPatch):
    file = uploaded(owner)

    def broken(self: FileSystemStorage, name: str) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(FileSystemStorage, "delete", broken)
        delete_file(owner=owner, file_id=file.file_id, now=NOW)
        assert sweep_files(now=NOW + timedelta(hours=1)) == 0

    assert default_storage.exists(file.path)
    assert sweep_files(now=NOW + timedelta(hours=1)) == 1
    assert names(folder) == set()


def test_u6_a_full_disk_leaves_neither_row_nor_content(owner: User, folder: Path, monkeypatch: pytest.MonkeyPatch):
    def full(self: FileSystemStorage, name: str, content: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileSystemStorage, "_save", full)
    with pytest.raises(OSError, match="No space"):
        uploaded(owner)

    assert not StoredFile.objects.exists()
    assert names(folder) == set()


def test_files_of_one_user_share_a_storage_limit(owner: User, settings: Settings, folder: Path):
    settings.MAX_FILE_BYTES_PER_USER = 6
    first, _ = uploaded(owner), uploaded(owner)

    with pytest.raises(ApiError, match="Delete some") as refused:
        uploaded(owner)

    assert refused.value.problem.status == 413
    assert StoredFile.objects.count() == len(names(folder)) == 2
    delete_file(owner=owner, file_id=first.file_id, now=NOW)
    uploaded(owner)


def test_a_file_over_the_size_limit_is_refused(owner: User, settings: Settings, folder: Path):
    settings.MAX_FILE_BYTES = 2

    with pytest.raises(ApiError) as refused:
        uploaded(owner)

    assert refused.value.problem.status == 413
    assert names(folder) == set()


def test_no_database_connection_is_held_during_storage_access(
    owner: User, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    held: list[tuple[str, bool]] = []

    def noted(name: str) -> Any:
        work = getattr(FileSystemStorage, name)

        def work_noted(*given: Any) -> Any:
            held.append((name, connection.connection is not None))
            return work(*given)

        return work_noted

    for name in ("_save", "delete"):
        monkeypatch.setattr(FileSystemStorage, name, noted(name))
    first = uploaded(owner)
    write_file(owner=owner, name="b.jsonl", lines=[b"{}\n"], now=NOW)
    delete_file(owner=owner, file_id=first.file_id, now=NOW)
    assert sweep_files(now=NOW + timedelta(hours=1)) == 1

    assert held == [("_save", False), ("_save", False), ("delete", False), ("delete", False)]


def test_n4_of_concurrent_uploads_no_more_than_the_maximum_are_stored(
    owner: User, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(services, "MAX_FILES_PER_USER", 3)

    def upload(_: int) -> int:
        try:
            uploaded(owner)
        except ApiError as error:
            return error.problem.status
        finally:
            connection.close()
        return 200

    with ThreadPoolExecutor(50) as threads:
        statuses = Counter(threads.map(upload, range(50)))
    assert statuses == {200: 3, 413: 47}
    assert len(names(folder)) == StoredFile.objects.count() == 3
