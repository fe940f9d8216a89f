"""Django settings that both projects share, complete and safe for one machine on the loopback interface.

Each project's `base.py` starts from these. The two are the only modules that read the environment; `production`
requires more of it.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from corsheaders.defaults import default_headers
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy

from shared.environment import (
    database,
    env,
    is_development,
    load_env_file,
    mail_server,
    refuse_unknown_names,
    replica_databases,
    run_dir,
    var_dir,
)
from shared.observability.collector import collector
from shared.observability.logging import logging_config
from shared.secret_files import read_or_make_secret
from shared.serving.processes.broker import demo_redis_url

load_env_file()
refuse_unknown_names()

VAR_DIR = var_dir()
VERSION = "1.0.0"

DEBUG = env.bool("STOA_DEBUG")
SECRET_KEY = env.str("SECRET_KEY") or read_or_make_secret(VAR_DIR / "secret.key")
# Former keys: what they signed or encrypted can still be read.
SECRET_KEY_FALLBACKS: list[str] = env.list("STOA_SECRET_KEY_FALLBACKS")
JWT_KEY_FALLBACKS: list[str] = env.list("STOA_JWT_KEY_FALLBACKS")
ALLOWED_HOSTS: list[str] = env.list("STOA_ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]
APPEND_SLASH = False

SHARED_APPS = [
    "shared.pages",  # before the theme, to whose pages it adds landmarks
    "unfold",  # before the admin, whose templates it replaces
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "corsheaders",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "shared.accounts",
    "shared.api",
    "shared.audit",
    "shared.serving",
]

# Role -> labels of the apps whose admin pages it may view.
ROLE_ADMIN_APPS: dict[str, list[str]] = {}

MIDDLEWARE = [
    "shared.observability.request_id.RequestIdMiddleware",
    "corsheaders.middleware.CorsMiddleware",  # before errors become JSON, so that those have its headers too
    "shared.api.middleware.errors.JsonErrorsMiddleware",  # early, to format the errors of the others
    "django.middleware.security.SecurityMiddleware",
    "shared.serving.files.static_files.StaticFilesMiddleware",
    "shared.api.middleware.pages.PageSessionMiddleware",
    "shared.api.middleware.pages.AsyncCommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "shared.api.middleware.pages.PageAuthenticationMiddleware",
    "shared.api.middleware.pages.PageMessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# One database for both projects unless DATABASE_URL says otherwise for one of them.
DATABASE_URL = env.str("DATABASE_URL") or f"sqlite:///{quote(str(VAR_DIR / 'stoa.sqlite3'))}"
DATABASES: dict[str, Any] = {"default": database(DATABASE_URL)}
DATABASES["default"]["CONN_MAX_AGE"] = 0  # under ASGI a persistent connection leaks; PostgreSQL has a pool
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["ENGINE"] = "shared.sqlite"
    # A request's thread keeps its connection for the next one: to open it costs as much as a list of ten rows.
    DATABASES["default"]["CONN_MAX_AGE"] = 300
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",  # take the write lock at once: no "database is locked" half-way
        "timeout": 8,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    }
else:
    # Without these, TCP waits 15 minutes for a server whose machine or network has failed.
    vanished = {
        "connect_timeout": 5,
        "tcp_user_timeout": 10_000,  # milliseconds
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    pool = {"min_size": 1, "max_size": 10, "timeout": 10}
    given = DATABASES["default"].get("OPTIONS", {})  # as in ?sslmode=...
    DATABASES["default"]["OPTIONS"] = vanished | given | {"pool": pool}
REPLICA_MAX_LAG_SECONDS = env.float("STOA_REPLICA_MAX_LAG_SECONDS")
DATABASE_ROUTERS: list[str] = []
if replica_urls := env.list("STOA_REPLICA_URLS"):
    if DATABASES["default"]["ENGINE"] != "django.db.backends.postgresql":
        raise ImproperlyConfigured("STOA_REPLICA_URLS needs a DATABASE_URL of PostgreSQL.")
    if not env.str("REDIS_URL"):
        raise ImproperlyConfigured(
            "STOA_REPLICA_URLS needs REDIS_URL, so that all processes know who has just written."
        )
    DATABASES |= replica_databases(replica_urls, DATABASES["default"])
    DATABASE_ROUTERS = ["shared.replicas.ReplicaRouter"]
    MIDDLEWARE.insert(1, "shared.replicas.ReplicaMiddleware")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Redis or Valkey server for limits of all processes together. Empty: each process counts for itself. In development,
# what runs beside the demo, as in another terminal, uses the demo's.
REDIS_URL = env.str("REDIS_URL")
if "REDIS_URL" not in os.environ and is_development():
    REDIS_URL = demo_redis_url(run_dir(VAR_DIR))

# Tasks that the server runs itself, with their interval in seconds.
SERVER_PERIODIC_TASKS: dict[str, float] = {}

AUDIT_RETENTION = timedelta(days=env.int("STOA_AUDIT_RETENTION_DAYS"))

LOGIN_REDIRECT_URL = "admin:index"
AUTH_USER_MODEL = "accounts.User"
PASSWORD_HASHERS = [
    "shared.accounts.passwords.SingleCoreArgon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 8}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AUTHENTICATION_BACKENDS = ["shared.accounts.backends.LimitedBackend"]  # Django's own sign-in, to the admin
# The admin shows a new API key in a message: a cookie of that browser, never a row of the session table.
UNFOLD_ACCOUNT = {  # the menu of whoever is signed in to the admin
    "navigation": [
        {"title": gettext_lazy("Second factor"), "link": reverse_lazy("admin:accounts_user_second_factor")},
        {"title": gettext_lazy("Change password"), "link": reverse_lazy("admin:password_change")},
    ]
}
UNFOLD_STYLES: list[Callable[[HttpRequest], str]] = [lambda request: static("pages/admin.css")]
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
SIMPLE_JWT: dict[str, Any] = {
    "SIGNING_KEY": env.str("STOA_JWT_KEY") or read_or_make_secret(VAR_DIR / "jwt.key"),
    "ALGORITHM": "HS256",
    "ISSUER": "stoa",
    "AUDIENCE": "stoa",
    "USER_ID_CLAIM": "sub",
    "TOKEN_TYPE_CLAIM": "kind",
    "ACCESS_TOKEN_LIFETIME": timedelta(seconds=env.int("STOA_ACCESS_TOKEN_LIFETIME")),
    "REFRESH_TOKEN_LIFETIME": timedelta(seconds=env.int("STOA_REFRESH_TOKEN_LIFETIME")),
    "AUTH_TOKEN_CLASSES": ["shared.accounts.tokens.AccessToken"],
}
# E-mails are printed unless STOA_EMAIL_URL names a mail server.
globals().update(mail_server(env.str("STOA_EMAIL_URL") or "consolemail://"))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.str("STOA_EMAIL_FROM")
# URL of the storefront, whose pages /reset-password, /verify-email and /join receive a `token` and send it to the API.
STOREFRONT_URL = env.str("STOA_STOREFRONT_URL")
# URLs by which browsers reach the two servers. Each server's pages link those of the other one.
SHOP_PUBLIC_URL = env.str("STOA_SHOP_PUBLIC_URL")
MODEL_SERVER_PUBLIC_URL = env.str("STOA_MODEL_SERVER_PUBLIC_URL")
# E-mails per hour to one address.
EMAIL_LIMIT = env.int("STOA_EMAILS_PER_HOUR")
# Who may register, and what users who registered themselves may do at the model server.
REGISTRATION = env.str("STOA_REGISTRATION")
REGISTERED_MAY_RUN_INFERENCE = env.bool("STOA_REGISTERED_MAY_RUN_INFERENCE")
REGISTERED_MONTHLY_TOKEN_LIMIT = env.int("STOA_REGISTERED_MONTHLY_TOKEN_LIMIT")
# Sign-in attempts per minute, from one IP address and for one account.
LOGIN_LIMIT = env.int("STOA_LOGINS_PER_MINUTE")
REQUIRE_SECOND_FACTOR = env.bool("STOA_REQUIRE_SECOND_FACTOR")
if REQUIRE_SECOND_FACTOR:
    MIDDLEWARE.append("shared.accounts.middleware.second_factor.RequireSecondFactorMiddleware")
# Requests per minute. In the shop, per user, or per IP address without a user; in the model server, per IP address that
# reads its pages.
REQUEST_LIMIT = env.int("STOA_REQUESTS_PER_MINUTE")

# ISO 4217 currency of prices whose product names none.
CURRENCY = env.str("STOA_CURRENCY")

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["shared.accounts.authentication.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["shared.api.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["shared.api.renderers.FastJSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "shared.api.lists.schema.ListAutoSchema",
    "EXCEPTION_HANDLER": "shared.api.exception_handler.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "PATH_CONVERTER_OVERRIDES": {
        "id": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 2**63 - 1},
        "slug_or_id": {"type": "string", "minLength": 1, "maxLength": 255},
    },
}

# Maximum size of a request body, and number of proxies whose forwarding headers are trusted.
MAX_BODY_BYTES = env.bytes("STOA_MAX_BODY_BYTES")
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES  # the ASGI wrapper enforces the limit
TRUSTED_PROXY_COUNT = env.int("STOA_TRUSTED_PROXY_COUNT")
# Size of the responses stored for the Idempotency-Keys of one user.
MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER = env.bytes("STOA_MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER")
CORS_ALLOWED_ORIGINS = env.list("STOA_CORS_ORIGINS")
# OpenAI's and Anthropic's clients send the `x-stainless` headers with every request.
CORS_ALLOW_HEADERS = [
    *default_headers, "anthropic-beta", "anthropic-dangerous-direct-browser-access", "anthropic-version",
    "api-version", "idempotency-key", "last-event-id", "mcp-method", "mcp-name",
    "mcp-protocol-version", "traceparent", "tracestate", "x-api-key",
    "x-request-id", "x-stainless-arch", "x-stainless-helper-method", "x-stainless-lang", "x-stainless-os",
    "x-stainless-package-version", "x-stainless-retry-count", "x-stainless-runtime", "x-stainless-runtime-version",
    "x-stainless-timeout",
]  # fmt: skip
CORS_EXPOSE_HEADERS = [
    "API-Version", "Idempotent-Replayed", "Link", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining",
    "X-RateLimit-Reset", "X-RateLimit-Reset-After", "X-Request-Id", "X-Should-Retry", "X-Total-Count", "Warnings",
]  # fmt: skip

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English")]
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "shared.serving.files.static_files.StaticFilesStorage"},
}
WHITENOISE_ROOT = Path(__file__).parent / "serving" / "root_files"  # /favicon.ico, which browsers request on their own

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"

# Folder in which the processes of this machine share their metrics, and whether anybody may read them.
METRICS_DIR = Path(env.str("STOA_METRICS_DIR") or VAR_DIR / "metrics")
METRICS_PUBLIC = env.bool("STOA_METRICS_PUBLIC")

# OpenTelemetry's own variables say where traces are sent. Its library reads the rest itself: sampling
# (OTEL_TRACES_SAMPLER), headers and timeouts. A project may store traces as well.
TRACING = not env.bool("OTEL_SDK_DISABLED")
TRACING_SERVICE = env.str("OTEL_SERVICE_NAME")
TRACING_COLLECTOR = collector(env)
TRACE_STORE = ""

LOG_FORMAT = env.str("STOA_LOG_FORMAT")
LOG_LEVEL = env.str("STOA_LOG_LEVEL")
LOGGING_CONFIG = "shared.observability.logging.configure_logging"
LOGGING = logging_config(level=LOG_LEVEL, form=LOG_FORMAT)
