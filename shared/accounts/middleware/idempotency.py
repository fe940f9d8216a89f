"""The `Idempotency-Key` header: `KeyedPost` is a request with one, the middleware is for Django's synchronous views."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from asgiref.sync import async_to_sync, sync_to_async
from django.db import Error as DatabaseError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from django.utils import timezone
from django.utils.functional import cached_property

from shared.accounts.authentication import NotAuthenticated, Principal, authenticate, credential_from_headers
from shared.api.errors import ApiError, Problem, problem_response
from shared.api.idempotency.fingerprints import request_fingerprint
from shared.api.idempotency.store import (
    IdempotencyMode,
    delete_expired_keys,
    enforce_storage_limit,
    idempotency_scope,
    key_waiters,
    release_claim,
    store_response,
    try_claim_key,
)
from shared.api.middleware.errors import database_unavailable_problem, is_transient_database_error
from shared.api.models import KeyedRequest
from shared.middleware import Middleware
from shared.observability.request_id import current_request_id
from shared.serving.asgi.threads import release_request_thread
from shared.transactions import close_connection

KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"

R = TypeVar("R")


class IdempotencyMiddleware(Middleware):
    """Middleware that stands last, so that only the view runs in its transaction. Requests without a key pass."""

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        self._run: Callable[[HttpRequest], HttpResponseBase] = (
            async_to_sync(get_response) if self.is_async else get_response
        )

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        is_keyed = request.method == "POST" and KEY_HEADER in request.headers
        response: HttpResponseBase | Awaitable[HttpResponseBase]
        response = super().__call__(request) if is_keyed else self.get_response(request)
        return response

    def respond(self, request: HttpRequest) -> HttpResponseBase:
        return async_to_sync(self.arespond)(request)

    async def arespond(self, request: HttpRequest) -> HttpResponseBase:
        """Respond once no other request with the key runs."""
        post = KeyedPost(request)
        attempt = sync_to_async(self._attempt)  # one thread for key and view: they share a transaction
        try:
            return await post.first_result(lambda: attempt(post))
        except ApiError as error:
            return _refuse(request, error.problem)

    def _attempt(self, post: "KeyedPost") -> HttpResponseBase | None:
        """Respond, or return None and close the connection while another request with the key runs."""
        try:
            if post.principal is None or post.mode == IdempotencyMode.DISABLED:
                return self._run(post.request)
            row = post.claim()
            if row is None:
                close_connection()
                return None
            return replay_response(row) if row.status is not None else self._respond_once(post, row)
        except ApiError as error:
            problem = error.problem
        except DatabaseError as error:
            if not is_transient_database_error(error):
                raise
            problem = database_unavailable_problem(error)
        return _refuse(post.request, problem)

    def _respond_once(self, post: "KeyedPost", row: KeyedRequest) -> HttpResponseBase:
        stored = False
        try:
            if post.mode == IdempotencyMode.DEFERRED:
                post.request.keyed_request = row  # type: ignore[attr-defined]
                response = self._run(post.request)  # may store its response with its changes
                is_stored_by_view = row.status == response.status_code  # unless its transaction failed afterwards
                stored = is_stored_by_view or store_response(row=row, response=response)
            else:
                response, stored = self._run_atomically(post.request, row)
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


class KeyedPost:
    """POST with an Idempotency-Key. Credential, scope and fingerprint are read at the first attempt."""

    def __init__(self, request: HttpRequest, principal: Principal | None = None) -> None:
        self.request = request
        self._has_tried = False
        if principal:
            self.principal = principal

    @cached_property
    def mode(self) -> IdempotencyMode:
        return _view_mode(self.request.path_info)

    @cached_property
    def principal(self) -> Principal | None:
        """The principal, or None for missing and invalid credentials, which the view refuses."""
        credential = credential_from_headers(self.request.headers)
        try:
            return authenticate(credential) if credential else None
        except NotAuthenticated:
            return None

    @cached_property
    def scope(self) -> str:
        """The digest that identifies the key. Raise ValidationFailed for an invalid one."""
        who = idempotency_owner(cast(Principal, self.principal))
        key = self.request.headers[KEY_HEADER]
        return idempotency_scope(who=who, method="POST", path=self.request.path, key=key)

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the request."""
        return request_fingerprint(self.request)

    def claim(self) -> KeyedRequest | None:
        """Return the row of the key, or None while another request with it runs. Raise ApiError."""
        if not self._has_tried:
            delete_expired_keys(scope=self.scope, now=timezone.now())
            self._has_tried = True
        user_id = cast(Principal, self.principal).user.pk
        return try_claim_key(scope=self.scope, fingerprint=self.fingerprint, now=timezone.now(), user_id=user_id)

    async def first_result(self, attempt: Callable[[], Awaitable[R | None]]) -> R:
        """Return the first result of the attempts. Between them wait on the event loop, without a thread.

        Raise ApiError 409 if too many wait for this key or this user's keys, and after MAX_WAIT_SECONDS.
        """
        result = await attempt()
        if result is None:
            user_id = cast(Principal, self.principal).user.pk
            with key_waiters.wait(scope=self.scope, user_id=user_id) as pauses:
                while result is None:
                    release_request_thread()
                    await asyncio.sleep(next(pauses))
                    result = await attempt()
        return result


def _refuse(request: HttpRequest, problem: Problem) -> HttpResponse:
    return problem_response(problem, path=request.path, request_id=current_request_id())


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


def idempotency_owner(principal: Principal) -> str:
    """Return the owner of the stored responses.

    A key with named permissions is an owner of its own, so that it never gets a response of the user.
    """
    if principal.has_full_role or principal.api_key is None:
        return f"user {principal.user.pk}"
    return f"user {principal.user.pk} by key {principal.api_key.pk}"
