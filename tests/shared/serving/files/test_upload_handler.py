"""Temporary files of uploads."""

import os
from pathlib import Path

import pytest
from pytest_django import Settings

from shared.serving.files.upload_handler import UnnamedFileUploadHandler

pytestmark = pytest.mark.no_database

FULL = Path("/dev/full")  # every write fails for lack of space


def begun(settings: Settings, folder: Path) -> UnnamedFileUploadHandler:
    settings.FILE_UPLOAD_TEMP_DIR = str(folder)
    handler = UnnamedFileUploadHandler()
    handler.new_file("file", "lines.jsonl", "application/jsonl", None)
    handler.receive_data_chunk(b"one\n", 0)
    return handler


def test_a_killed_process_leaves_no_upload_on_the_disk(settings: Settings, tmp_path: Path):
    handler = begun(settings, tmp_path)
    assert list(tmp_path.iterdir()) == []
    handler.receive_data_chunk(b"two\n", 4)
    file = handler.file_complete(8)
    assert file is not None
    assert list(tmp_path.iterdir()) == []
    assert (file.name, file.size, b"".join(file.chunks())) == ("lines.jsonl", 8, b"one\ntwo\n")
    file.close()


@pytest.mark.skipif(not FULL.exists(), reason="this system has no disk that is always full")
def test_on_a_full_disk_the_earlier_files_are_released_too(settings: Settings, tmp_path: Path):
    handler = begun(settings, tmp_path)
    earlier = handler.file_complete(4)
    handler.new_file("file", "more.jsonl", "application/jsonl", None)
    with FULL.open("wb") as full:
        os.dup2(full.fileno(), handler.file.fileno())

    with pytest.raises(OSError, match="No space left"):
        handler.receive_data_chunk(b"x" * 1_000_000, 0)

    assert earlier.closed
    assert handler.file.closed


def test_an_interrupted_upload_is_released(settings: Settings, tmp_path: Path):
    handler = begun(settings, tmp_path)
    handler.upload_interrupted()
    assert handler.file.closed
    UnnamedFileUploadHandler().upload_interrupted()
