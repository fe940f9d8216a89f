"""ASGI application: Django inside the middleware that limits bodies and requests and drains on shutdown."""

import os

from shared.serving.asgi.handler import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")
django_application = get_asgi_application()

from shared.accounts.middleware.body_limits import authenticated_body_limits  # noqa: E402  settings come first
from shared.accounts.middleware.password_concurrency import PasswordConcurrencyMiddleware  # noqa: E402
from shared.accounts.middleware.request_limits import limit_request  # noqa: E402
from shared.serving.asgi.threads import ThreadReuseMiddleware  # noqa: E402
from shared.serving.asgi.wrapper import wrap  # noqa: E402

PASSWORD_PATHS = [  # anonymous requests to these paths hash a password
    "/admin/login/",
    "/admin/dashboard/sign-in/",
    "/api/token",
    "/api/register",
    "/api/forget-password",
    "/api/reset-password",
    "/api/accept-invitation",
]

body_limit = authenticated_body_limits({("POST", "/api/attachments"): "MAX_UPLOAD_BYTES"})
password_limited = PasswordConcurrencyMiddleware(django_application, paths=PASSWORD_PATHS)
application = wrap(
    ThreadReuseMiddleware(password_limited), rate_limit=limit_request, body_limit=body_limit, slash_prefix="/api/"
)
