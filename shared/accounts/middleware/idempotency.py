"""The middleware behind `Idempotency-Key`: every POST of the API has it, without its view knowing."""

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
    """Stands last, so that only the view runs in its transaction. Requests without a key pass untouched."""

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
            return sync_to_async(self._answer)(request)  # one thread for key and view: they share a transaction
        return self._answer(request)

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        manner = _view_mode(request.path_info)
        try:
            principal = _authenticated_principal(request)
            if manner == IdempotencyMode.DISABLED or principal is None:
                return self._run(request)
            return self._answer_once(request, principal, manner)
        except ApiError as error:
            problem = error.problem
        except DatabaseError as error:
            if not is_transient_database_error(error):
                raise
            problem = database_unavailable_problem(error)
        return problem_response(problem, path=request.path, request_id=current_request_id())

    def _answer_once(self, request: HttpRequest, principal: Principal, manner: IdempotencyMode) -> HttpResponseBase:
        scope = idempotency_scope(
            who=idempotency_owner(principal), method="POST", path=request.path, key=request.headers[KEY_HEADER]
        )
        digest, user_id = request_fingerprint(request), principal.user.pk
        row = claim_key(scope=scope, fingerprint=digest, now=timezone.now(), user_id=user_id)
        if row.status is not None:
            return replay_response(row)
        kept = False
        try:
            if manner == IdempotencyMode.DEFERRED:
                response = self._run(request)
                kept = store_response(row=row, response=response)
            else:
                response, kept = self._run_together(request, row)
        finally:
            if not kept:
                release_claim(row=row)
        if kept:
            enforce_storage_limit(row=row, response=response)
        return response

    def _run_together(self, request: HttpRequest, row: KeyedRequest) -> tuple[HttpResponseBase, bool]:
        with transaction.atomic():
            response = self._run(request)
            kept = store_response(row=row, response=response)
            if not kept:
                transaction.set_rollback(True)
        return response, kept


def replay_response(row: KeyedRequest) -> HttpResponse:
    """The answer that was kept."""
    headers = {REPLAYED_HEADER: "true"}
    return HttpResponse(bytes(row.body), status=row.status, content_type=row.content_type, headers=headers)


def _view_mode(path: str) -> IdempotencyMode:
    """What the view of this path says of itself. Views that are not the API's keep nothing."""
    try:
        view = resolve(path).func
    except Resolver404:
        return IdempotencyMode.DISABLED
    view_class = getattr(view, "cls", None)
    return getattr(view_class, "idempotency", IdempotencyMode.ATOMIC) if view_class else IdempotencyMode.DISABLED


def _authenticated_principal(request: HttpRequest) -> Principal | None:
    """Who asks; None where nobody does, or nobody we know: the view says so."""
    credential = credential_from_headers(request.headers)
    try:
        return authenticate(credential) if credential else None
    except NotAuthenticated:
        return None


def idempotency_owner(principal: Principal) -> str:
    """The user; a key with fewer rights is apart, so that it never sees what the whole user was answered."""
    if principal.has_full_role or principal.api_key is None:
        return f"user {principal.user.pk}"
    return f"user {principal.user.pk} by key {principal.api_key.pk}"
