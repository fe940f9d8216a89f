"""The server's entry point: Django behind the wrapper that guards it."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.base")
django_application = get_asgi_application()

from django.conf import settings  # noqa: E402  settings come first

from inference.access.versioning import with_api_version  # noqa: E402
from inference.generation.routing import websockets  # noqa: E402
from shared.accounts.password_gate import PasswordGate  # noqa: E402
from shared.serving.asgi import wrap  # noqa: E402
from shared.serving.sockets import Sockets  # noqa: E402

sockets = Sockets(websockets, most=settings.SOCKETS)
application = with_api_version(wrap(PasswordGate(django_application, paths=["/admin/login/"]), sockets=sockets))
