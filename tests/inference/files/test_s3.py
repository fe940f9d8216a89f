"""Files in S3, over HTTP to moto's server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from moto.server import ThreadedMotoServer
from pytest_django import Settings

from inference.files.services import delete_file, upload_file, write_file
from shared.accounts.models import User
from shared.environment import env
from shared.s3 import s3_options

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.no_database]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BUCKET = "stoa-files"


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def bucket(s3_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Configure S3 by the environment variables, and return an empty bucket."""
    options = {"ENDPOINT": s3_url, "REGION": "us-east-1", "ACCESS_KEY": "key", "SECRET_KEY": "secret"}
    for name, value in options.items():
        monkeypatch.setenv(f"STOA_S3_{name}", value)
    storage = {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": s3_options(env, BUCKET)}
    settings.STORAGES = settings.STORAGES | {"default": storage}
    resource = boto3.resource(
        "s3", endpoint_url=s3_url, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret"
    )
    created = resource.create_bucket(Bucket=BUCKET)
    created.objects.all().delete()
    return created


def test_files_are_stored_in_and_deleted_from_the_bucket(owner: User, bucket: Any):
    sent = upload_file(owner=owner, content=SimpleUploadedFile("a.jsonl", b'{"a": 1}\n'), now=NOW)
    written = write_file(owner=owner, name="b.jsonl", lines=(b"%d\n" % number for number in range(1000)), now=NOW)

    assert {one.key for one in bucket.objects.all()} == {sent.path, written.path}
    with default_storage.open(sent.path) as content:
        assert content.read() == b'{"a": 1}\n'
    with default_storage.open(written.path) as content:
        assert content.read().splitlines() == [b"%d" % number for number in range(1000)]
    delete_file(owner=owner, file_id=sent.file_id, now=NOW)
    assert [one.key for one in bucket.objects.all()] == [written.path]
