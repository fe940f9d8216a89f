"""The server's entry point: Django behind the wrapper that guards it."""

import os

from channels.routing import ProtocolTypeRouter

from shared.serving.asgi.handler import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.base")
django_application = get_asgi_application()

from django.conf import settings  # noqa: E402  settings come first

from inference.access.versioning import with_api_version  # noqa: E402
from inference.generation.routing import websocket_router  # noqa: E402
from inference.usage.request_limits import count_request  # noqa: E402
from shared.accounts.middleware.body_limits import authenticated_body_limits  # noqa: E402
from shared.accounts.middleware.password_concurrency import PasswordConcurrencyMiddleware  # noqa: E402
from shared.serving.asgi.threads import ThreadReuseMiddleware  # noqa: E402
from shared.serving.asgi.wrapper import wrap  # noqa: E402

body_limit = authenticated_body_limits(
    {
        ("POST", "/v1/files"): "MAX_UPLOAD_BYTES",
        ("POST", "/v1/uploads/[^/]+/parts"): "MAX_PART_BODY_BYTES",
        ("POST", "/batch"): "MAX_BATCH_BYTES",
    }
)
password_limited = PasswordConcurrencyMiddleware(django_application, paths=["/admin/login/"])
router = ProtocolTypeRouter({"http": ThreadReuseMiddleware(password_limited), "websocket": websocket_router})
application = with_api_version(
    wrap(router, rate_limit=count_request, body_limit=body_limit, max_websockets=settings.MAX_WEBSOCKETS)
)
