"""Maintenance mode: what every process knows of it, and the middleware that refuses requests meanwhile.

A process reads the row every few seconds, and at once after it has changed it itself.
"""

import time
from datetime import datetime

from django.conf import settings
from django.db import Error as DatabaseError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from commerce.site_settings.models import Site, SiteOptions
from shared.accounts.authentication import (
    NotAuthenticated,
    Principal,
    aauthenticate,
    authenticate,
    credential_from_headers,
)
from shared.accounts.roles import Role
from shared.api.errors import Problem, problem_response
from shared.api.query_params import DEFAULT_LANGUAGE
from shared.middleware import Middleware
from shared.observability.request_id import current_request_id
from shared.serving.db_threads import run_in_db_thread

DEFAULT_RETRY_SECONDS = 300
DEFAULT_MESSAGE = "The shop is under maintenance. Try again later."
# Panels read the settings and sign super admins in; the model server reports finished batches once.
OPEN_PATHS = frozenset(
    f"/api/{path}"
    for path in (
        "settings", "settings/1", "token", "token/refresh", "logout", "me", "openapi.json", "schema", "docs",
        "descriptions/webhook",
    )
)  # fmt: skip


class Closure:
    """Copy of the maintenance mode in the memory of this process."""

    def __init__(self) -> None:
        self.site = Site()
        self.message = DEFAULT_MESSAGE
        self._read_at = float("-inf")
        self._is_outdated = False

    def forget(self) -> None:
        """Read the row again before the next answer."""
        self._is_outdated = True

    def is_outdated(self) -> bool:
        return self._is_outdated or time.monotonic() - self._read_at > settings.MAINTENANCE_CHECK_SECONDS

    def read(self) -> None:
        """Read the row. What was known stays known while the database fails."""
        self._read_at, self._is_outdated = time.monotonic(), False
        try:
            self.site = Site.objects.first() or Site()
            self.message = _message() if self.site.is_under_maintenance else DEFAULT_MESSAGE
        except DatabaseError:
            self._is_outdated = True

    async def aread(self) -> None:
        """Run `read` in a thread of its own."""
        await run_in_db_thread(self.read)


closure = Closure()


def _message() -> str:
    row = SiteOptions.objects.filter(language=DEFAULT_LANGUAGE).first()
    texts = row.options.get("maintenance") if row else None
    return str((texts or {}).get("description") or DEFAULT_MESSAGE)


class MaintenanceMiddleware(Middleware):
    """Middleware that answers 503 to all but super admins while the shop is under maintenance."""

    async def arespond(self, request: HttpRequest) -> HttpResponseBase:
        if closure.is_outdated() and request.path.startswith("/api/"):
            await closure.aread()
        if _is_refused(request, now := timezone.now()):
            credential = credential_from_headers(request.headers)
            if credential is None or not await self._is_super_admin(credential):
                return _refusal(request, now)
        response: HttpResponseBase = await self.get_response(request)
        return response

    def respond(self, request: HttpRequest) -> HttpResponseBase:
        if closure.is_outdated() and request.path.startswith("/api/"):
            closure.read()
        if _is_refused(request, now := timezone.now()):
            credential = credential_from_headers(request.headers)
            if credential is None or not _is_super_admin(credential):
                return _refusal(request, now)
        response: HttpResponseBase = self.get_response(request)
        return response

    async def _is_super_admin(self, credential: str) -> bool:
        try:
            return _has_all_rights(await aauthenticate(credential))
        except NotAuthenticated:
            return False


def _is_super_admin(credential: str) -> bool:
    try:
        return _has_all_rights(authenticate(credential))
    except NotAuthenticated:
        return False


def _has_all_rights(principal: Principal) -> bool:
    return principal.has_full_role and principal.user.role == Role.SUPER_ADMIN


def _is_refused(request: HttpRequest, now: datetime) -> bool:
    """Return whether only super admins may send this request now."""
    if not closure.site.is_closed(now) or not request.path.startswith("/api/"):
        return False
    return request.path.rstrip("/") not in OPEN_PATHS


def _refusal(request: HttpRequest, now: datetime) -> HttpResponseBase:
    until = closure.site.maintenance_until
    seconds = max(1, int((until - now).total_seconds())) if until else DEFAULT_RETRY_SECONDS
    problem = Problem(status=503, code="maintenance", message=closure.message, headers={"Retry-After": str(seconds)})
    return problem_response(problem, path=request.path, request_id=current_request_id() or "")
