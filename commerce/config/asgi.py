"""What the server runs: Django inside the wrapper that caps bodies, counts requests, names clients and drains."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")
django_application = get_asgi_application()

from commerce.attachments.body_cap import body_cap  # noqa: E402  settings come first
from shared.accounts.password_gate import PasswordGate  # noqa: E402
from shared.accounts.request_limits import count_request  # noqa: E402
from shared.serving.asgi import wrap  # noqa: E402
from shared.serving.kept_threads import KeptThreads  # noqa: E402

PASSWORD_PATHS = [  # at which anybody may have a password hashed
    "/admin/login/",
    "/admin/dashboard/sign-in/",
    "/api/token",
    "/api/register",
    "/api/forget-password",
    "/api/reset-password",
    "/api/accept-invitation",
]

gated = PasswordGate(django_application, paths=PASSWORD_PATHS)
application = wrap(KeptThreads(gated), limit=count_request, body_cap=body_cap)
