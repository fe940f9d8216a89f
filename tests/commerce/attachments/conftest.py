"""Fixtures of attachments: a storage folder for each test, and an uploading client."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from pytest_django import Settings

from shared.accounts.models import User
from tests.commerce.conftest import bearer

Upload = Callable[..., Any]


@pytest.fixture(autouse=True)
def media_root(settings: Settings, tmp_path: Path) -> Path:
    """Return the storage folder of this test."""
    settings.MEDIA_ROOT = tmp_path / "media"
    settings.MEDIA_ROOT.mkdir()
    return Path(settings.MEDIA_ROOT)


@pytest.fixture
def upload(db: None, customer: User) -> Upload:
    """Return a function that uploads (name, content) pairs, by default as the customer, and returns the response."""

    def upload_files(*files: tuple[str, bytes], by: User | None = customer, field: str = "attachment[]") -> Any:
        client = Client(headers=bearer(by), raise_request_exception=False)
        sent = [SimpleUploadedFile("placeholder", content, "application/x-anything") for _, content in files]
        for file, (name, _) in zip(sent, files, strict=True):
            file._name = name  # type: ignore[attr-defined]  # the setter would clean a hostile name
        return client.post("/api/attachments", {field: sent})

    return upload_files


def files_in(folder: Path) -> list[str]:
    """Return the paths of all files below the folder, relative to it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def database_url(name: str) -> str:
    """Return the URL of another database on the server of the tests."""
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
