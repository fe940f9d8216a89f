"""View of signing in with an e-mail address and a password."""

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.utils import timezone

from inference.access import schema
from inference.access.operations import OperationCall, operation
from inference.access.responses import json_response
from inference.protocol.native.auth import LoginRequest, LoginResponse, LoginUser
from shared.accounts.services import sign_in
from shared.api.limits.rate_limits import rate_limit_headers


@operation("POST", docs=schema.LOGIN, permission=None, body=LoginRequest, response=LoginResponse)
async def login(call: OperationCall[LoginRequest]) -> HttpResponse:
    now = timezone.now()
    pair = await sync_to_async(sign_in)(
        email=call.body.username,
        password=call.body.password,
        otp=call.body.otp,
        address=call.request.META["REMOTE_ADDR"],
        now=now,
    )
    response = LoginResponse(
        token=pair.access,
        access_token=pair.access,
        token_type="bearer",  # noqa: S106 the scheme's name
        expires_in=int((pair.expires_at - now).total_seconds()),
        expires_at=pair.expires_at.isoformat().replace("+00:00", "Z"),
        refresh_token=pair.refresh,
        user=LoginUser(id=pair.user.pk, username=pair.user.email, role=pair.user.role),
    )
    return json_response(response, rate_limit_headers(pair.rate_limit) if pair.rate_limit else None)
