"""Signing in, staying signed in, registering, signing out, and passwords that change or are forgotten."""

from typing import Any, cast

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from shared.accounts import recovery, schema, services
from shared.accounts.authentication import Principal
from shared.accounts.permissions import HasRole
from shared.accounts.public_view import PublicView
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
    TokenPairSerializer,
)
from shared.api.idempotency.store import IdempotencyMode
from shared.api.limits.rate_limits import RateLimitDecision, rate_limit_headers


@schema.describe_sign_in
class TokenView(PublicView):
    """An e-mail and a password for a pair of tokens."""

    def post(self, request: Request) -> Response:
        body = _checked(CredentialsSerializer, request)
        return _pair_response(services.sign_in(**body, address=_address(request), now=timezone.now()))


@schema.describe_refresh
class RefreshView(PublicView):
    """A refresh token, which is good for one use, for a new pair."""

    def post(self, request: Request) -> Response:
        now = timezone.now()
        return _pair_response(services.refresh_tokens(**_checked(RefreshSerializer, request), now=now))


@schema.describe_register
class RegisterView(PublicView):
    """A new customer or store owner, who is signed in at once."""

    def post(self, request: Request) -> Response:
        body = _checked(RegistrationSerializer, request)
        role = body.pop("permission")
        pair = services.register_user(**body, role=role, address=_address(request), now=timezone.now())
        return _pair_response(pair, status=201)


@schema.describe_sign_out
class LogoutView(APIView):
    """Ends this sign-in: its access and refresh tokens are refused from the next request."""

    def post(self, request: Request) -> Response:
        body = _checked(LogoutSerializer, request)
        principal = cast(Principal, request.auth)
        services.sign_out(principal=principal, refresh=body.get("refresh"), now=timezone.now())
        return Response(True)


@schema.describe_change_password
class ChangePasswordView(APIView):
    """A new password. Every earlier token is refused from the next request, the one that asks included."""

    permission_classes = [HasRole.of(*Role.values)]
    idempotency = IdempotencyMode.DEFERRED  # hashing takes its time, and would hold the database's write lock

    def post(self, request: Request) -> Response:
        body = _checked(ChangePasswordSerializer, request)
        return _true(services.change_password(user=request.auth.user, **body))


@schema.describe_forget_password
class ForgetPasswordView(PublicView):
    """A link to choose a new password, by e-mail. The answer is the same whether the e-mail is known or not."""

    def post(self, request: Request) -> Response:
        body = _checked(ForgetPasswordSerializer, request)
        return _true(recovery.request_password_reset(**body, address=_address(request), now=timezone.now()))


@schema.describe_reset_password
class ResetPasswordView(PublicView):
    """A new password, by the token of such a link. It works once; every earlier token of the user is refused."""

    def post(self, request: Request) -> Response:
        body = _checked(ResetPasswordSerializer, request)
        return _true(recovery.reset_password(**body, address=_address(request), now=timezone.now()))


@schema.describe_verify_email
class VerifyEmailView(PublicView):
    """Confirms an e-mail, by the token of the link that was sent there."""

    def post(self, request: Request) -> Response:
        body = _checked(LinkSerializer, request)
        return _true(recovery.verify_email(**body, address=_address(request), now=timezone.now()))


def _checked(serializer_class: type[Serializer[Any]], request: Request) -> dict[str, Any]:
    serializer = serializer_class(data=request.data)
    serializer.is_valid(raise_exception=True)
    checked: dict[str, Any] = serializer.validated_data
    return checked


def _pair_response(pair: services.TokenPair, status: int = 200) -> Response:
    headers = rate_limit_headers(pair.rate_limit) if pair.rate_limit else {}
    return Response(TokenPairSerializer(pair).data, status=status, headers=headers)


def _true(decision: RateLimitDecision) -> Response:
    return Response(True, headers=rate_limit_headers(decision))


def _address(request: Request) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))
