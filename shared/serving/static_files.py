"""The files that pages load, served by us: collected, compressed, under names that change with their content; or, where
nobody has run `collectstatic`, as they are from where they are.
"""

import inspect
import io
from pathlib import Path
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import FileResponse, HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

from shared.serving.file_chunks import FileChunks


class StaticFilesStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Knows a file by its plain name until it was collected."""

    def stored_name(self, name: str) -> str:
        return str(super().stored_name(name)) if self.hashed_files else name


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise, but in the event loop where that is: as its own it would hold a thread for every request."""

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
        if Path(root).is_dir():  # it is not where nothing was collected
            super().add_files(root, prefix)

    def __call__(self, request: HttpRequest) -> Any:
        answer = super().__call__(request)
        return _awaited(answer) if self._is_async else answer


async def _awaited(answer: Any) -> Any:
    if inspect.isawaitable(answer):
        return await answer
    if isinstance(answer, FileResponse):  # in pieces: left as it is, it would be read whole before its first byte goes
        answer.streaming_content = FileChunks(answer.file_to_stream or io.BytesIO())
    return answer
