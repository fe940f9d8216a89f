"""Middleware of the `Idempotency-Key` header, for every POST of the API."""

from collections.abc import Awaitable, Callable

from asgiref.sync import async_to_sync, iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.db import Error as DatabaseError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from django.utils import timezone

from shared.accounts.authentication import NotAuthenticated, Principal, authenticate, credential_from_headers
from shared.api.errors import ApiError, problem_response
from shared.api.idempotency.fingerprints import request_fingerprint
from shared.api.idempotency.store import (
    IdempotencyMode,
    claim_key,
    enforce_storage_limit,
    idempotency_scope,
    release_claim,
    store_response,
)
from shared.api.middleware.errors import database_unavailable_problem, is_transient_database_error
from shared.api.models import KeyedRequest
from shared.observability.request_id import current_request_id

KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"

GetResponse = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


class IdempotencyMiddleware:
    """Middleware that stands last, so that only the view runs in its transaction. Requests without a key pass."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        self._run: Callable[[HttpRequest], HttpResponseBase] = get_response  # type: ignore[assignment]
        if self._is_async:
            markcoroutinefunction(self)
            self._run = async_to_sync(get_response)  # type: ignore[arg-type]

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if request.method != "POST" or KEY_HEADER not in request.headers:
            return self.get_response(request)
        if self._is_async:
            return sync_to_async(self._respond)(request)  # one thread for key and view: they share a transaction
        return self._respond(request)

    def _respond(self, request: HttpRequest) -> HttpResponseBase:
        mode = _view_mode(request.path_info)
        try:
            principal = _authenticated_principal(request)
            if mode == IdempotencyMode.DISABLED or principal is None:
                return self._run(request)
            return self._respond_once(request, principal, mode)
        except ApiError as error:
            problem = error.problem
        except DatabaseError as error:
            if not is_transient_database_error(error):
                raise
            problem = database_unavailable_problem(error)
        return problem_response(problem, path=request.path, request_id=current_request_id())

    def _respond_once(self, request: HttpRequest, principal: Principal, mode: IdempotencyMode) -> HttpResponseBase:
        scope = idempotency_scope(
            who=idempotency_owner(principal), method="POST", path=request.path, key=request.headers[KEY_HEADER]
        )
        digest, user_id = request_fingerprint(request), principal.user.pk
        row = claim_key(scope=scope, fingerprint=digest, now=timezone.now(), user_id=user_id)
        if row.status is not None:
            return replay_response(row)
        stored = False
        try:
            if mode == IdempotencyMode.DEFERRED:
                response = self._run(request)
                stored = store_response(row=row, response=response)
            else:
                response, stored = self._run_atomically(request, row)
        finally:
            if not stored:
                release_claim(row=row)
        if stored:
            enforce_storage_limit(row=row, response=response)
        return response

    def _run_atomically(self, request: HttpRequest, row: KeyedRequest) -> tuple[HttpResponseBase, bool]:
        with transaction.atomic():
            response = self._run(request)
            stored = store_response(row=row, response=response)
            if not stored:
                transaction.set_rollback(True)
        return response, stored


def replay_response(row: KeyedRequest) -> HttpResponse:
    """Return the stored response."""
    headers = {REPLAYED_HEADER: "true"}
    return HttpResponse(bytes(row.body), status=row.status, content_type=row.content_type, headers=headers)


def _view_mode(path: str) -> IdempotencyMode:
    """Return the mode of the view of this path. Views outside the API are DISABLED."""
    try:
        view = resolve(path).func
    except Resolver404:
        return IdempotencyMode.DISABLED
    view_class = getattr(view, "cls", None)
    return getattr(view_class, "idempotency", IdempotencyMode.ATOMIC) if view_class else IdempotencyMode.DISABLED


def _authenticated_principal(request: HttpRequest) -> Principal | None:
    """Return the principal, or None for missing and invalid credentials, which the view refuses."""
    credential = credential_from_headers(request.headers)
    try:
        return authenticate(credential) if credential else None
    except NotAuthenticated:
        return None


def idempotency_owner(principal: Principal) -> str:
    """Return the owner of the stored responses.

    A key with named permissions is an owner of its own, so that it never gets a response of the user.
    """
    if principal.has_full_role or principal.api_key is None:
        return f"user {principal.user.pk}"
    return f"user {principal.user.pk} by key {principal.api_key.pk}"
