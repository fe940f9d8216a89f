"""Settings for production: required values have no defaults, and only HTTPS is served."""

from inference.config.settings.base import *  # noqa: F403
from shared.production import require_production_environment

require_production_environment()

SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$"]  # probes and Prometheus come from inside, without TLS
SECURE_HSTS_SECONDS = 365 * 24 * 3600
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
