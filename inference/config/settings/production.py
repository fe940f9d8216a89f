"""Settings for production: required values have no defaults, and only HTTPS is served."""

from inference.config.settings.base import *  # noqa: F403
from shared.environment import env
from shared.production import require_production_environment

require_production_environment()

SECURE_SSL_REDIRECT = env.bool("STOA_REQUIRE_HTTPS")
SECURE_REDIRECT_EXEMPT = [
    r"^livez$",
    r"^readyz$",
    r"^metrics$",
    r"^health$",
]  # from inside, without TLS
SECURE_HSTS_SECONDS = env.int("STOA_HSTS_SECONDS")
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = SECURE_HSTS_SECONDS > 0
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
