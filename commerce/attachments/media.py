"""View of a stored file: `/media/attachments/KEY/NAME`, public to everybody who knows the URL.

Only images are shown inline. The content security policy is a sandbox without permissions, so that nothing runs.
"""

from typing import Any
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.files.storage import default_storage
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import re_path

from commerce.attachments import storage
from commerce.attachments.models import Attachment
from commerce.attachments.uploads.file_names import MAX_STEM_LENGTH
from shared.serving.files.file_chunks import AsyncFileChunks

SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",  # storefronts on other hosts show them
}


async def media(request: HttpRequest, path: str) -> HttpResponseBase:
    """Stream a file from disk, or redirect to a URL of S3 that is signed for five minutes."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
    try:
        headers = storage.response_headers(path.rpartition("/")[2]) | SAFE_HEADERS
    except FileNotFoundError:
        raise Http404 from None
    etag = f'"{quote(path)}"'  # a stored file never changes
    find = _find_url if settings.STORAGE == "s3" else _open_file
    found = await sync_to_async(find, thread_sensitive=False)(f"{storage.ATTACHMENTS_FOLDER}/{path}")
    if found is None:
        return await _redirect_to_original(path)
    if isinstance(found, str):
        return HttpResponseRedirect(found, headers=SAFE_HEADERS | {"Cache-Control": "private, max-age=240"})
    if request.headers.get("If-None-Match") == etag:
        found.close()
        return HttpResponse(status=304, headers={"ETag": etag, "Cache-Control": headers["Cache-Control"]})
    headers |= {"Content-Length": str(found.size), "ETag": etag}
    if request.method == "HEAD":
        found.close()
        return HttpResponse(headers=headers)
    return StreamingHttpResponse(AsyncFileChunks(found), headers=headers)


def _open_file(path: str) -> Any:
    try:
        return default_storage.open(path)
    except (FileNotFoundError, IsADirectoryError):
        return None


def _find_url(path: str) -> str | None:
    return default_storage.url(path) if default_storage.exists(path) else None


async def _redirect_to_original(path: str) -> HttpResponseBase:
    """Redirect a smaller copy that is not made yet to its original. Raise Http404 for other files."""
    key, _, name = path.partition("/")
    if name.startswith("sizes/"):
        unsized = Attachment.objects.filter(key=key, sizes_made_at=None, width__isnull=False)
        attachment = await unsized.afirst()
        if attachment is not None:
            url = storage.original_url(attachment, None)
            return HttpResponseRedirect(url, headers=SAFE_HEADERS | {"Cache-Control": "no-store"})
    raise Http404


urlpatterns = [
    # The file system raises an error for a name that is too long, so the route matches only lengths that we store.
    re_path(
        rf"^attachments/(?P<path>[0-9a-f]{{32}}/(?:sizes/)?[\w-]{{1,{MAX_STEM_LENGTH}}}\.[a-z]{{3,4}})$",
        media,
        name="media",
    ),
]
