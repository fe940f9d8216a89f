"""Views of sign-in, token refresh, registration, sign-out and passwords."""

import uuid
from typing import Any, cast

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from shared.accounts import recovery, schema, services
from shared.accounts.authentication import Principal
from shared.accounts.models import SignIn
from shared.accounts.permissions import HasRole, IsSignedIn
from shared.accounts.roles import Role
from shared.accounts.serializers import (
    ChangePasswordSerializer,
    CredentialsSerializer,
    ForgetPasswordSerializer,
    LinkSerializer,
    LogoutSerializer,
    RefreshSerializer,
    RegistrationSerializer,
    ResetPasswordSerializer,
    SessionSerializer,
    TokenPairSerializer,
)
from shared.api.errors import ValidationFailed
from shared.api.idempotency.store import IdempotencyMode
from shared.api.limits.rate_limits import RateLimitDecision, rate_limit_headers
from shared.api.viewsets import PublicView

MAX_SESSIONS = 100  # in a list


@schema.describe_sign_in
class TokenView(PublicView):
    """Sign-in by e-mail address and password."""

    def post(self, request: Request) -> Response:
        body = _validated_data(CredentialsSerializer, request)
        return _pair_response(services.sign_in(**body, address=_address(request), now=timezone.now()))


@schema.describe_refresh
class RefreshView(PublicView):
    """Exchange of a refresh token for a new pair."""

    def post(self, request: Request) -> Response:
        now = timezone.now()
        return _pair_response(services.refresh_tokens(**_validated_data(RefreshSerializer, request), now=now))


@schema.describe_register
class RegisterView(PublicView):
    """Registration of a customer or store owner."""

    def post(self, request: Request) -> Response:
        body = _validated_data(RegistrationSerializer, request)
        body |= {"role": body.pop("permission"), "address": _address(request), "now": timezone.now()}
        if settings.REGISTRATION == "verified":
            decision = recovery.request_registration(**body)
            return Response(True, status=202, headers=rate_limit_headers(decision))
        return _pair_response(services.register_user(**body), status=201)


@schema.describe_sign_out
class LogoutView(APIView):
    """Sign-out, which revokes the access and refresh tokens."""

    def post(self, request: Request) -> Response:
        body = _validated_data(LogoutSerializer, request)
        principal = cast(Principal, request.auth)
        services.sign_out(principal=principal, refresh=body.get("refresh"), now=timezone.now())
        return Response(True)


@schema.describe_sessions
class SessionsView(APIView):
    """The sign-ins of the user whose tokens are valid."""

    permission_classes = [IsSignedIn]

    def get(self, request: Request) -> Response:
        principal = cast(Principal, request.auth)
        sign_ins = SignIn.objects.active_of(principal.user, now=timezone.now())[:MAX_SESSIONS]
        return Response(SessionSerializer(sign_ins, many=True, context={"current": principal.sign_in}).data)


@schema.describe_end_session
class SessionView(APIView):
    """One sign-in of the user."""

    permission_classes = [IsSignedIn]

    def delete(self, request: Request, sign_in_id: uuid.UUID) -> Response:
        services.revoke_sign_in(user=request.auth.user, sign_in_id=sign_in_id, now=timezone.now())
        return Response(True)


@schema.describe_change_password
class ChangePasswordView(APIView):
    """Change of the own password, which revokes every token, the one of this request included."""

    permission_classes = [HasRole.of(*Role.values)]
    idempotency = IdempotencyMode.DEFERRED  # hashing is slow and would hold the database's write lock

    def post(self, request: Request) -> Response:
        body = _validated_data(ChangePasswordSerializer, request)
        try:
            response = _true_response(services.change_password(user=request.auth.user, **body))
        except ValidationFailed as error:
            raise ValidationFailed(
                ChangePasswordSerializer.rename_errors(error.problem.errors or {}, request.data)
            ) from None
        if ChangePasswordSerializer.has_aliases(request.data):
            response.data = {"success": True, "message": "Your password has been changed."}
        return response


@schema.describe_forget_password
class ForgetPasswordView(PublicView):
    """Request of a password reset link, with the same response for known and unknown addresses."""

    def post(self, request: Request) -> Response:
        body = _validated_data(ForgetPasswordSerializer, request)
        return _true_response(recovery.request_password_reset(**body, address=_address(request), now=timezone.now()))


@schema.describe_reset_password
class ResetPasswordView(PublicView):
    """Password reset by the token of a link."""

    def post(self, request: Request) -> Response:
        body = _validated_data(ResetPasswordSerializer, request)
        return _true_response(recovery.reset_password(**body, address=_address(request), now=timezone.now()))


@schema.describe_verify_email
class VerifyEmailView(PublicView):
    """Confirmation of an e-mail address by the token of a link."""

    def post(self, request: Request) -> Response:
        body = _validated_data(LinkSerializer, request)
        return _true_response(recovery.verify_email(**body, address=_address(request), now=timezone.now()))


def _validated_data(serializer_class: type[Serializer[Any]], request: Request) -> dict[str, Any]:
    serializer = serializer_class(data=request.data)
    serializer.is_valid(raise_exception=True)
    data: dict[str, Any] = serializer.validated_data
    return data


def _pair_response(pair: services.TokenPair, status: int = 200) -> Response:
    headers = rate_limit_headers(pair.rate_limit) if pair.rate_limit else {}
    return Response(TokenPairSerializer(pair).data, status=status, headers=headers)


def _true_response(decision: RateLimitDecision) -> Response:
    return Response(True, headers=rate_limit_headers(decision))


def _address(request: Request) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))
