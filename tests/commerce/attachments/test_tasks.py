"""Tests of large images with a real Celery worker and the broker of the tests."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from django.db import connection
from PIL import Image
from pytest_django import Settings

from commerce.attachments.models import Attachment
from commerce.config.celery import app, send
from tests.commerce.attachments.conftest import Upload, database_url, files_in
from tests.commerce.attachments.samples import image_file
from tests.commerce.live_server import REPOSITORY

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.no_database]
LIMIT_S = 90


@pytest.fixture
def worker(media_root: Path, tmp_path: Path) -> Iterator[Path]:
    """Start a worker with the `celery` command, and return its log file."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "commerce.config.settings.test",
        "DATABASE_URL": database_url(str(connection.settings_dict["NAME"])),
        "STOA_MEDIA_ROOT": str(media_root),
    }
    log = tmp_path / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "commerce.config.celery", "worker", "--concurrency", "1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    yield log
    process.terminate()
    assert process.wait(60) == 0, log.read_text()


def wait_for(attachment: Attachment, log: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while attachment.sizes_made_at is None:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
        attachment.refresh_from_db()


def test_thumbnail_url_is_known_before_the_worker_makes_the_file(upload: Upload, media_root: Path, worker: Path):
    record = upload(("large.jpg", image_file("JPEG", 2000, 1500))).json()[0]

    attachment = Attachment.objects.get()
    assert record["thumbnail"] == f"http://testserver/media/attachments/{attachment.key}/sizes/thumbnail.webp"
    wait_for(attachment, worker)

    folder = media_root / "attachments" / attachment.key
    variants = [f"sizes/w{width}.{extension}" for width in (1280, 320, 640) for extension in ("avif", "webp")]
    sizes = ["sizes/thumbnail.webp", *variants]
    assert files_in(folder) == ["large.jpg", *sizes]
    with Image.open(folder / "sizes" / "thumbnail.webp") as thumbnail:
        assert thumbnail.size == (309, 232)


def test_starting_worker_finds_images_whose_task_was_never_sent(
    upload: Upload, settings: Settings, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("commerce.attachments.services.send", lambda task, **ids: False)
    upload(("large.jpg", image_file("JPEG", 2000, 1500)))
    attachment = Attachment.objects.get()
    Attachment.objects.update(created_at=attachment.created_at.replace(year=2020))

    wait_for(attachment, request.getfixturevalue("worker"))


def test_without_a_broker_sizes_are_made_at_once(upload: Upload, settings: Settings, media_root: Path):
    settings.CELERY_BROKER_URL = ""

    upload(("large.jpg", image_file("JPEG", 2000, 1500)))

    assert Attachment.objects.get().sizes_made_at is not None
    assert len(files_in(media_root)) == 8


def test_unreachable_broker_does_not_fail_the_upload(upload: Upload, monkeypatch: pytest.MonkeyPatch):
    unreachable = Celery("unreachable", broker="redis+socket:///nowhere/redis.sock")
    unreachable.conf.broker_transport_options = app.conf.broker_transport_options
    monkeypatch.setattr("commerce.config.celery.app", unreachable)

    response = upload(("large.jpg", image_file("JPEG", 2000, 1500)))

    assert response.status_code == 200
    assert Attachment.objects.get().sizes_made_at is None
    assert send("commerce.attachments.tasks.collect") is False
