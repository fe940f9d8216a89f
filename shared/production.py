"""Checks of the environment that a production server requires."""

from django.core.exceptions import ImproperlyConfigured

from shared.environment import env
from shared.secret_files import can_be_guessed

MIN_KEY_LENGTH = 50


def require_production_environment() -> None:
    """Raise ImproperlyConfigured unless keys, hosts and database are set and safe, and debugging is off."""
    for name in ("SECRET_KEY", "STOA_JWT_KEY"):
        key = env.str(name)
        if len(key) < MIN_KEY_LENGTH or can_be_guessed(key):
            raise ImproperlyConfigured(
                f"{name} must be set to at least {MIN_KEY_LENGTH} random characters in production: "
                "python -c 'import secrets; print(secrets.token_urlsafe(48))' makes one."
            )
    for name in ("STOA_SECRET_KEY_FALLBACKS", "STOA_JWT_KEY_FALLBACKS"):
        if any(len(key) < MIN_KEY_LENGTH or can_be_guessed(key) for key in env.list(name)):
            raise ImproperlyConfigured(
                f"{name} has a key that can be guessed: take it out, it opens what a real one does."
            )
    if env.str("SECRET_KEY") == env.str("STOA_JWT_KEY"):
        raise ImproperlyConfigured("SECRET_KEY and STOA_JWT_KEY must differ: one signs sessions, the other tokens.")
    if not env.str("DATABASE_URL"):
        raise ImproperlyConfigured(
            "DATABASE_URL must be set in production, for example postgres://user:password@host/stoa."
        )
    hosts = env.list("STOA_ALLOWED_HOSTS")
    if not hosts or "*" in hosts:
        raise ImproperlyConfigured(
            "STOA_ALLOWED_HOSTS must list the host names that are served in production, without *."
        )
    if env.bool("STOA_DEBUG"):
        raise ImproperlyConfigured("STOA_DEBUG must be off in production: its pages show settings and code.")
