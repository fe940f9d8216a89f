"""Django's session middleware, limited to HTML pages.

The API authenticates by a header and reads no cookies. Sessions, session authentication and messages would only cost it
time: under ASGI each runs in a thread.
"""

from typing import Any

from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware import common, locale
from django.utils import translation

from shared.api.middleware.errors import is_html_page


class HTMLPagesOnly:
    """Mixin of middleware that passes on all requests except those for HTML pages."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        return super().__call__(request) if is_html_page(request) else self.get_response(request)  # type: ignore[misc]


class AsyncCommonMiddleware(common.CommonMiddleware):
    """CommonMiddleware without a thread: it only reads what is in memory."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        response: Any = self.process_request(request) or await self.get_response(request)  # type: ignore[misc]
        return self.process_response(request, response)


class PageSessionMiddleware(HTMLPagesOnly, sessions.SessionMiddleware): ...


class PageAuthenticationMiddleware(HTMLPagesOnly, auth.AuthenticationMiddleware): ...


class PageMessageMiddleware(HTMLPagesOnly, messages.MessageMiddleware): ...


class PageLocaleMiddleware(HTMLPagesOnly, locale.LocaleMiddleware):
    """Middleware that shows pages in the browser's language, and resets the thread's language afterwards."""

    def process_response(self, request: HttpRequest, response: Any) -> Any:
        answer = super().process_response(request, response)
        translation.deactivate()
        return answer
