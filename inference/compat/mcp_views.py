"""View of the Model Context Protocol."""

import asyncio
import functools
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from inference.access.operations import OperationCall, View, operation
from inference.compat import schema
from inference.protocol.mcp.messages import McpMessage, McpResponse, parse_message
from shared.accounts.roles import Permission
from shared.api.errors import ApiError, problem_response
from shared.observability.request_id import current_request_id

SERVER = "inference.compat.mcp.server"  # it imports the SDK


def own_origins_only(view: View) -> View:
    """Refuse pages of other origins before anything else: a name of theirs may lead to this machine."""

    @functools.wraps(view)
    async def checked(request: HttpRequest, **path: Any) -> HttpResponseBase:
        origin = request.headers.get("Origin")
        if origin is None or origin in settings.CORS_ALLOWED_ORIGINS or _host(origin) == request.get_host():
            return await view(request, **path)
        error = ApiError(403, "Pages of this origin may not use this address. The operator can allow it.")
        return problem_response(error.problem, path=request.path, request_id=current_request_id())

    return checked


def _host(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # as `http://[`
        return None


@own_origins_only
@operation(
    "POST",
    docs=schema.MCP,
    permission=Permission.RUN_INFERENCE,
    body=McpMessage,
    body_parser=parse_message,
    response=McpResponse,
)
async def exchange(call: OperationCall[McpMessage]) -> HttpResponse:
    server = await asyncio.to_thread(import_module, SERVER)
    response: HttpResponse = await server.respond(call.request, call.body, call.caller)
    return response
