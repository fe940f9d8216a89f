"""Larger body limits of some routes, for authenticated clients only, decided before the body is read."""

import re
from collections.abc import Awaitable, Callable, Mapping

from django.conf import settings

from shared.accounts.authentication import NotAuthenticated, authenticate, credential_from_headers
from shared.serving.asgi.refusals import client_address_key, client_of
from shared.serving.asgi.request_checks import get_header
from shared.serving.asgi.turns import client_turns
from shared.serving.asgi.types import Scope
from shared.serving.db_threads import closing_connection

Route = tuple[str, str]


def authenticated_body_limits(routes: Mapping[Route, str]) -> Callable[[Scope], Awaitable[int]]:
    """Return a `body_cap` for `shared.serving.asgi.wrapper.wrap`.

    `routes` maps method and regular expression of the path to the name of the setting with the limit in bytes. The
    function raises NotAuthenticated for a large Content-Length without a valid credential. Without Content-Length and
    credential, the ordinary limit applies.
    """

    async def body_cap(scope: Scope) -> int:
        ordinary: int = settings.MAX_BODY_BYTES
        setting = next((name for route, name in routes.items() if _is_route(route, scope)), None)
        if setting is None:
            return ordinary
        largest: int = max(ordinary, getattr(settings, setting))
        declared = int(get_header(scope["headers"], b"content-length") or 0)
        if declared > largest or 0 < declared <= ordinary:
            return largest  # refused anyway, or within the ordinary limit: no credential needed
        try:
            check = closing_connection(_require_credential)
            await client_turns.run(client_of(scope), check, scope, address=client_address_key(scope))
        except NotAuthenticated:
            if declared:
                raise
            return ordinary
        return largest

    return body_cap


def _is_route(route: Route, scope: Scope) -> bool:
    method, path = route
    return bool(scope["method"] == method and re.fullmatch(path, scope["path"]))


def _require_credential(scope: Scope) -> None:
    names = ("authorization", "x-api-key")
    credential = credential_from_headers({name: get_header(scope["headers"], name.encode()).decode() for name in names})
    if credential is None:
        raise NotAuthenticated
    authenticate(credential)
