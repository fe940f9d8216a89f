"""How the files of a form reach this machine's disk."""

import contextlib
from collections.abc import Iterator
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import TemporaryFileUploadHandler


class DiskUploadHandler(TemporaryFileUploadHandler):
    """Django's own, which keeps no file in memory; where the disk is full, it gives back at once what the earlier files
    of the form have taken of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._files: list[UploadedFile[Any]] = []

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        with self._all_or_none():
            super().new_file(*args, **kwargs)
        self._files.append(self.file)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        with self._all_or_none():
            super().receive_data_chunk(raw_data, start)

    def file_complete(self, file_size: int) -> "UploadedFile[Any] | None":
        with self._all_or_none():
            return super().file_complete(file_size)

    @contextlib.contextmanager
    def _all_or_none(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            for file in self._files:
                with contextlib.suppress(OSError):  # closing writes what is left, which fails again
                    file.close()
            raise
