"""The shop's settings, complete and safe for one machine on loopback."""

from shared.environment import env
from shared.settings import *  # noqa: F403
from shared.settings import REST_FRAMEWORK, SHARED_APPS, SPECTACULAR_SETTINGS, VAR_DIR, VERSION

PROJECT = "commerce"
ROOT_URLCONF = "commerce.config.urls"
ASGI_APPLICATION = "commerce.config.asgi.application"

INSTALLED_APPS = [
    *SHARED_APPS,
    "django_filters",
    "commerce.shops",
    "commerce.catalog",
    "commerce.orders",
    "commerce.reviews",
    "commerce.addresses",
    "commerce.attachments",
    "commerce.attributes",
    "commerce.moderation",
    "commerce.descriptions",
    "commerce.demo",
]

# Cookies ignore ports: names of our own, so that the two projects' admins do not sign each other out.
SESSION_COOKIE_NAME = "stoa_commerce_session"
CSRF_COOKIE_NAME = "stoa_commerce_csrf"

REST_FRAMEWORK = REST_FRAMEWORK | {
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%S.%fZ",  # as the shop's clients know it
    "DEFAULT_FILTER_BACKENDS": ["shared.api.listing.ListQueryBackend"],
}
API_ERROR_BODY = "commerce.config.errors.error_body"
STATIC_ROOT = VAR_DIR / "commerce-static"

SPECTACULAR_SETTINGS = SPECTACULAR_SETTINGS | {
    "TITLE": "Stoa commerce",
    "VERSION": "1.0.0",
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "commerce.config.schema.add_errors"],
}

# What prices are in unless their product says otherwise: ISO 4217.
CURRENCY = env.str("STOA_CURRENCY", default="EUR")
# On every order: its tax, in hundredths of a percent of what is taxable (1900 is 19 %), and what its delivery costs, in
# minor units of the order's currency.
TAX_RATE = env.int("STOA_TAX_RATE", default=0)
DELIVERY_FEE = env.int("STOA_DELIVERY_FEE", default=0)

# A minute and a user; requests are counted by address where nobody is signed in.
REQUEST_LIMIT = env.int("STOA_REQUEST_LIMIT", default=600)
CONTENT_WRITE_LIMIT = env.int("STOA_CONTENT_WRITE_LIMIT", default=5)
UPLOAD_LIMIT = env.int("STOA_UPLOAD_LIMIT", default=10)
DELETE_LIMIT = env.int("STOA_DELETE_LIMIT", default=10)

# Any OpenAI-compatible server; the default is Stoa's own inference service with its built-in model.
DESCRIPTIONS_BASE_URL = env.str("STOA_DESCRIPTIONS_BASE_URL", default="http://127.0.0.1:8001/v1")
DESCRIPTIONS_API_KEY = env.str("STOA_DESCRIPTIONS_API_KEY", default="")
DESCRIPTIONS_MODEL = env.str("STOA_DESCRIPTIONS_MODEL", default="stoa-describer")

UNFOLD = {"SITE_TITLE": "Stoa commerce", "SITE_HEADER": "Stoa commerce", "SITE_SUBHEADER": f"Version {VERSION}"}
