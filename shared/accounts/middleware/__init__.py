"""Middleware that depends on the user.

* `idempotency`: Django middleware for the `Idempotency-Key` header.
* `request_limits`, `body_limits`, `password_concurrency`: ASGI, before Django sees the request.
* `connections`: registry of the open WebSockets of a process; closes them when their credential is revoked.
"""
