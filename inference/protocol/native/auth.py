"""Wire structs of POST /auth/login."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.protocol.native.body import RequestBody

EmailAddress = Annotated[str, Meta(description="E-mail address of the user.", examples=["admin@example.com"])]
UserRole = Annotated[str, Meta(description="Role of the user.", examples=["SUPER_ADMIN"])]
UserId = Annotated[int, Meta(description="Id of the user.", examples=[1])]


class LoginRequest(RequestBody):
    """Credentials of a user."""

    username: EmailAddress
    password: Annotated[str, Meta(description="Password of the user.", examples=["a lamp for every room"])]
    otp: Annotated[
        str,
        Meta(
            description="Code of the authenticator app, or a recovery code, for users with a second factor.",
            max_length=64,
            examples=["492039"],
        ),
    ] = ""


class LoginUser(Struct):
    """The user who signed in."""

    id: UserId
    username: EmailAddress
    role: UserRole


class LoginResponse(Struct):
    """Tokens of a session."""

    token: Annotated[str, Meta(description="Access token; the same as `access_token`.")]
    access_token: Annotated[str, Meta(description="Access token for the Authorization header.")]
    token_type: Annotated[str, Meta(description="Always `bearer`.", examples=["bearer"])]
    expires_in: Annotated[int, Meta(description="Seconds until the access token expires.", examples=[900])]
    expires_at: Annotated[
        str, Meta(description="Time at which the access token expires, in ISO 8601.", examples=["2026-11-21T18:15:00Z"])
    ]
    refresh_token: Annotated[str, Meta(description="Token for a new pair of tokens. It works once.")]
    user: Annotated[LoginUser, Meta(description="User who signed in.")]
