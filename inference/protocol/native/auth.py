"""POST /auth/login."""

from msgspec import Struct

from inference.protocol.native.body import RequestBody


class LoginRequest(RequestBody):
    """`username` is the e-mail address."""

    username: str
    password: str


class LoginUser(Struct):
    """Who signed in."""

    id: int
    username: str
    role: str


class LoginResponse(Struct):
    """A session. `token` and `access_token` are the same; `expires_at` is ISO 8601."""

    token: str
    access_token: str
    token_type: str
    expires_in: int
    expires_at: str
    refresh_token: str
    user: LoginUser
