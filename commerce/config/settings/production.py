"""Settings for production: required values have no defaults, and only HTTPS is served."""

from django.core.exceptions import ImproperlyConfigured

from commerce.config.settings.base import *  # noqa: F403
from shared.environment import env
from shared.production import require_production_environment

require_production_environment()
if not env.str("STOA_EMAIL_URL"):
    raise ImproperlyConfigured(
        "STOA_EMAIL_URL must name a mail server in production, as in smtp+tls://user:password@mail.example:587: "
        "without one, password links would be printed to the log."
    )

for name in ("STOA_EMAIL_FROM", "STOA_STOREFRONT_URL"):
    if "localhost" in env.str(name):
        raise ImproperlyConfigured(f"{name} must be set in production: e-mails are sent from it or link to it.")

SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [
    r"^livez$",
    r"^readyz$",
    r"^metrics$",
    r"^health$",
]  # probes and Prometheus use the internal network without TLS
SECURE_HSTS_SECONDS = env.int("STOA_HSTS_SECONDS")
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = SECURE_HSTS_SECONDS > 0
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
