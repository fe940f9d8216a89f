"""Rows U6 and U7: a full disk, and a process that is killed during an upload or a deletion."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from pytest_django import Settings

from commerce.attachments.models import Attachment, ScheduledDeletion
from shared.accounts.models import User
from tests.commerce.attachments.conftest import database_url, files_in
from tests.commerce.attachments.samples import pdf_file
from tests.commerce.conftest import bearer
from tests.commerce.live_server import REPOSITORY
from tests.migrated_database import copy_migrated_database, migrated_file

POINTS = 20
MEBIBYTE = 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a mounted file system of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("NOT RUN: mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def upload(customer: User, *contents: bytes) -> Any:
    sent = [SimpleUploadedFile(f"{number}.pdf", content) for number, content in enumerate(contents)]
    return Client(headers=bearer(customer)).post("/api/attachments", {"attachment[]": sent})


def pdf_of(size: int) -> bytes:
    return pdf_file().replace(b"trailer", b" " * size + b"trailer")


@pytest.mark.django_db(transaction=True)
def test_u6_full_storage_gets_503_and_leaves_no_row_and_no_file(customer: User, settings: Settings, small_disk: Path):
    settings.MEDIA_ROOT = small_disk
    first = upload(customer, pdf_of(5 * MEBIBYTE))
    assert first.status_code == 200
    before = files_in(small_disk)

    response = upload(customer, pdf_of(1 * MEBIBYTE), pdf_of(3 * MEBIBYTE))

    assert response.status_code == 503
    assert response.json()["code"] == "unavailable"
    assert response.headers["Retry-After"] == "60"
    assert files_in(small_disk) == before
    assert Attachment.objects.count() == 1
    assert not ScheduledDeletion.objects.exists()
    pk = first.json()[0]["id"]
    assert Client(headers=bearer(customer)).delete(f"/api/attachments/{pk}").status_code == 200
    assert upload(customer, pdf_of(1 * MEBIBYTE), pdf_of(3 * MEBIBYTE)).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_u6_full_temporary_folder_gets_503(
    customer: User, settings: Settings, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings.MEDIA_ROOT = tmp_path / "media"
    settings.FILE_UPLOAD_TEMP_DIR = str(small_disk)
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))

    response = upload(customer, *[pdf_of(3 * MEBIBYTE)] * 4)

    assert response.status_code == 503
    assert response.json()["code"] == "unavailable"
    assert list(small_disk.iterdir()) == []
    assert not Attachment.objects.exists()
    assert upload(customer, pdf_of(3 * MEBIBYTE)).status_code == 200


def fresh_database(tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a migrated database without rows on the server of the tests."""
    if connection.vendor == "sqlite":
        yield database_url(shutil.copy(migrated_file(), tmp_path))
        return
    yield copy_migrated_database("killed_attachments")
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE killed_attachments WITH (FORCE)")


database = pytest.fixture(fresh_database)


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(600)
def test_u7_rows_and_files_agree_after_a_kill_at_any_point_and_a_collection(database: str, tmp_path: Path):
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "commerce.config.settings.test",
        "DATABASE_URL": database,
        "STOA_HOME": str(tmp_path),
        "REDIS_URL": "",
        "STOA_LOG_LEVEL": "ERROR",
    }
    command = [sys.executable, "-m", "tests.commerce.attachments.kill_points", str(POINTS)]

    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=500)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["total"] > POINTS
    assert [run for run in report["runs"] if not run["killed"]] == []
    assert [run for run in report["runs"] if not run["agree"] or run["scheduled_deletions"]] == []
    assert len({run["rows"] for run in report["runs"]}) > 2  # some are killed before they store anything, some after
