"""The form of an upload: its fields, and its one file, which waits on this machine's disk."""

import errno
from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig, TooManyFilesSent
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParserError

from inference.engine import InvalidRequest
from shared.api.errors import ApiError

FIELD = "file"

logger = structlog.get_logger(__name__)


def read_form(request: HttpRequest) -> "tuple[dict[str, str], UploadedFile[Any]]":
    """Raises ApiError 415, 413, 400 for what is no form, InvalidRequest where it has not one file that is not empty."""
    if request.content_type != "multipart/form-data":
        raise ApiError(415, "Send the file as a form, with `Content-Type: multipart/form-data`.")
    if (request.content_params or {}).get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise ApiError(415, "Send the form in UTF-8; leave charset out of Content-Type.")
    try:
        fields, files = request.POST.dict(), request.FILES.getlist(FIELD)
    except MultiPartParserError as error:
        raise ApiError(400, f"The form cannot be read: {error}.") from None
    except RequestDataTooBig:
        raise ApiError(
            413, "The fields of the form are too long: send the file as a part that has a file name."
        ) from None
    except TooManyFilesSent:
        raise _one_file() from None
    if len(files) != 1:
        raise _one_file()
    if not files[0].size:
        raise InvalidRequest("file is wrong: it is empty.", field=FIELD)
    return {name: str(value) for name, value in fields.items()}, files[0]


def _one_file() -> InvalidRequest:
    return InvalidRequest("file is required: send one, as a part that has a file name.", field=FIELD)


def no_room(error: OSError) -> ApiError | None:
    """The answer where the disk is full; None for any other error."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    logger.error("disk_full")
    return ApiError(503, "There is no room for files just now. Try again later.", headers={"Retry-After": "60"})
