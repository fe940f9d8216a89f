"""Upload handler for the files of multipart forms."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler


class UnnamedFileUploadHandler(FileUploadHandler):
    """Writes uploads to unnamed temporary files, never to memory.

    The kernel frees them when the process ends, however it ends. On a full disk the form's earlier files are closed at
    once, which frees their space.
    """

    file: "UploadedFile[Any]"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._files: list[UploadedFile[Any]] = []

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        with self._close_all_on_error():
            stored = TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)  # noqa: SIM115 - Django closes it with the request
        self.file = UploadedFile(stored, self.file_name, self.content_type, 0, self.charset, self.content_type_extra)
        self._files.append(self.file)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        with self._close_all_on_error():
            self.file.write(raw_data)

    def file_complete(self, file_size: int) -> "UploadedFile[Any]":
        with self._close_all_on_error():
            self.file.seek(0)
        self.file.size = file_size
        return self.file

    def upload_interrupted(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    @contextmanager
    def _close_all_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            for file in self._files:
                with suppress(OSError):  # closing flushes, which fails again
                    file.close()
            raise
