"""Declarations of every environment variable of Stoa: type, default, bounds and description.

`shared.environment.env` reads these variables and no others. `manage_commerce.py settings --write` makes
docs/operator/settings.md from them, and a test compares the two.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

BOTH: Final = ("commerce", "inference")
COMMERCE: Final = ("commerce",)
INFERENCE: Final = ("inference",)

MAX_DAYS: Final = 36_500  # a century, and within datetime's range


class VariableType(Enum):
    """Type of a variable; the value is its name in the documentation."""

    STRING = "string"
    SECRET = "secret"  # noqa: S105 - a type, not a secret
    SECRET_LIST = "comma-separated secrets"  # noqa: S105 - a type, not a secret
    INTEGER = "integer"
    NUMBER = "decimal number"
    BOOLEAN = "`true` or `false`"
    LIST = "comma-separated list"
    BYTES = "bytes"


@dataclass(frozen=True)
class Format:
    """Regular expression that a string, or each entry of a list, must match in full, and examples that do."""

    pattern: str
    examples: tuple[str, ...]
    note: str = ""

    @property
    def description(self) -> str:
        return ", ".join(filter(None, [f"as in {' or '.join(self.examples)}", self.note]))


_AUTHORITY = r"([^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/:@?#\[\]]+)(:\d{1,5})?"
_HTTP = rf"https?://{_AUTHORITY}([/?]\S*)?"
_URL = Format(_HTTP, ("https://name.example/path",))
_ORIGIN = Format(rf"https?://{_AUTHORITY}", ("https://shop.example",))
_COLLECTOR = Format(_HTTP, ("http://collector:4318",))
_REDIS = Format(rf"rediss?://{_AUTHORITY}([/?]\S*)?|unix://\S+", ("redis://:password@host:6379/0", "unix:///path"))
_BROKER = Format(rf"[a-z0-9+]+://({_AUTHORITY})?([/?]\S*)?", ("amqp://user:password@rabbitmq/stoa",))
_SCANNER = Format(rf"tcp://{_AUTHORITY}|unix://\S+", ("tcp://host:3310", "unix:///path"))
_HOST = Format(r"\*|\.?\w[\w.-]*|\[[0-9A-Fa-f:.]+\]", ("shop.example",), note="without a scheme, a port or a path")
_SENDER = Format(r"[^\r\n]*@[^\r\n]*", ("Stoa <stoa@shop.example>",))
_LABEL = Format(r"[^=,]+=[a-z/-]+", ("toxic=harassment",))
_CURRENCY = Format(r"[A-Z]{3}", ("EUR",))


@dataclass(frozen=True)
class Variable:
    """Declaration of one environment variable."""

    name: str
    type: VariableType
    default: Any
    description: str
    projects: tuple[str, ...] = BOTH
    default_description: str = ""  # of a default that depends on the machine or on another variable
    format: Format | None = None
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int | None = None
    former_name: str = ""  # refused with a message that says the name

    @property
    def documented_default(self) -> str:
        if self.default_description:
            return self.default_description
        if self.type is VariableType.BOOLEAN:
            return f"`{str(self.default).lower()}`"
        text = ",".join(self.default) if isinstance(self.default, list) else str(self.default)
        return f"`{text}`" if text else "empty"

    @property
    def bounds(self) -> str:
        """The allowed values in words, for error messages and the documentation; "" for any value."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.type in (VariableType.INTEGER, VariableType.NUMBER) or (
            self.type is VariableType.BYTES and self.minimum
        ):
            return f"{self.minimum} or more" if self.maximum is None else f"{self.minimum} to {self.maximum}"
        return self.format.description if self.format else ""


_SHARED = (
    Variable("SECRET_KEY", VariableType.SECRET, "", "Signs sessions and e-mail links and encrypts webhook secrets and the API keys of pool members. Required in production: at least 50 random characters.", default_description="generated once in `var/secret.key`"),
    Variable("STOA_SECRET_KEY_FALLBACKS", VariableType.SECRET_LIST, [], "Former values of `SECRET_KEY`. What they signed or encrypted can still be read."),
    Variable("STOA_JWT_KEY", VariableType.SECRET, "", "Signs access and refresh tokens. Set the same key for both projects, and a different one from `SECRET_KEY`. Required in production.", default_description="generated once in `var/jwt.key`"),
    Variable("STOA_JWT_KEY_FALLBACKS", VariableType.SECRET_LIST, [], "Former values of `STOA_JWT_KEY`. Their tokens stay valid until they expire."),
    Variable("STOA_ALLOWED_HOSTS", VariableType.LIST, [], "Host names that the server answers to. Required in production, without `*`.", default_description="`localhost,127.0.0.1,[::1]`", format=_HOST),
    Variable("STOA_DEBUG", VariableType.BOOLEAN, False, "Show Django's error pages, which contain settings and code. Refused in production."),
    Variable("DJANGO_SETTINGS_MODULE", VariableType.STRING, "", "Settings module: `PROJECT.config.settings.production` for a server that others can reach, or `PROJECT.config.settings.dev`.", default_description="`PROJECT.config.settings.base`"),
    Variable("STOA_HOME", VariableType.STRING, "", "Folder that holds `var/` and optionally a file `.env` with any of these variables.", default_description="the working directory"),
    Variable("DATABASE_URL", VariableType.STRING, "", "URL of the database, as in `postgres://user:password@host/stoa`. Required in production.", default_description="SQLite in `var/`"),
    Variable("REDIS_URL", VariableType.STRING, "", "URL of a Redis or Valkey server for the task queue and for rate limits of all processes together. Without it, and where it is empty, each process counts for itself.", default_description="that of a running demo, in development", format=_REDIS),
    Variable("STOA_REPLICA_URLS", VariableType.SECRET_LIST, [], "URLs of read replicas of the PostgreSQL server, as in `postgres://user:password@replica/stoa`. The shop's reads go to them; see [Read replicas](install.md#read-replicas). Needs `REDIS_URL`."),
    Variable("STOA_REPLICA_MAX_LAG_SECONDS", VariableType.NUMBER, 5.0, "Seconds by which a read replica may lag. Who has written reads the primary for so long.", maximum=300),
    Variable("STOA_BROKER_URL", VariableType.STRING, "", "URL of another message broker for the workers, as in `amqp://user:password@rabbitmq/stoa`.", default_description="`REDIS_URL`", format=_BROKER),
    Variable("STOA_EMAIL_URL", VariableType.STRING, "", "URL of the mail server, as in `smtp+tls://user:password@mail.example:587`. Required in the shop's production.", default_description="e-mails are printed"),
    Variable("STOA_EMAIL_FROM", VariableType.STRING, "Stoa <stoa@localhost>", "Sender of e-mails. Required in the shop's production.", format=_SENDER),
    Variable("STOA_STOREFRONT_URL", VariableType.STRING, "http://localhost:3000", "URL of the storefront, to whose pages the links in e-mails lead. Required in the shop's production.", format=_URL, former_name="STOA_EMAIL_LINKS"),
    Variable("STOA_SHOP_PUBLIC_URL", VariableType.STRING, "", "URL by which browsers reach the shop. The model server's pages link the shop's by it.", default_description="no links", format=_URL),
    Variable("STOA_MODEL_SERVER_PUBLIC_URL", VariableType.STRING, "", "URL by which browsers reach the model server. The shop's pages link the model server's by it.", default_description="no links", format=_URL),
    Variable("STOA_EMAILS_PER_HOUR", VariableType.INTEGER, 5, "E-mails per hour to one address.", former_name="STOA_EMAIL_LIMIT"),
    Variable("STOA_REGISTRATION", VariableType.STRING, "open", "Who may register. `open`: everybody, and is signed in at once. `verified`: everybody, and signs in once the e-mail address is confirmed; the response does not tell who is registered. `invited`: only staff whom a store owner invites. `closed`: nobody new; users are created in the admin.", choices=("open", "verified", "invited", "closed")),
    Variable("STOA_REGISTERED_MAY_RUN_INFERENCE", VariableType.BOOLEAN, False, "Allow store owners who registered themselves, and the staff they invite, to use the model server. The admin sets it for a single user.", default_description="`false`; `true` in `deploy/run demo`"),
    Variable("STOA_REGISTERED_MONTHLY_TOKEN_LIMIT", VariableType.INTEGER, 1_000_000, "Tokens per month at the model server of a user who registers. The admin sets it for a single user. 0: `STOA_USER_MONTHLY_TOKEN_LIMIT`."),
    Variable("STOA_LOGINS_PER_MINUTE", VariableType.INTEGER, 10, "Sign-in attempts per minute, from one IP address and for one account.", former_name="STOA_LOGIN_LIMIT"),
    Variable("STOA_REQUIRE_SECOND_FACTOR", VariableType.BOOLEAN, False, "Require a second factor of everybody who uses the admin: until they have set one up, they see only the page that does, and the API refuses their passwords."),
    Variable("STOA_ACCESS_TOKEN_LIFETIME", VariableType.INTEGER, 86_400, "Seconds for which an access token is valid. Sign-out, a new password and deactivation end it at once all the same.", minimum=60, maximum=31_536_000),
    Variable("STOA_REFRESH_TOKEN_LIFETIME", VariableType.INTEGER, 1_209_600, "Seconds for which a refresh token is valid, which is how long an unused sign-in lasts. No access token outlives it.", minimum=60, maximum=31_536_000),
    Variable("STOA_REQUESTS_PER_MINUTE", VariableType.INTEGER, 600, "Requests per minute. In the shop, per user, or per IP address without a user; in the model server, per IP address that reads its pages.", former_name="STOA_REQUEST_LIMIT"),
    Variable("STOA_CURRENCY", VariableType.STRING, "EUR", "ISO 4217 currency of prices whose product names none.", format=_CURRENCY),
    Variable("STOA_MAX_BODY_BYTES", VariableType.BYTES, "10MiB", "Size of one request body, except uploads and batches.", minimum=1),
    Variable("STOA_MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER", VariableType.BYTES, "256MiB", "Size of the responses stored for one day for one user's `Idempotency-Key`s. Above it the oldest are deleted, and their keys are refused.", former_name="STOA_KEPT_ANSWERS_PER_USER"),
    Variable("STOA_TRUSTED_PROXY_COUNT", VariableType.INTEGER, 0, "Number of proxies in front of the server that append to `X-Forwarded-For`. With 0 such headers are ignored.", former_name="STOA_TRUSTED_PROXIES"),
    Variable("STOA_CORS_ORIGINS", VariableType.LIST, [], "Origins whose pages may call the API.", format=_ORIGIN),
    Variable("STOA_HSTS_SECONDS", VariableType.INTEGER, 31_536_000, "Seconds for which browsers use HTTPS only, in production. 0: off, as where another host of the domain has no HTTPS."),
    Variable("STOA_METRICS_DIR", VariableType.STRING, "", "Folder in which the processes of one machine share their metrics.", default_description="`var/metrics`"),
    Variable("STOA_METRICS_PUBLIC", VariableType.BOOLEAN, False, "Allow anybody to read `/metrics`."),
    Variable("STOA_AUDIT_RETENTION_DAYS", VariableType.INTEGER, MAX_DAYS, "Days for which entries of the audit log are kept. Older ones are removed by whole months. By default they are kept for a century. Set the same for both projects on one database.", minimum=30, maximum=MAX_DAYS),
    Variable("STOA_LOG_FORMAT", VariableType.STRING, "json", "Format of log lines: JSON, or readable text for a console.", choices=("json", "console")),
    Variable("STOA_LOG_LEVEL", VariableType.STRING, "INFO", "Lowest level that is logged.", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    Variable("STOA_S3_ENDPOINT", VariableType.STRING, "", "URL of the S3 server.", default_description="Amazon S3", format=_URL),
    Variable("STOA_S3_REGION", VariableType.STRING, "", "Region of the bucket.", default_description="boto3's default"),
    Variable("STOA_S3_ACCESS_KEY", VariableType.SECRET, "", "Access key id for S3.", default_description="boto3's default, such as the machine's role"),
    Variable("STOA_S3_SECRET_KEY", VariableType.SECRET, "", "Secret access key for S3.", default_description="boto3's default"),
    Variable("OTEL_EXPORTER_OTLP_ENDPOINT", VariableType.STRING, "", "URL of an OpenTelemetry collector that receives traces.", default_description="traces are not sent", format=_COLLECTOR),
    Variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", VariableType.STRING, "", "URL of a collector for traces only.", default_description="`OTEL_EXPORTER_OTLP_ENDPOINT`", format=_COLLECTOR),
    Variable("OTEL_EXPORTER_OTLP_PROTOCOL", VariableType.STRING, "", "Protocol of the collector. Only `http/protobuf` is supported.", default_description="`http/protobuf`"),
    Variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", VariableType.STRING, "", "Protocol of the collector for traces only.", default_description="`OTEL_EXPORTER_OTLP_PROTOCOL`"),
    Variable("OTEL_SERVICE_NAME", VariableType.STRING, "", "Name of the service in traces.", default_description="`stoa-` and the project"),
    Variable("OTEL_SDK_DISABLED", VariableType.BOOLEAN, False, "Disable tracing."),
    Variable("TMPDIR", VariableType.STRING, "", "Folder for uploads until they are complete.", default_description="`/tmp`"),
)  # fmt: skip

_COMMERCE = (
    Variable("STOA_SHOP_WEBHOOK_ALLOW", VariableType.LIST, [], "Receivers of the shop's webhooks on private addresses, as `host:port` exactly as in the URL. All others must be public, on port 80 or 443."),
    Variable("STOA_PUBLIC_CACHE_SECONDS", VariableType.INTEGER, 5, "Seconds for which each web process keeps public responses for clients without credentials; a write ends them at once. Needs `REDIS_URL`. 0: none.", maximum=60),
    Variable("STOA_TAX_RATE_BASIS_POINTS", VariableType.INTEGER, 0, "Tax on the taxable products of an order, in hundredths of a percent: `1900` is 19 %.", former_name="STOA_TAX_RATE"),
    Variable("STOA_DELIVERY_FEE_MINOR_UNITS", VariableType.INTEGER, 0, "Delivery fee of an order, in minor units of its currency: `490` is 4.90 EUR.", former_name="STOA_DELIVERY_FEE"),
    Variable("STOA_ANALYTICS_TIME_ZONE", VariableType.STRING, "UTC", "Time zone in which the days of analytics begin, as in `Europe/Dublin`. A change rebuilds analytics."),
    Variable("STOA_CONTENT_WRITES_PER_MINUTE", VariableType.INTEGER, 5, "Reviews, questions, reports, appeals and invitations per minute and user.", former_name="STOA_CONTENT_WRITE_LIMIT"),
    Variable("STOA_UPLOADS_PER_MINUTE", VariableType.INTEGER, 10, "Uploads of attachments per minute and user.", former_name="STOA_UPLOAD_LIMIT"),
    Variable("STOA_DELETIONS_PER_MINUTE", VariableType.INTEGER, 10, "Deletions of attachments per minute and user.", former_name="STOA_DELETE_LIMIT"),
    Variable("STOA_MODERATION_AUTO_HIDE_AFTER", VariableType.INTEGER, 5, "Number of trusted reporters after which content is hidden automatically. 0: never."),
    Variable("STOA_MODERATION_UNDO_MINUTES", VariableType.INTEGER, 10, "Minutes in which a decision can be undone and before which nobody is notified of it.", maximum=365 * 24 * 60),
    Variable("STOA_MODERATION_APPEAL_DAYS", VariableType.INTEGER, 14, "Days in which an author may appeal.", maximum=MAX_DAYS),
    Variable("STOA_MODERATION_SECOND_LOOK_INTERVAL", VariableType.INTEGER, 100, "One of how many decisions another moderator decides again, for the statistics. 0: none."),
    Variable("STOA_MODERATION_SUGGESTIONS", VariableType.BOOLEAN, False, "Similar past decisions and suggestions for moderators, by vectors of `STOA_SEARCH_MODEL`. It sends reported reviews and questions, and the messages of their reports, to `STOA_DESCRIPTIONS_BASE_URL`. Nothing is decided by them."),
    Variable("STOA_STORAGE", VariableType.STRING, "files", "Storage of attachments: a folder, or an S3 bucket.", choices=("files", "s3")),
    Variable("STOA_MEDIA_ROOT", VariableType.STRING, "", "Folder of attachments with `STOA_STORAGE=files`. All servers and workers must share it.", default_description="`var/media`"),
    Variable("STOA_S3_BUCKET", VariableType.STRING, "", "Bucket of attachments with `STOA_STORAGE=s3`."),
    Variable("STOA_S3_PUBLIC_URL", VariableType.STRING, "", "Public URL of the bucket, such as a CDN. Without it attachments have signed URLs that are valid for five minutes.", format=_URL),
    Variable("STOA_MAX_ATTACHMENT_BYTES_PER_USER", VariableType.BYTES, "5GiB", "Size of all attachments of a user. A super admin has no quota."),
    Variable("STOA_MAX_ATTACHMENTS_PER_USER", VariableType.INTEGER, 20_000, "Number of attachments of a user."),
    Variable("STOA_MAX_ATTACHMENT_BYTES_PER_SHOP", VariableType.BYTES, "20GiB", "Size of all attachments that a shop's staff have uploaded. Its owner's count for the owner."),
    Variable("STOA_MAX_ATTACHMENTS_PER_SHOP", VariableType.INTEGER, 100_000, "Number of attachments that a shop's staff have uploaded."),
    Variable("STOA_MAX_UNVERIFIED_ATTACHMENT_BYTES", VariableType.BYTES, "50MiB", "Size of all attachments of a user whose e-mail address is not confirmed."),
    Variable("STOA_MAX_UNVERIFIED_ATTACHMENTS", VariableType.INTEGER, 200, "Number of attachments of a user whose e-mail address is not confirmed."),
    Variable("STOA_CLAMD", VariableType.STRING, "", "Address of a ClamAV daemon. If set, it scans every upload before it is accepted.", format=_SCANNER),
    Variable("STOA_DESCRIPTIONS_BASE_URL", VariableType.STRING, "http://127.0.0.1:8001/v1", "Base URL of an OpenAI-compatible server that writes product descriptions.", format=_URL),
    Variable("STOA_DESCRIPTIONS_API_KEY", VariableType.SECRET, "", "API key for that server."),
    Variable("STOA_DESCRIPTIONS_MODEL", VariableType.STRING, "stoa-describer", "Model on that server."),
    Variable("STOA_DESCRIPTIONS_DRAWS", VariableType.INTEGER, 8, "Texts drawn at once for one description, of which the best that keeps to the given facts is shown.", minimum=1, maximum=8),
    Variable("STOA_SEARCH_MODEL", VariableType.STRING, "all-MiniLM-L6-v2", "Embedding model on that server, by which products are searched by meaning. A change embeds all products again. Empty: they are searched by words only."),
    Variable("STOA_DESCRIPTIONS_PER_DAY", VariableType.INTEGER, 500, "Descriptions per shop and UTC day. 0: no limit.", former_name="STOA_DESCRIPTIONS_A_DAY"),
    Variable("STOA_DESCRIPTIONS_WEBHOOK_SECRET", VariableType.SECRET, "", "Secret, `whsec_` and base64 of at least 24 bytes, with which the model server signs webhooks about completed batches. Without it the shop polls every few seconds."),
)  # fmt: skip

_INFERENCE = (
    Variable("STOA_WEBHOOK_ALLOW", VariableType.LIST, [], "Webhook receivers on private addresses, as `host:port` exactly as in the URL. All others must be public, on port 80 or 443."),
    Variable("STOA_MODELS_DIR", VariableType.LIST, [], "Folders of models. Downloads go into the first.", default_description="`var/models`"),
    Variable("STOA_LOAD", VariableType.LIST, ["stoa-describer", "stoa-encoder"], "Models that are loaded on the first start. Later starts load what operators last chose."),
    Variable("STOA_REMOTE_MODELS", VariableType.SECRET, "", "JSON array of models of other servers, which the first start with it imports into the database as pools: remove it then. A start with another value is refused."),
    Variable("STOA_URL", VariableType.STRING, "", "Model server that commands for clients use over HTTP: `run`, `chat`, `bench`, `models` and `batch`.", default_description="this machine's", format=_URL),
    Variable("STOA_API_KEY", VariableType.SECRET, "", "API key that these commands send to `STOA_URL`."),
    Variable("STOA_MODERATION_MODEL", VariableType.STRING, "", "Model of `POST /v1/moderations`: a classifier, or a text-generation model, which answers a question per category.", default_description="none"),
    Variable("STOA_MODERATION_LABELS", VariableType.LIST, [], "Moderation categories of a classifier's labels that are named otherwise.", format=_LABEL),
    Variable("STOA_MEMORY_BUDGET", VariableType.BYTES, "", "Memory for the weights and caches of all loaded models.", default_description="no limit"),
    Variable("STOA_MAX_LOADED_MODELS", VariableType.INTEGER, 0, "Number of models loaded at once. 0: no limit.", former_name="STOA_MAX_LOADED"),
    Variable("STOA_EVICT", VariableType.BOOLEAN, False, "If a load needs memory, unload the least recently used idle model. Otherwise such a load is refused with 503."),
    Variable("STOA_AUTOLOAD", VariableType.BOOLEAN, False, "Load a model when a request names it."),
    Variable("STOA_IDLE_UNLOAD_SECONDS", VariableType.NUMBER, 0.0, "Seconds without a request after which a model is unloaded until the next one. 0: never.", former_name="STOA_IDLE_UNLOAD"),
    Variable("STOA_REQUIRE_HTTPS", VariableType.BOOLEAN, True, "Redirect requests without TLS to https, in production. `false` for a model server that only other servers of yours reach, by a private network."),
    Variable("STOA_START_HOST", VariableType.BOOLEAN, True, "Servers and workers start a model host if none runs. Set `false` if it runs apart, as in containers."),
    Variable("STOA_RUN_DIR", VariableType.STRING, "", "Folder of the model host's sockets, which web processes and workers of one machine share.", default_description="`var/run`"),
    Variable("STOA_COMPILED_DIR", VariableType.STRING, "", "Folder of the model host's compiled kernels and of results of earlier loads, private to its user.", default_description="`var/compiled`"),
    Variable("STOA_ENGINES_DIR", VariableType.STRING, "", "Folder of other engines that `stoa engines install` installs, such as vLLM.", default_description="`var/engines`"),
    Variable("STOA_KEY_REQUESTS_PER_MINUTE", VariableType.INTEGER, 600, "Requests per minute and API key. The admin sets this and the next two for a single key.", former_name="STOA_KEY_REQUEST_LIMIT"),
    Variable("STOA_KEY_TOKENS_PER_MINUTE", VariableType.INTEGER, 200_000, "Tokens per minute and API key.", former_name="STOA_KEY_TOKEN_LIMIT"),
    Variable("STOA_KEY_CONCURRENCY_LIMIT", VariableType.INTEGER, 16, "Concurrent requests per API key."),
    Variable("STOA_USER_REQUESTS_PER_MINUTE", VariableType.INTEGER, 1200, "Requests per minute of all API keys and sessions of a user.", former_name="STOA_USER_REQUEST_LIMIT"),
    Variable("STOA_USER_TOKENS_PER_MINUTE", VariableType.INTEGER, 400_000, "Tokens per minute of all API keys and sessions of a user.", former_name="STOA_USER_TOKEN_LIMIT"),
    Variable("STOA_USER_CONCURRENCY_LIMIT", VariableType.INTEGER, 32, "Concurrent requests of all API keys and sessions of a user."),
    Variable("STOA_KEY_MONTHLY_TOKEN_LIMIT", VariableType.INTEGER, 0, "Tokens per month of an API key, its batches included, unless the admin sets another limit for the key. 0: no limit."),
    Variable("STOA_USER_MONTHLY_TOKEN_LIMIT", VariableType.INTEGER, 0, "Tokens per month of all credentials of a user, batches included, unless the admin sets another limit for the user. 0: no limit."),
    Variable("STOA_ADDRESS_REQUESTS_PER_MINUTE", VariableType.INTEGER, 60, "Requests per minute of an IP address without a credential.", former_name="STOA_ADDRESS_REQUEST_LIMIT"),
    Variable("STOA_MAX_TRACE_SPANS", VariableType.INTEGER, 200_000, "Spans stored for `GET /traces`, each for one day.", former_name="STOA_TRACE_SPANS"),
    Variable("STOA_MAX_WEBSOCKETS", VariableType.INTEGER, 2000, "Open WebSockets per process.", former_name="STOA_SOCKETS"),
    Variable("STOA_MAX_WEBSOCKETS_PER_USER", VariableType.INTEGER, 20, "Open WebSockets per process and user.", former_name="STOA_SOCKETS_PER_USER"),
    Variable("STOA_FILES_DIR", VariableType.STRING, "", "Folder of batch files. Web servers and workers on several machines share it or use S3.", default_description="`var/files`"),
    Variable("STOA_FILES_BUCKET", VariableType.STRING, "", "S3 bucket for batch files instead of the folder. It must be private."),
    Variable("STOA_MAX_FILE_BYTES", VariableType.BYTES, "200MiB", "Size of one uploaded file."),
    Variable("STOA_MAX_FILE_BYTES_PER_USER", VariableType.BYTES, "10GiB", "Size of all files of a user, batch output included.", former_name="STOA_FILES_PER_USER"),
    Variable("STOA_MAX_BATCH_REQUESTS", VariableType.INTEGER, 50_000, "Requests in one batch.", former_name="STOA_BATCH_REQUESTS"),
    Variable("STOA_MAX_BATCH_BYTES", VariableType.BYTES, "128MiB", "Size of the request body that creates a batch."),
    Variable("STOA_MAX_BATCH_BYTES_PER_USER", VariableType.BYTES, "10GiB", "Size of the requests and results of all batches of a user, with about 512 bytes of overhead a request. Above it new batches are refused, and requests that have not completed fail.", former_name="STOA_BATCHES_PER_USER"),
    Variable("STOA_MAX_QUEUED_BATCH_TOKENS_PER_USER", VariableType.INTEGER, 500_000_000, "Tokens of all open batches of a user, with prompts estimated. Above it new batches are refused.", former_name="STOA_BATCH_QUEUED_TOKENS"),
    Variable("STOA_BATCH_RETENTION_DAYS", VariableType.NUMBER, 7.0, "Days after which a batch, its results and its files are deleted.", maximum=MAX_DAYS, former_name="STOA_BATCH_KEEP_DAYS"),
    Variable("STOA_RESPONSE_RETENTION_DAYS", VariableType.NUMBER, 30.0, "Days after which a response of `/v1/responses` is deleted, and a conversation that was not used.", maximum=MAX_DAYS),
    Variable("STOA_MAX_RESPONSE_BYTES_PER_USER", VariableType.BYTES, "1GiB", "Size of the stored responses of a user. Above it the oldest are deleted."),
    Variable("STOA_TEMPLATE_OPTIONS", VariableType.LIST, [], "Options of chat templates that clients may set in `chat_template_kwargs` beside those of reasoning, as `model:option`."),
    Variable("STOA_ANTHROPIC_API", VariableType.BOOLEAN, True, "Offer Anthropic's API: `/v1/messages`."),
    Variable("STOA_OLLAMA_API", VariableType.BOOLEAN, True, "Offer Ollama's API: `/api/chat` and others under `/api`."),
    Variable("STOA_MCP_API", VariableType.BOOLEAN, True, "Offer the Model Context Protocol: `/mcp`."),
    Variable("STOA_SHOP_URL", VariableType.STRING, "", "URL of the shop whose products the tool `search_products` of `/mcp` searches, as in `http://127.0.0.1:8000`.", default_description="no such tool", format=_URL),
    Variable("HF_ENDPOINT", VariableType.STRING, "https://huggingface.co", "URL of the hub from which models are downloaded."),
    Variable("HF_TOKEN", VariableType.SECRET, "", "Access token for the hub. It is not sent on to hosts to which the hub redirects."),
    Variable("NO_COLOR", VariableType.STRING, "", "If set to anything, the command line prints no colours."),
)  # fmt: skip

VARIABLES: Final = (
    *_SHARED,
    *(replace(variable, projects=COMMERCE) for variable in _COMMERCE),
    *(replace(variable, projects=INFERENCE) for variable in _INFERENCE),
)
