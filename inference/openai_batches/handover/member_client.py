"""Client of the files and batches of a member, by OpenAI's API."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Annotated, Any, TypeVar

import httpx2
import msgspec
from msgspec import Meta

from inference.remote.configuration import RemoteModel
from inference.remote.errors import parse_error, unavailable_reason

PART_BYTES = 8 * 1024 * 1024
PART_TRIES = 3
READ_TIMEOUT_SECONDS = 120.0  # a server joins the parts before it answers
REQUESTS_CHECKED_PER_SECOND = 1000  # by a server that validates the file before it answers; ours: 5,000
MAX_RESPONSE_BYTES = 1024 * 1024
MAX_BODY_SECONDS = 30.0
FILE_TTL_SECONDS = 3 * 24 * 3600
PAGE_COUNT = 100
_EXPIRES_AFTER = {"anchor": "created_at", "seconds": FILE_TTL_SECONDS}
_RETRIED_STATUSES = (408, 409, 425, 429)  # 409: the Idempotency-Key is in use

T = TypeVar("T")
RemoteId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:=-]{0,255}\Z")]  # a part of URLs, and of a row


class MemberUnavailable(Exception):
    """Raised if a member does not answer, or not now: the call can be repeated."""


class MemberRefused(Exception):
    """Raised if a member refuses a call for good. The message has its status and its reason."""


class MemberFile(msgspec.Struct):
    """A file at a member."""

    id: RemoteId


class MemberUpload(msgspec.Struct):
    """An upload or a part at a member. file: that of a completed upload."""

    id: RemoteId
    file: MemberFile | None = None


class MemberBatch(msgspec.Struct):
    """A batch at a member."""

    id: RemoteId
    status: str
    input_file_id: str = ""
    output_file_id: RemoteId | None = None
    error_file_id: RemoteId | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ("completed", "failed", "expired", "cancelled")


class MemberBatchPage(msgspec.Struct):
    """The newest batches at a member."""

    data: list[MemberBatch]


class MemberClient:
    """The files and batches of a member. Raises MemberUnavailable and MemberRefused. before_call: called before each.

    A file that nobody deletes expires at the member after FILE_TTL_SECONDS.
    """

    def __init__(self, model: RemoteModel, client: httpx2.Client, before_call: Callable[[], None]) -> None:
        self._model = model
        self._client = client
        self._before_call = before_call

    @property
    def api_key(self) -> str:
        return self._model.api_key

    def upload(self, content: IO[bytes], size: int) -> str:
        """Upload a file in parts and return its id."""
        announced: dict[str, Any] = {"bytes": size, "filename": "batch.jsonl", "mime_type": "application/jsonl"}
        announced |= {"purpose": "batch", "expires_after": _EXPIRES_AFTER}
        upload = self._call("POST", "uploads", MemberUpload, json=announced)
        parts: list[str] = []
        content.seek(0)
        while part := content.read(PART_BYTES):
            parts.append(self._add_part(upload.id, part))
        completed = self._call("POST", f"uploads/{upload.id}/complete", MemberUpload, json={"part_ids": parts})
        if completed.file is None:
            raise MemberRefused("It has completed an upload without a file.")
        return completed.file.id

    def create_batch(self, *, file_id: str, endpoint: str, key: str, timeout_seconds: float) -> MemberBatch:
        """Create a batch. key: as its Idempotency-Key, so that a repeated call creates no second one."""
        body: dict[str, Any] = {"input_file_id": file_id, "endpoint": endpoint, "completion_window": "24h"}
        body["output_expires_after"] = _EXPIRES_AFTER
        headers = {"Idempotency-Key": key}
        return self._call("POST", "batches", MemberBatch, json=body, headers=headers, timeout_seconds=timeout_seconds)

    def find_batch(self, file_id: str) -> MemberBatch | None:
        """Return the batch of an input file, if it is one of the newest."""
        page = self._call("GET", f"batches?limit={PAGE_COUNT}", MemberBatchPage)
        return next((batch for batch in page.data if batch.input_file_id == file_id), None)

    def read_batch(self, batch_id: str) -> MemberBatch:
        return self._call("GET", f"batches/{batch_id}", MemberBatch)

    def cancel_batch(self, batch_id: str) -> None:
        self._call("POST", f"batches/{batch_id}/cancel", dict[str, Any])

    def delete_file(self, file_id: str) -> None:
        self._call("DELETE", f"files/{file_id}", dict[str, Any])

    def read_file(self, file_id: str) -> Iterator[bytes]:
        """Yield the content of a file in chunks."""
        with self._open("GET", f"files/{file_id}/content") as response:
            try:
                yield from response.iter_raw()
            except httpx2.HTTPError as error:
                raise MemberUnavailable("The connection was lost.") from error

    def _add_part(self, upload_id: str, part: bytes) -> str:
        for attempt in range(PART_TRIES - 1):
            with suppress(MemberUnavailable):
                return self._send_part(upload_id, part)
            time.sleep(2**attempt)
        return self._send_part(upload_id, part)

    def _send_part(self, upload_id: str, part: bytes) -> str:
        files = {"data": ("part", part, "application/octet-stream")}
        return self._call("POST", f"uploads/{upload_id}/parts", MemberUpload, files=files).id

    def _call(self, method: str, path: str, answer: type[T], **content: Any) -> T:
        with self._open(method, path, **content) as response:
            try:
                return msgspec.json.decode(_read(response), type=answer)
            except (msgspec.DecodeError, RecursionError) as error:
                raise MemberRefused(f"It answers {path} in another form than OpenAI's.") from error

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        timeout_seconds: float = READ_TIMEOUT_SECONDS,
        **content: Any,
    ) -> Iterator[httpx2.Response]:
        """Yield the response to a call, if its status is 200 or another success."""
        self._before_call()
        headers = {"Accept-Encoding": "identity"} | (headers or {})
        if self._model.api_key:
            headers["Authorization"] = f"Bearer {self._model.api_key}"
        timeout = httpx2.Timeout(timeout_seconds, connect=self._model.connect_timeout)
        request = self._client.build_request(method, self._model.url(path), headers=headers, timeout=timeout, **content)
        try:
            response = self._client.send(request, stream=True)
        except (httpx2.HTTPError, OSError) as error:
            raise MemberUnavailable("It does not answer.") from error
        try:
            if response.is_success:
                yield response
            elif response.status_code in _RETRIED_STATUSES or response.status_code >= 500:
                raise MemberUnavailable(f"It answers {response.status_code}.")
            else:
                raise MemberRefused(self._refusal(response.status_code, _read(response)))
        finally:
            response.close()

    def _refusal(self, status: int, body: bytes) -> str:
        """Return the reason of a refusal."""
        if status in (401, 403):
            return unavailable_reason(status)
        return f"It answers {status}: {parse_error(body, api_key=self.api_key).message or 'no reason.'}"


def _read(response: httpx2.Response) -> bytes:
    """Return the body. Raise MemberRefused if it is too long, and MemberUnavailable if it takes too long."""
    body, ends_at = bytearray(), time.monotonic() + MAX_BODY_SECONDS
    try:
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MAX_RESPONSE_BYTES:
                raise MemberRefused("Its response is too long.")
            if time.monotonic() > ends_at:
                raise MemberUnavailable("Its response takes too long.")
    except httpx2.HTTPError as error:
        raise MemberUnavailable("The connection was lost.") from error
    return bytes(body)
