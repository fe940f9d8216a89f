"""Static files: collected, compressed and with hashed names; or, before `collectstatic`, from their source folders."""

import inspect
import io
from pathlib import Path
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import FileResponse, HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

from shared.serving.files.file_chunks import AsyncFileChunks


class StaticFilesStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """WhiteNoise storage that uses plain names as long as no files are collected."""

    def stored_name(self, name: str) -> str:
        return str(super().stored_name(name)) if self.hashed_files else name


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise middleware that runs in the event loop under ASGI; the original holds a thread for every request."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        if not self.autorefresh and not (Path(settings.STATIC_ROOT) / "staticfiles.json").exists():
            self.add_files_from_finders()
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def add_files(self, root: Any, prefix: str | None = None) -> None:
        if Path(root).is_dir():  # missing before `collectstatic`
            super().add_files(root, prefix)

    def __call__(self, request: HttpRequest) -> Any:
        response = super().__call__(request)
        return _finish_response(response) if self._is_async else response


async def _finish_response(response: Any) -> Any:
    if inspect.isawaitable(response):
        return await response
    if isinstance(response, FileResponse):  # Django would read a synchronous file to its end before it sends a byte
        response.streaming_content = AsyncFileChunks(response.file_to_stream or io.BytesIO())
    return response
