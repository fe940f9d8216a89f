"""The shop's settings, complete and safe for one machine on loopback."""

from datetime import timedelta

from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static

from commerce.config.settings.s3 import s3_storage
from commerce.config.settings.webhook_secrets import webhook_secret
from commerce.config.settings.zones import time_zone
from shared.environment import env
from shared.serving.broker import broker_url, queue_type, transport_options
from shared.settings import *  # noqa: F403
from shared.settings import (
    DATABASES,
    MIDDLEWARE,
    REDIS_URL,
    REST_FRAMEWORK,
    SHARED_APPS,
    SPECTACULAR_SETTINGS,
    STORAGES,
    VAR_DIR,
    VERSION,
)

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
    "commerce.analytics",
    "commerce.descriptions",
    "commerce.demo",
]

MIDDLEWARE = [
    *MIDDLEWARE,
    "shared.api.page_middleware.LocaleMiddleware",
    "shared.api.idempotent_requests.IdempotencyMiddleware",  # last: the view runs inside it
]
LANGUAGES = [("en", "English"), ("de", "Deutsch")]  # of the admin's pages

if DATABASES["default"]["ENGINE"] == "shared.sqlite":
    # What an INSERT OR REPLACE replaces is deleted, and counted as such by the triggers of the figures.
    DATABASES["default"]["OPTIONS"]["init_command"] += " PRAGMA recursive_triggers=ON;"

# Cookies ignore ports: names of our own, so that the two projects' admins do not sign each other out.
SESSION_COOKIE_NAME = "stoa_commerce_session"
CSRF_COOKIE_NAME = "stoa_commerce_csrf"

REST_FRAMEWORK = REST_FRAMEWORK | {
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%S.%fZ",  # as the shop's clients know it
    "DEFAULT_SCHEMA_CLASS": "commerce.config.auto_schema.ShopSchema",
    "DEFAULT_PERMISSION_CLASSES": ["shared.accounts.permissions.SignedIn"],  # not keys with a few named permissions
    "DEFAULT_FILTER_BACKENDS": ["shared.api.listing.ListQueryBackend"],
}
API_ERROR_BODY = "commerce.config.errors.error_body"
STATIC_ROOT = VAR_DIR / "commerce-static"

SPECTACULAR_SETTINGS = SPECTACULAR_SETTINGS | {
    "SCHEMA_PATH_PREFIX": "/api",  # whatever else is served beside it
    "TITLE": "Stoa commerce",
    "VERSION": "1.0.0",
    "ENUM_NAME_OVERRIDES": {
        "ProductStatus": "commerce.catalog.models.Product.Status",
        "ProductKind": "commerce.catalog.models.Product.Kind",
        "DescriptionDraftState": "commerce.descriptions.models.DescriptionDraft.State",
        "DescriptionJobState": "commerce.descriptions.models.DescriptionJob.State",
        "DescriptionJobItemState": "commerce.descriptions.models.JobItem.State",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "commerce.config.schema.add_errors",
        "commerce.config.examples.add_examples",
    ],
}

# On every order: its tax, in hundredths of a percent of what is taxable (1900 is 19 %), and what its delivery costs, in
# minor units of the order's currency.
TAX_RATE = env.int("STOA_TAX_RATE")
DELIVERY_FEE = env.int("STOA_DELIVERY_FEE")

# In which zone the days and months of the figures begin; a change makes them anew.
ANALYTICS_TIME_ZONE = time_zone(env, "STOA_ANALYTICS_TIME_ZONE")

# A minute and a user.
CONTENT_WRITE_LIMIT = env.int("STOA_CONTENT_WRITE_LIMIT")
UPLOAD_LIMIT = env.int("STOA_UPLOAD_LIMIT")
DELETE_LIMIT = env.int("STOA_DELETE_LIMIT")

# How many trusted people must report something before it is hidden on its own (0: never), how long a decision can be
# undone, and how long an author may appeal once they are told.
MODERATION_AUTO_HIDE_AFTER = env.int("STOA_MODERATION_AUTO_HIDE_AFTER")
MODERATION_UNDO_WINDOW = timedelta(minutes=env.int("STOA_MODERATION_UNDO_MINUTES"))
MODERATION_APPEAL_WINDOW = timedelta(days=env.int("STOA_MODERATION_APPEAL_DAYS"))

# The files of attachments: in a folder of this machine, or in an S3 bucket.
STORAGE = env.str("STOA_STORAGE")
MEDIA_ROOT = env.str("STOA_MEDIA_ROOT") or VAR_DIR / "media"
MEDIA_URL = "/media/"
if STORAGE == "s3":
    S3_PUBLIC_URL = env.str("STOA_S3_PUBLIC_URL")  # where the bucket is read by anybody, such as a CDN
    MEDIA_URL = f"{S3_PUBLIC_URL.rstrip('/')}/" if S3_PUBLIC_URL else MEDIA_URL
    STORAGES = STORAGES | {"default": s3_storage(env)}
elif STORAGE == "files":
    # What is written again is what an earlier try left half done; no two attachments share a folder.
    file_options = {"allow_overwrite": True}
    STORAGES = STORAGES | {"default": STORAGES["default"] | {"OPTIONS": file_options}}
else:
    raise ImproperlyConfigured(f"STOA_STORAGE is {STORAGE!r}: set it to files or s3.")
FILE_UPLOAD_HANDLERS = ["shared.api.upload_handler.NamelessUploadHandler"]  # never in memory
DATA_UPLOAD_MAX_NUMBER_FILES = 50
CLAMD = env.str("STOA_CLAMD")  # tcp://host:3310 or unix:///run/clamav/clamd.ctl; empty: no scan
# One upload carries up to ten files. Its body alone may be larger than MAX_BODY_BYTES, and only from who is signed in.
LARGEST_FILE_BYTES = 10 * 1024 * 1024
MOST_FILES = 10
MAX_UPLOAD_BYTES = MOST_FILES * LARGEST_FILE_BYTES + 1024 * 1024

# Celery, on the server of STOA_BROKER_URL or REDIS_URL; without one there is no worker, and what it would do is done at
# once.
CELERY_BROKER_URL = broker_url(REDIS_URL, env.str("STOA_BROKER_URL"))
CELERY_TASK_DEFAULT_QUEUE = "commerce"
CELERY_TASK_DEFAULT_QUEUE_TYPE = queue_type(CELERY_BROKER_URL)
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SOFT_TIME_LIMIT = 120
CELERY_TASK_TIME_LIMIT = 150
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = transport_options(CELERY_BROKER_URL, prefix="stoa-commerce:", most_seconds=30)

# Without a worker the server looks after the figures itself, and has SQLite look at its tables.
if not CELERY_BROKER_URL:
    SERVER_ROUNDS = {
        "commerce.analytics.tasks.keep_up": 10.0,
        "commerce.analytics.tasks.reconcile": 600.0,
        "shared.sqlite.tasks.refresh_statistics": 6 * 3600.0,
    }

# Any OpenAI-compatible server; the default is Stoa's own inference service with its built-in model.
DESCRIPTIONS_BASE_URL = env.str("STOA_DESCRIPTIONS_BASE_URL")
DESCRIPTIONS_API_KEY = env.str("STOA_DESCRIPTIONS_API_KEY")
DESCRIPTIONS_MODEL = env.str("STOA_DESCRIPTIONS_MODEL")
# How many descriptions a shop may ask for in a day of UTC; 0: any number.
DESCRIPTIONS_A_DAY = env.int("STOA_DESCRIPTIONS_A_DAY")
# With what the model server signs its word that a batch has ended. Without it the shop asks every few seconds.
DESCRIPTIONS_WEBHOOK_SECRET = webhook_secret(env, "STOA_DESCRIPTIONS_WEBHOOK_SECRET")

UNFOLD = {
    "SITE_TITLE": "Stoa commerce",
    "SITE_HEADER": "Stoa commerce",
    "SITE_SUBHEADER": f"Version {VERSION}",
    "STYLES": [lambda request: static("moderation/lists.css")],
    "SIDEBAR": {"navigation": "commerce.config.navigation.navigation"},
}
