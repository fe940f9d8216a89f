"""Digests of requests, equal for requests that ask for the same."""

import hashlib
import hmac
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from django.conf import settings
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParser, MultiPartParserError

CHUNK_BYTES = 64 * 1024


def request_fingerprint(request: HttpRequest) -> str:
    """Return a digest of query, content type and body. The body can still be read afterwards.

    The parts of a form with files count, but not their boundary, which clients generate anew for each attempt. Store it
    through `keyed_fingerprints`.
    """
    digest = hashlib.sha256()
    for text in (request.META.get("QUERY_STRING", ""), request.content_type or ""):
        digest.update(f"{len(text)}:{text}".encode(errors="replace"))
    with _rewound_body(request) as body:
        if request.content_type == "multipart/form-data":
            digest.update(_parts_digest(request, body))
        else:
            while chunk := body.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def keyed_fingerprints(digest: str) -> list[str]:
    """Return the fingerprint as it is stored, under the current key and under former keys.

    Without a key, a reader of the table could try passwords against the digest of a body that holds one.
    """
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [hmac.new(key.encode(), digest.encode(), hashlib.sha256).hexdigest() for key in keys]


@contextmanager
def _rewound_body(request: HttpRequest) -> Iterator[IO[bytes]]:
    """Give the body to read, without its bytes in memory where they are in a file, and rewind it afterwards."""
    if hasattr(request, "_body") or not request._stream.seekable():
        yield io.BytesIO(request.body)
        return
    try:
        yield request._stream
    finally:
        request._stream.seek(0)


def _parts_digest(request: HttpRequest, body: IO[bytes]) -> bytes:
    files = DigestingHandler()
    try:
        fields, _ = MultiPartParser(request.META, cast(Any, body), [files], request.encoding or "utf-8").parse()
    except (
        MultiPartParserError,
        SuspiciousOperation,
        BadRequest,
        LookupError,
    ):  # LookupError: an unknown charset
        body.seek(0)
        return hashlib.file_digest(body, "sha256").digest()  # type: ignore[arg-type]  # the view says what is wrong
    values = [(name, value) for name, values in fields.lists() for value in values]
    return hashlib.sha256(repr((values, files.seen)).encode()).digest()


class DigestingHandler(FileUploadHandler):
    """Upload handler that keeps the digest of each file, and no content."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str | None, str | None, str]] = []
        self._digest = hashlib.sha256()

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._digest = hashlib.sha256()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self._digest.update(raw_data)

    def file_complete(self, file_size: int) -> None:
        self.seen.append((self.field_name, self.file_name, self._digest.hexdigest()))
