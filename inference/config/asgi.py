"""The server's entry point: Django behind the wrapper that guards it."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.base")
django_application = get_asgi_application()

from django.conf import settings  # noqa: E402  settings come first

from inference.access.versioning import with_api_version  # noqa: E402
from inference.generation.routing import websockets  # noqa: E402
from inference.usage.door import count_request  # noqa: E402
from shared.accounts.large_bodies import larger_bodies  # noqa: E402
from shared.accounts.password_gate import PasswordGate  # noqa: E402
from shared.serving.asgi import wrap  # noqa: E402
from shared.serving.kept_threads import KeptThreads  # noqa: E402
from shared.serving.sockets import Sockets  # noqa: E402

sockets = Sockets(websockets, most=settings.SOCKETS)
gated = PasswordGate(django_application, paths=["/admin/login/"])
body_cap = larger_bodies({("POST", "/v1/files"): "MAX_UPLOAD_BYTES", ("POST", "/batch"): "MAX_BATCH_BYTES"})
application = with_api_version(wrap(KeptThreads(gated), limit=count_request, body_cap=body_cap, sockets=sockets))
