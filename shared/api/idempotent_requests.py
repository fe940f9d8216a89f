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
from shared.api.fingerprints import fingerprint
from shared.api.idempotency import Idempotency, claim, keep, make_room, release, scope_of
from shared.api.middleware import database_problem, is_passing_database_error
from shared.api.models import KeyedRequest
from shared.observability.request_id import current_request_id

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"

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
        if request.method != "POST" or HEADER not in request.headers:
            return self.get_response(request)
        if self._is_async:
            return sync_to_async(self._answer)(request)  # one thread for key and view: they share a transaction
        return self._answer(request)

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        manner = _manner_of(request.path_info)
        try:
            principal = _principal_of(request)
            if manner == Idempotency.NEVER or principal is None:
                return self._run(request)
            return self._answer_once(request, principal, manner)
        except ApiError as error:
            problem = error.problem
        except DatabaseError as error:
            if not is_passing_database_error(error):
                raise
            problem = database_problem(error)
        return problem_response(problem, path=request.path, request_id=current_request_id())

    def _answer_once(self, request: HttpRequest, principal: Principal, manner: Idempotency) -> HttpResponseBase:
        scope = scope_of(who=name_of(principal), method="POST", path=request.path, key=request.headers[HEADER])
        digest, user_id = fingerprint(request), principal.user.pk
        row = claim(scope=scope, fingerprint=digest, now=timezone.now(), user_id=user_id)
        if row.status is not None:
            return replayed(row)
        kept = False
        try:
            if manner == Idempotency.AFTERWARDS:
                response = self._run(request)
                kept = keep(row=row, response=response)
            else:
                response, kept = self._run_together(request, row)
        finally:
            if not kept:
                release(row=row)
        if kept:
            make_room(row=row, response=response)
        return response

    def _run_together(self, request: HttpRequest, row: KeyedRequest) -> tuple[HttpResponseBase, bool]:
        with transaction.atomic():
            response = self._run(request)
            kept = keep(row=row, response=response)
            if not kept:
                transaction.set_rollback(True)
        return response, kept


def replayed(row: KeyedRequest) -> HttpResponse:
    """The answer that was kept."""
    headers = {REPLAYED: "true"}
    return HttpResponse(bytes(row.body), status=row.status, content_type=row.content_type, headers=headers)


def _manner_of(path: str) -> Idempotency:
    """What the view of this path says of itself. Views that are not the API's keep nothing."""
    try:
        view = resolve(path).func
    except Resolver404:
        return Idempotency.NEVER
    view_class = getattr(view, "cls", None)
    return getattr(view_class, "idempotency", Idempotency.TOGETHER) if view_class else Idempotency.NEVER


def _principal_of(request: HttpRequest) -> Principal | None:
    """Who asks; None where nobody does, or nobody we know: the view says so."""
    credential = credential_from_headers(request.headers)
    try:
        return authenticate(credential) if credential else None
    except NotAuthenticated:
        return None


def name_of(principal: Principal) -> str:
    """The user; a key with fewer rights is apart, so that it never sees what the whole user was answered."""
    if principal.has_whole_role or principal.api_key is None:
        return f"user {principal.user.pk}"
    return f"user {principal.user.pk} by key {principal.api_key.pk}"
