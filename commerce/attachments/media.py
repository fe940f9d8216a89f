"""Giving out stored files to anybody who has their address: `/media/attachments/KEY/NAME`.

What is no image is downloaded and never shown, and nothing runs: the policy is a sandbox without permissions.
"""

from typing import Any
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.files.storage import default_storage
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase

from commerce.attachments import storage
from commerce.attachments.models import Attachment
from shared.serving.file_chunks import FileChunks

SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",  # storefronts on other hosts show them
}


async def media(request: HttpRequest, path: str) -> HttpResponseBase:
    """One file; of S3, a redirect to an address that is good for five minutes."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
    try:
        headers = storage.headers_of(path.rpartition("/")[2]) | SAFE_HEADERS
    except FileNotFoundError:
        raise Http404 from None
    etag = f'"{quote(path)}"'  # a file never changes
    find = _address if settings.STORAGE == "s3" else _opened
    found = await sync_to_async(find, thread_sensitive=False)(f"{storage.FOLDER}/{path}")
    if found is None:
        return await _instead(path)
    if isinstance(found, str):
        return HttpResponseRedirect(found, headers=SAFE_HEADERS | {"Cache-Control": "private, max-age=240"})
    if request.headers.get("If-None-Match") == etag:
        found.close()
        return HttpResponse(status=304, headers={"ETag": etag, "Cache-Control": headers["Cache-Control"]})
    headers |= {"Content-Length": str(found.size), "ETag": etag}
    if request.method == "HEAD":
        found.close()
        return HttpResponse(headers=headers)
    return StreamingHttpResponse(FileChunks(found), headers=headers)


def _opened(path: str) -> Any:
    try:
        return default_storage.open(path)
    except (FileNotFoundError, IsADirectoryError):
        return None


def _address(path: str) -> str | None:
    return default_storage.url(path) if default_storage.exists(path) else None


async def _instead(path: str) -> HttpResponseBase:
    """The original, in place of a smaller size that a worker has yet to make."""
    key, _, rest = path.partition("/")
    if rest.startswith("sizes/"):
        unmade = Attachment.objects.filter(key=key, sizes_made_at=None, width__isnull=False)
        attachment = await unmade.afirst()
        if attachment is not None:
            url = storage.original_url(attachment, None)
            return HttpResponseRedirect(url, headers=SAFE_HEADERS | {"Cache-Control": "no-store"})
    raise Http404
