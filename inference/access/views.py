"""Signing in with a name and a password, for a session token."""

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.utils import timezone

from inference.access.operations import Call, json_response, operation
from inference.protocol import native
from shared.accounts.services import sign_in
from shared.api.rate_limits import rate_limit_headers


@operation(
    "POST", summary="Sign in for a session token", permission=None, body=native.LoginBody, answer=native.LoginAnswer
)
async def login(call: Call[native.LoginBody]) -> HttpResponse:
    """401 is the same for every failure."""
    now = timezone.now()
    pair = await sync_to_async(sign_in)(
        email=call.body.username, password=call.body.password, address=call.request.META["REMOTE_ADDR"], now=now
    )
    answer = native.LoginAnswer(
        token=pair.access,
        access_token=pair.access,
        token_type="bearer",  # noqa: S106 the scheme's name
        expires_in=int((pair.expires_at - now).total_seconds()),
        expires_at=pair.expires_at.isoformat().replace("+00:00", "Z"),
        refresh_token=pair.refresh,
        user=native.LoginUser(id=pair.user.pk, username=pair.user.email, role=pair.user.role),
    )
    return json_response(answer, rate_limit_headers(pair.rate_limit) if pair.rate_limit else None)
