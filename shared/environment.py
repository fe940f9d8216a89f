"""The names that Stoa reads from its environment. Settings read them through `env`; a misspelt one is refused."""

import os
import re
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

NO_BOOLEANS = ("n", "no", "off", "false", "0", "")


class Environment(environ.Env):
    """Refuses a value that cannot be what it is read as. Values may be secrets: the name alone is told."""

    def get_value(self, var: str, cast: Any = None, *rest: Any, **options: Any) -> Any:
        text = os.environ.get(var, "").lower()
        if cast is bool and text not in (*self.BOOLEAN_TRUE_STRINGS, *NO_BOOLEANS):
            raise ImproperlyConfigured(f"{var} is neither true nor false.")
        try:
            return super().get_value(var, cast, *rest, **options)
        except ValueError as error:
            raise ImproperlyConfigured(f"{var} is no {'number' if cast in (int, float) else 'such value'}.") from error


env = Environment()

# What the environment itself does not say is taken from a file `.env` in $STOA_HOME, or where it was started.
_ENV_FILE = Path(os.environ.get("STOA_HOME", os.getcwd())) / ".env"
if _ENV_FILE.is_file():
    environ.Env.read_env(_ENV_FILE)

# Every name of both projects: one machine often carries one environment file for both.
KNOWN_STOA_NAMES = frozenset(
    {
        "STOA_ADDRESS_REQUEST_LIMIT",
        "STOA_ALLOWED_HOSTS",
        "STOA_AUTOLOAD",
        "STOA_ANALYTICS_TIME_ZONE",
        "STOA_BATCHES_PER_USER",
        "STOA_BATCH_KEEP_DAYS",
        "STOA_BATCH_REQUESTS",
        "STOA_CLAMD",
        "STOA_CONTENT_WRITE_LIMIT",
        "STOA_COMPILED_DIR",
        "STOA_CORS_ORIGINS",
        "STOA_CURRENCY",
        "STOA_DEBUG",
        "STOA_DELETE_LIMIT",
        "STOA_DELIVERY_FEE",
        "STOA_DESCRIPTIONS_API_KEY",
        "STOA_DESCRIPTIONS_A_DAY",
        "STOA_DESCRIPTIONS_BASE_URL",
        "STOA_DESCRIPTIONS_MODEL",
        "STOA_DESCRIPTIONS_WEBHOOK_SECRET",
        "STOA_EMAIL_FROM",
        "STOA_EMAIL_LIMIT",
        "STOA_EMAIL_LINKS",
        "STOA_EMAIL_URL",
        "STOA_EVICT",
        "STOA_FILES_BUCKET",
        "STOA_FILES_DIR",
        "STOA_FILES_PER_USER",
        "STOA_HOME",
        "STOA_IDLE_UNLOAD",
        "STOA_JWT_KEY",
        "STOA_KEY_CONCURRENCY_LIMIT",
        "STOA_KEY_REQUEST_LIMIT",
        "STOA_KEY_TOKEN_LIMIT",
        "STOA_LOAD",
        "STOA_LOGIN_LIMIT",
        "STOA_LOG_FORMAT",
        "STOA_LOG_LEVEL",
        "STOA_MAX_BATCH_BYTES",
        "STOA_MAX_BODY_BYTES",
        "STOA_MAX_FILE_BYTES",
        "STOA_MAX_LOADED",
        "STOA_MEDIA_ROOT",
        "STOA_MEMORY_BUDGET",
        "STOA_METRICS_DIR",
        "STOA_METRICS_PUBLIC",
        "STOA_MODELS_DIR",
        "STOA_MODERATION_APPEAL_DAYS",
        "STOA_MODERATION_AUTO_HIDE_AFTER",
        "STOA_MODERATION_UNDO_MINUTES",
        "STOA_REMOTE_MODELS",
        "STOA_REQUEST_LIMIT",
        "STOA_RUN_DIR",
        "STOA_S3_ACCESS_KEY",
        "STOA_S3_BUCKET",
        "STOA_S3_ENDPOINT",
        "STOA_S3_PUBLIC_URL",
        "STOA_S3_REGION",
        "STOA_S3_SECRET_KEY",
        "STOA_SECRET_KEY_FALLBACKS",
        "STOA_SOCKETS",
        "STOA_SOCKETS_PER_USER",
        "STOA_START_HOST",
        "STOA_STORAGE",
        "STOA_TAX_RATE",
        "STOA_TRACE_SPANS",
        "STOA_TRUSTED_PROXIES",
        "STOA_UPLOAD_LIMIT",
        "STOA_WEBHOOK_ALLOW",
        "STOA_USER_CONCURRENCY_LIMIT",
        "STOA_USER_REQUEST_LIMIT",
        "STOA_USER_TOKEN_LIMIT",
    }
)


def refuse_unknown_names() -> None:
    """Raise ImproperlyConfigured for a STOA_ name that nobody reads: it is a misspelling."""
    unknown = sorted(name for name in os.environ if name.startswith("STOA_") and name not in KNOWN_STOA_NAMES)
    if unknown:
        known = ", ".join(sorted(KNOWN_STOA_NAMES))
        raise ImproperlyConfigured(f"Unknown settings {', '.join(unknown)}: check the spelling. Known are: {known}.")


def byte_count(name: str) -> int | None:
    """A number of bytes, as in 2000000000, 2GB or 2GiB; None where nothing is said."""
    text = str(env.str(name, default="")).strip()
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([kMGT])(i?)B)?", text)
    if not text:
        return None
    if match is None:
        raise ImproperlyConfigured(f"{name} is {text!r}: give bytes, as in 2000000000, 2GB or 2GiB.")
    number, unit, binary = match.groups()
    factor: int = (1024 if binary else 1000) ** ("kMGT".index(unit) + 1 if unit else 0)
    return round(float(number) * factor)


def var_dir() -> Path:
    """Where this machine's data lives (databases, keys, sockets): `$STOA_HOME/var`, or `var` where it was started."""
    path = Path(env.str("STOA_HOME", default=os.getcwd())).resolve() / "var"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:  # it holds keys and the database: nobody else's, whoever made the folder
        path.chmod(0o700)
    return path
