"""The server that STOA_URL names. With it, commands for clients use its API with STOA_API_KEY, not this machine."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
from django.conf import settings

from inference.cli.errors import EXIT_USAGE, exit_with_error
from inference.pools.cache import use_only
from inference.pools.definitions import single_member_pool
from inference.remote.configuration import RemoteModel
from inference.remote.errors import RemoteUnavailable, parse_error
from shared.api.errors import ApiError

TIMEOUT_SECONDS = 600.0  # of the load of a large model
CONNECT_TIMEOUT_SECONDS = 5.0


def is_remote() -> bool:
    """Return whether commands use a server over HTTP."""
    return bool(settings.SERVER_URL)


def require_local(command: str) -> None:
    """Exit if STOA_URL names a server, for a command that works on this machine alone."""
    if is_remote():
        exit_with_error(f"`stoa {command}` works on this machine alone: unset STOA_URL, or run it there.", EXIT_USAGE)


def run_remotely(model: str) -> None:
    """Let this process run a model on the server, if there is one."""
    if is_remote():
        base_url, api_key = f"{_base_url()}/v1", settings.SERVER_API_KEY
        use_only(single_member_pool(RemoteModel(id=model, base_url=base_url, api_key=api_key, dialect="stoa")))


def model_path(model: str, action: str) -> str:
    return f"/models/{quote(model)}/{action}"


def call_server(
    method: str, path: str, body: Any = None, *, content: bytes | None = None, query: Mapping[str, object] | None = None
) -> Any:
    """Send a request, with `body` as JSON or `content` that is JSON already. Return the JSON of the response.

    Raise RemoteUnavailable if the server does not answer, and ApiError with its status and message for an error.
    """
    headers = {"Content-Type": "application/json"}
    if settings.SERVER_API_KEY:
        headers["Authorization"] = f"Bearer {settings.SERVER_API_KEY}"
    url = f"{_base_url()}{path}" + (f"?{urlencode(query)}" if query else "")
    timeout = httpx2.Timeout(TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS)
    try:
        response = httpx2.request(method, url, json=body, content=content, headers=headers, timeout=timeout)
        if response.is_success:
            return response.json()
    except (httpx2.HTTPError, ValueError) as error:  # also an answer that is no JSON
        message = f"{_base_url()} does not answer as a model server ({error}). Is STOA_URL right?"
        raise RemoteUnavailable(message) from error
    if response.status_code in (401, 403):
        advice = "Set STOA_API_KEY to a key of the server with the rights for this."
        raise ApiError(response.status_code, f"{_base_url()} refuses this. {advice}")
    message = parse_error(response.content).message or f"The server answers with status {response.status_code}."
    raise ApiError(response.status_code, message)


def _base_url() -> str:
    return str(settings.SERVER_URL).rstrip("/")
