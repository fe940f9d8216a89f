"""What the server runs: Django inside the wrapper that caps bodies, names clients and drains."""

import os

from django.core.asgi import get_asgi_application

from shared.serving.asgi import wrap

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")

application = wrap(get_asgi_application())
