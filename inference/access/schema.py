"""OpenAPI texts and examples of signing in."""

from inference.access.docs import OperationDocs

LOGIN = OperationDocs(
    summary="Sign in",
    description="""
    Exchanges an e-mail address and a password for an access token and a refresh token. Anybody may call it. It answers
    401 with the same message for an unknown address, a wrong password and a disabled user, and 429 after too many
    failed attempts. Programs should use an API key instead, which an administrator creates.
    """,
    request_examples={
        "E-mail and password": {"username": "admin@example.com", "password": "a lamp for every room"},
    },
    response_example={
        "token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "access_token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "token_type": "bearer",
        "expires_in": 900,
        "expires_at": "2026-11-21T18:15:00Z",
        "refresh_token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.cmVmcmVzaA",
        "user": {"id": 1, "username": "admin@example.com", "role": "SUPER_ADMIN"},
    },
)
