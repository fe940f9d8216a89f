"""Django's middleware for browsers, which only pages go through.

The API knows who asks by a header, and looks at no cookie: sessions, sign-in by session and messages would be so
much time for nothing, as under ASGI each of them takes its turns in a thread.
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
    """What follows it is passed on at once to what comes next, unless a page is asked for."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        return super().__call__(request) if is_html_page(request) else self.get_response(request)  # type: ignore[misc]


class AsyncCommonMiddleware(common.CommonMiddleware):
    """For everybody; it only looks at what is in memory, and so needs no thread."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        response: Any = self.process_request(request) or await self.get_response(request)  # type: ignore[misc]
        return self.process_response(request, response)


class PageSessionMiddleware(HTMLPagesOnly, sessions.SessionMiddleware): ...


class PageAuthenticationMiddleware(HTMLPagesOnly, auth.AuthenticationMiddleware): ...


class PageMessageMiddleware(HTMLPagesOnly, messages.MessageMiddleware): ...


class PageLocaleMiddleware(HTMLPagesOnly, locale.LocaleMiddleware):
    """Pages in the language that the browser asks for. What is asked of the same thread next is not."""

    def process_response(self, request: HttpRequest, response: Any) -> Any:
        answer = super().process_response(request, response)
        translation.deactivate()
        return answer
