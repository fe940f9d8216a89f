"""OpenAPI descriptions of the account routes and of the authentication."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_view

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

TAGS = ["Accounts"]
PASSWORD_CHANGED: dict[str, Any] = {
    "oneOf": [
        {"type": "boolean"},
        {
            "type": "object",
            "properties": {
                "success": {"type": "boolean", "description": "`true`.", "example": True},
                "message": {
                    "type": "string",
                    "description": "What has happened.",
                    "example": "Your password has been changed.",
                },
            },
            "required": ["success", "message"],
            "description": "Response to `oldPassword` and `newPassword`.",
        },
    ]
}


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """OpenAPI security scheme of `Authorization: Bearer` with an access token or an API key."""

    target_class = "shared.accounts.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An access token, or an API key (stoa_...)."}


describe_sign_in = extend_schema_view(
    post=extend_schema(
        operation_id="sign_in",
        tags=TAGS,
        summary="Sign in",
        description="Returns an access token and a refresh token for an e-mail address and a password. No "
        "credentials are needed. Returns 401 for a wrong pair, known address or not, and 429 after ten attempts a "
        "minute from one address or for one account.",
        request=CredentialsSerializer,
        responses=TokenPairSerializer,
    )
)
describe_refresh = extend_schema_view(
    post=extend_schema(
        operation_id="refresh_tokens",
        tags=TAGS,
        summary="Refresh the tokens",
        description="Returns a new pair of tokens for a refresh token, which works once. Using it again later ends "
        "the sign-in with all its tokens. No credentials are needed. Returns 401 for a token that is wrong, used or "
        "expired.",
        request=RefreshSerializer,
        responses=TokenPairSerializer,
    )
)
describe_register = extend_schema_view(
    post=extend_schema(
        operation_id="register",
        tags=TAGS,
        summary="Register an account",
        description="Creates a customer or a store owner, signs them in and returns their tokens. A link to confirm "
        "the address is sent by e-mail. No credentials are needed. Returns 422 for an address that has an account "
        "and for a weak password, and 403 for any other role and where nobody can register. A server whose users "
        "confirm their address before they sign in returns 202 and `true` instead, also for an address that has an "
        "account.",
        request=RegistrationSerializer,
        responses={
            201: TokenPairSerializer,
            202: OpenApiResponse(OpenApiTypes.BOOL, examples=[OpenApiExample("Registered", value=True)]),
        },
    )
)
describe_sign_out = extend_schema_view(
    post=extend_schema(
        operation_id="sign_out",
        tags=TAGS,
        summary="Sign out",
        description="Ends this sign-in and returns `true`: its access and refresh tokens are refused from the next "
        "request. Any signed-in user may call this.",
        request=LogoutSerializer,
        responses=OpenApiTypes.BOOL,
    )
)
describe_sessions = extend_schema_view(
    get=extend_schema(
        operation_id="list_sessions",
        tags=TAGS,
        summary="List your sign-ins",
        description="Returns your sign-ins whose tokens are valid, the last refreshed first, at most 100. Any "
        "signed-in user may call this.",
        responses=SessionSerializer(many=True),
    )
)
describe_end_session = extend_schema_view(
    delete=extend_schema(
        operation_id="end_session",
        tags=TAGS,
        summary="End a sign-in",
        description="Ends one of your sign-ins, such as that of a lost device, and returns `true`: its tokens are "
        "refused from the next request. Any signed-in user may call this. Returns 404 for an id that is not one of "
        "your sign-ins and for one that has ended.",
        request=None,
        responses=OpenApiTypes.BOOL,
    )
)
describe_change_password = extend_schema_view(
    post=extend_schema(
        operation_id="change_password",
        tags=TAGS,
        summary="Change your password",
        description="Sets a new password and returns `true`, or an object with `success` for `oldPassword` and "
        "`newPassword`. All earlier tokens, including the one of this request, are refused from the next request, so "
        "sign in again. Any signed-in user may call this. Returns 422 for a wrong old or a weak new password, and 429 "
        "after ten attempts a minute.",
        request=ChangePasswordSerializer,
        responses={200: PASSWORD_CHANGED},
    )
)
describe_forget_password = extend_schema_view(
    post=extend_schema(
        operation_id="forget_password",
        tags=TAGS,
        summary="Request a password reset",
        description="Sends a link to choose a new password, which works once within an hour, and returns `true`. The "
        "response does not tell whether the address has an account. No credentials are needed.",
        request=ForgetPasswordSerializer,
        responses=OpenApiTypes.BOOL,
    )
)
describe_reset_password = extend_schema_view(
    post=extend_schema(
        operation_id="reset_password",
        tags=TAGS,
        summary="Set a new password",
        description="Sets a new password by the token of a password link and returns `true`. All earlier tokens of "
        "the user are refused. No credentials are needed. Returns 422 for a token that is wrong, used or expired, "
        "and for a weak password, which leaves the token valid.",
        request=ResetPasswordSerializer,
        responses=OpenApiTypes.BOOL,
    )
)
describe_verify_email = extend_schema_view(
    post=extend_schema(
        operation_id="verify_email",
        tags=TAGS,
        summary="Confirm an e-mail address",
        description="Confirms the e-mail address by the token of the link that was sent there, and returns `true`. No "
        "credentials are needed. Returns 422 for a token that is wrong, used or older than three days.",
        request=LinkSerializer,
        responses=OpenApiTypes.BOOL,
    )
)
