"""Settings of the shop, complete and safe for one machine on the loopback interface."""

import os
from datetime import timedelta
from pathlib import Path

from django.templatetags.static import static

from commerce.config.openapi.common_texts import INTRODUCTION
from commerce.config.settings.s3 import s3_storage
from commerce.config.settings.webhook_secrets import webhook_secret
from commerce.config.settings.zones import time_zone
from shared.environment import env
from shared.serving.processes.broker import broker_url, queue_type, transport_options
from shared.settings import *  # noqa: F403
from shared.settings import (
    DATABASES,
    MIDDLEWARE,
    REDIS_URL,
    REST_FRAMEWORK,
    SHARED_APPS,
    SPECTACULAR_SETTINGS,
    STORAGES,
    UNFOLD_ACCOUNT,
    UNFOLD_STYLES,
    VAR_DIR,
    VERSION,
)
from shared.webhooks.destinations import read_webhook_receivers

# numpy compares a query with all vectors in one thread: a second one would wait in a loop, for the time of a core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

PROJECT = "commerce"
ROOT_URLCONF = "commerce.config.urls"
ASGI_APPLICATION = "commerce.config.asgi.application"

INSTALLED_APPS = [
    *SHARED_APPS,
    "django_filters",
    "commerce.shops",
    "commerce.catalog",
    "commerce.catalog.search",
    "commerce.orders",
    "commerce.reviews",
    "commerce.addresses",
    "commerce.attachments",
    "commerce.attributes",
    "commerce.moderation",
    "commerce.analytics",
    "commerce.onboarding",
    "commerce.descriptions",
    "commerce.site_settings",
    "commerce.webhooks.apps.WebhooksConfig",
    "commerce.storefront",
    "commerce.demo",
]

MIDDLEWARE = [
    *MIDDLEWARE,
    "shared.api.middleware.pages.PageLocaleMiddleware",
    "commerce.site_settings.maintenance.MaintenanceMiddleware",
    "shared.accounts.middleware.idempotency.IdempotencyMiddleware",  # last: the view runs inside it
]
ROLE_ADMIN_APPS = {"MODERATOR": ["commerce_moderation"]}
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("es", "Español")]  # of the admin pages
LOCALE_PATHS = [Path(__file__).parents[1] / "locale"]

if DATABASES["default"]["ENGINE"] == "shared.sqlite":
    # The rows that INSERT OR REPLACE replaces fire delete triggers, on which analytics relies.
    DATABASES["default"]["OPTIONS"]["init_command"] += " PRAGMA recursive_triggers=ON;"

# Cookies ignore ports: with the same names, the two projects' admins would sign each other out.
SESSION_COOKIE_NAME = "stoa_commerce_session"
CSRF_COOKIE_NAME = "stoa_commerce_csrf"

REST_FRAMEWORK = REST_FRAMEWORK | {
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%S.%fZ",  # the format that existing clients parse
    "DEFAULT_SCHEMA_CLASS": "commerce.config.openapi.auto_schema.CommerceAutoSchema",
    "DEFAULT_PERMISSION_CLASSES": [
        "shared.accounts.permissions.IsSignedIn"
    ],  # excludes API keys with single permissions
    "DEFAULT_FILTER_BACKENDS": ["shared.api.lists.filters.ListFilterBackend"],
}
DOCS_PATH = "/api/docs"
API_ERROR_BODY = "commerce.config.errors.error_body"
STATIC_ROOT = VAR_DIR / "commerce-static"

SPECTACULAR_SETTINGS = SPECTACULAR_SETTINGS | {
    "SCHEMA_PATH_PREFIX": "/api",
    "TITLE": "Stoa commerce",
    "VERSION": VERSION,
    "DESCRIPTION": INTRODUCTION,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "ProductStatus": "commerce.catalog.models.Product.Status",
        "ProductKind": "commerce.catalog.models.Product.Kind",
        "WebhookDeliveryState": "shared.webhooks.models.DeliveryState",
        "KindEnum": "commerce.moderation.models.Notice.Kind",
        "SanctionKind": "commerce.moderation.models.Sanction.Kind",
        "SanctionAppealState": "commerce.moderation.models.Sanction.AppealState",
        "DescriptionDraftState": "commerce.descriptions.models.DescriptionDraft.State",
        "DescriptionJobState": "commerce.descriptions.models.DescriptionJob.State",
        "DescriptionJobItemState": "commerce.descriptions.models.JobItem.State",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "commerce.config.openapi.common_texts.describe_common_fields",
        "commerce.config.openapi.error_responses.add_errors",
        "commerce.config.openapi.examples.add_examples",
    ],
}

# Sales tax of the taxable products in hundredths of a percent (1900 is 19 %), and the delivery fee of an order in minor
# units of its currency.
TAX_RATE = env.int("STOA_TAX_RATE_BASIS_POINTS")
DELIVERY_FEE = env.int("STOA_DELIVERY_FEE_MINOR_UNITS")

# Time zone of the days and months in analytics; a change starts a rebuild.
ANALYTICS_TIME_ZONE = time_zone(env, "STOA_ANALYTICS_TIME_ZONE")

# Time after which each process sees that maintenance mode was switched on or off.
MAINTENANCE_CHECK_SECONDS = 5.0

# Rate limits, per minute and user.
CONTENT_WRITE_LIMIT = env.int("STOA_CONTENT_WRITES_PER_MINUTE")
UPLOAD_LIMIT = env.int("STOA_UPLOADS_PER_MINUTE")
DELETE_LIMIT = env.int("STOA_DELETIONS_PER_MINUTE")

# Number of trusted reporters after which content is hidden automatically (0: never), how long a decision can be undone,
# how long after its notice an author may appeal. Another moderator decides one of so many decisions again (0: none).
MODERATION_AUTO_HIDE_AFTER = env.int("STOA_MODERATION_AUTO_HIDE_AFTER")
MODERATION_UNDO_WINDOW = timedelta(minutes=env.int("STOA_MODERATION_UNDO_MINUTES"))
MODERATION_APPEAL_WINDOW = timedelta(days=env.int("STOA_MODERATION_APPEAL_DAYS"))
MODERATION_SECOND_LOOK_INTERVAL = env.int("STOA_MODERATION_SECOND_LOOK_INTERVAL")
# Similar past decisions and suggestions, by vectors of SEARCH_MODEL.
MODERATION_SUGGESTIONS = env.bool("STOA_MODERATION_SUGGESTIONS")

# Storage of attachments: a folder of this machine or an S3 bucket.
STORAGE = env.str("STOA_STORAGE")
MEDIA_ROOT = env.str("STOA_MEDIA_ROOT") or VAR_DIR / "media"
MEDIA_URL = "/media/"
if STORAGE == "s3":
    S3_PUBLIC_URL = env.str("STOA_S3_PUBLIC_URL")  # public URL of the bucket, such as a CDN
    MEDIA_URL = f"{S3_PUBLIC_URL.rstrip('/')}/" if S3_PUBLIC_URL else MEDIA_URL
    STORAGES = STORAGES | {"default": s3_storage(env)}
else:
    # A file is overwritten only by a retry after a crash: no two attachments share a folder.
    file_options = {"allow_overwrite": True}
    STORAGES = STORAGES | {"default": STORAGES["default"] | {"OPTIONS": file_options}}
FILE_UPLOAD_HANDLERS = ["shared.serving.files.upload_handler.UnnamedFileUploadHandler"]  # never buffers files in memory
DATA_UPLOAD_MAX_NUMBER_FILES = 50
CLAMD = env.str("STOA_CLAMD")  # tcp://host:3310 or unix:///run/clamav/clamd.ctl; empty: files are not scanned
# The body of an upload by a signed-in user is the only one that may exceed MAX_BODY_BYTES.
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_UPLOAD_FILES = 10
# Quotas of the files of one user, of a shop's staff, and of a user whose e-mail address is not confirmed.
MAX_ATTACHMENT_BYTES_PER_USER = env.bytes("STOA_MAX_ATTACHMENT_BYTES_PER_USER")
MAX_ATTACHMENTS_PER_USER = env.int("STOA_MAX_ATTACHMENTS_PER_USER")
MAX_ATTACHMENT_BYTES_PER_SHOP = env.bytes("STOA_MAX_ATTACHMENT_BYTES_PER_SHOP")
MAX_ATTACHMENTS_PER_SHOP = env.int("STOA_MAX_ATTACHMENTS_PER_SHOP")
MAX_UNVERIFIED_ATTACHMENT_BYTES = env.bytes("STOA_MAX_UNVERIFIED_ATTACHMENT_BYTES")
MAX_UNVERIFIED_ATTACHMENTS = env.int("STOA_MAX_UNVERIFIED_ATTACHMENTS")
MAX_UPLOAD_BYTES = MAX_UPLOAD_FILES * MAX_FILE_BYTES + 1024 * 1024

PUBLIC_CACHE_SECONDS = env.int("STOA_PUBLIC_CACHE_SECONDS")
# Often written, and shown by no public response: their writes end no cached one.
UNCACHED_TABLES = frozenset(
    {
        "accounts_apikey", "accounts_secondfactor", "accounts_signin", "accounts_signinnetwork", "api_keyedrequest",
        "audit_auditentry", "commerce_analytics_books", "commerce_analytics_chainshop", "commerce_analytics_entry",
        "commerce_analytics_figure", "commerce_analytics_firstorder", "commerce_analytics_productfigure",
        "commerce_analytics_salesreport", "commerce_attachments_leftover", "commerce_moderation_casevector",
        "commerce_moderation_decisionsuggestion", "commerce_moderation_suggestionmodel", "commerce_webhooks_attempt",
        "commerce_webhooks_delivery", "django_admin_log", "django_session",
    }
)  # fmt: skip

# Celery on the broker of STOA_BROKER_URL or REDIS_URL. Without a broker there is no worker, and tasks run at once.
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
CELERY_BROKER_TRANSPORT_OPTIONS = transport_options(CELERY_BROKER_URL, prefix="stoa-commerce:", max_seconds=30)

# Without a worker the server itself keeps analytics up to date and refreshes SQLite's statistics.
if not CELERY_BROKER_URL:
    SERVER_PERIODIC_TASKS = {
        "commerce.analytics.tasks.run_maintenance": 10.0,
        "commerce.analytics.tasks.reconcile_nightly": 600.0,
        "commerce.analytics.tasks.compute_requested_reports": 5.0,
        "commerce.catalog.search.tasks.update_index": 10.0,
        "commerce.catalog.search.tasks.update_vectors": 10.0,
        "commerce.moderation.tasks.update_suggestions": 30.0,
        "commerce.shops.tasks.clear_invitations": 3600.0,
        "shared.accounts.tasks.clear_expired": 3600.0,
        "shared.audit.tasks.maintain_log": 3600.0,
        "shared.sqlite.tasks.refresh_statistics": 6 * 3600.0,
        "shared.webhooks.tasks.deliver": 1.0,
        "shared.webhooks.tasks.delete_expired": 600.0,
    }

# Webhook receivers, as host:port, that may have private addresses. All others must be public. Ended deliveries
# are kept for a while.
WEBHOOK_ALLOW = read_webhook_receivers(env.list("STOA_SHOP_WEBHOOK_ALLOW"), "STOA_SHOP_WEBHOOK_ALLOW")
WEBHOOK_RETENTION = timedelta(days=7)
WEBHOOK_ROLES = ["STORE_OWNER", "SUPER_ADMIN"]
MIGRATION_MODULES = {"commerce_webhooks": "commerce.webhooks.migrations"}

# Any OpenAI-compatible server; the default is Stoa's inference service with its built-in model.
DESCRIPTIONS_BASE_URL = env.str("STOA_DESCRIPTIONS_BASE_URL")
DESCRIPTIONS_API_KEY = env.str("STOA_DESCRIPTIONS_API_KEY")
DESCRIPTIONS_MODEL = env.str("STOA_DESCRIPTIONS_MODEL")
# Texts drawn at once for one description.
DESCRIPTIONS_DRAWS = env.int("STOA_DESCRIPTIONS_DRAWS")
# Embedding model of the same server for product search by meaning; empty: products are searched by words only.
SEARCH_MODEL = env.str("STOA_SEARCH_MODEL")
# Maximum number of descriptions per shop and UTC day; 0: unlimited.
DESCRIPTIONS_PER_DAY = env.int("STOA_DESCRIPTIONS_PER_DAY")
# Secret with which the model server signs webhooks about finished batches. Without it the shop polls every few seconds.
DESCRIPTIONS_WEBHOOK_SECRET = webhook_secret(env, "STOA_DESCRIPTIONS_WEBHOOK_SECRET")

UNFOLD = {
    "SITE_TITLE": "Stoa commerce",
    "SITE_HEADER": "Stoa commerce",
    "SITE_SUBHEADER": VERSION,
    "ACCOUNT": UNFOLD_ACCOUNT,
    "STYLES": [*UNFOLD_STYLES, lambda request: static("moderation/lists.css")],
    "SIDEBAR": {"navigation": "commerce.config.navigation.navigation"},
}
