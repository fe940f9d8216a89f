"""Every environment variable of Stoa: what it is, what holds without it, and what it means.

Settings read them through `shared.environment.env`, which knows these and no others. The tables in the projects' README
files are made from here (`manage_commerce.py settings --write`), and a test compares them.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

BOTH: Final = ("commerce", "inference")
COMMERCE: Final = ("commerce",)
INFERENCE: Final = ("inference",)


class Kind(Enum):
    """How a text of the environment is read; its value is what the tables call it."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 - a word
    SECRETS = "secrets, with commas"
    NUMBER = "number"
    DECIMAL = "decimal number"
    FLAG = "`true` or `false`"
    LIST = "list, with commas"
    BYTES = "bytes, as in `200MiB`"

    @property
    def cast(self) -> type:
        return _CASTS.get(self, str)


_CASTS: dict[Kind, type] = {
    Kind.SECRETS: list, Kind.LIST: list, Kind.NUMBER: int, Kind.DECIMAL: float, Kind.FLAG: bool,
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What a text, or each entry of a list, has to look like in whole, and one that does."""

    pattern: str
    example: str


_AUTHORITY = r"([^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/:@?#\[\]]+)(:\d{1,5})?"
_WEB = rf"https?://{_AUTHORITY}([/?]\S*)?"
_PAGE = Shape(_WEB, "https://name.example/path")
_ORIGIN = Shape(rf"https?://{_AUTHORITY}", "https://shop.example")
_COLLECTOR = Shape(_WEB, "http://collector:4318")
_REDIS = Shape(rf"rediss?://{_AUTHORITY}([/?]\S*)?|unix://\S+", "redis://:password@host:6379/0 or unix:///path")
_BROKER = Shape(rf"[a-z0-9+]+://({_AUTHORITY})?([/?]\S*)?", "amqp://user:password@rabbitmq/stoa")
_SCANNER = Shape(rf"tcp://{_AUTHORITY}|unix://\S+", "tcp://host:3310 or unix:///path")
_HOST = Shape(r"\*|\.?\w[\w.-]*|\[[0-9A-Fa-f:.]+\]", "shop.example, without a scheme, a port or a path")
_SENDER = Shape(r"[^\r\n]*@[^\r\n]*", "Stoa <stoa@shop.example>")
_CURRENCY = Shape(r"[A-Z]{3}", "EUR")


@dataclass(frozen=True)
class Variable:
    """One of them. `shown` is what the tables say of a default that depends on the machine. Numbers are not negative."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    projects: tuple[str, ...] = BOTH
    shown: str | None = None
    shape: Shape | None = None

    @property
    def default_shown(self) -> str:
        if self.shown is not None:
            return self.shown
        if self.kind is Kind.FLAG:
            return f"`{str(self.default).lower()}`"
        said = ",".join(self.default) if isinstance(self.default, list) else self.default
        return "none" if said == "" else f"`{said}`"


_OF_BOTH = (
    Variable("SECRET_KEY", Kind.SECRET, "", "signs sessions and letters, seals webhooks' secrets; at least 50 random characters in production, which asks for it", shown="made once in `var/secret.key`"),
    Variable("STOA_SECRET_KEY_FALLBACKS", Kind.SECRETS, [], "what was `SECRET_KEY` before: what it signed or sealed is still read"),
    Variable("STOA_JWT_KEY", Kind.SECRET, "", "signs access and refresh tokens; the same in both projects; another than `SECRET_KEY`; production asks for it", shown="made once in `var/jwt.key`"),
    Variable("STOA_JWT_KEY_FALLBACKS", Kind.SECRETS, [], "what was `STOA_JWT_KEY` before: its tokens are good until they end"),
    Variable("STOA_ALLOWED_HOSTS", Kind.LIST, [], "host names that are served; production asks for them, without `*`", shown="`localhost,127.0.0.1,[::1]`", shape=_HOST),
    Variable("STOA_DEBUG", Kind.FLAG, False, "Django's pages of errors, with settings and code; refused in production"),
    Variable("DJANGO_SETTINGS_MODULE", Kind.TEXT, "", "`PROJECT.config.settings.production` for a server that others reach, or `.dev`", shown="`PROJECT.config.settings.base`"),
    Variable("STOA_HOME", Kind.TEXT, "", "where `var/` is, and a file `.env` with any of these names", shown="where it was started"),
    Variable("DATABASE_URL", Kind.TEXT, "", "as in `postgres://user:password@host/stoa`; production asks for it", shown="SQLite in `var/`"),
    Variable("REDIS_URL", Kind.TEXT, "", "a Redis or Valkey, for limits over all processes and for the workers; without it each process counts for itself", shape=_REDIS),
    Variable("STOA_BROKER_URL", Kind.TEXT, "", "another broker for the workers than that, as in `amqp://user:password@rabbitmq/stoa`", shown="`REDIS_URL`", shape=_BROKER),
    Variable("STOA_EMAIL_URL", Kind.TEXT, "", "the mail server, as in `smtp+tls://user:password@mail.example:587`; the shop's production asks for it", shown="letters are printed"),
    Variable("STOA_EMAIL_FROM", Kind.TEXT, "Stoa <stoa@localhost>", "who letters are from; the shop's production asks for it", shape=_SENDER),
    Variable("STOA_EMAIL_LINKS", Kind.TEXT, "http://localhost:3000", "the storefront, to whose pages the links in letters lead; the shop's production asks for it", shape=_PAGE),
    Variable("STOA_EMAIL_LIMIT", Kind.NUMBER, 5, "letters an hour to one e-mail"),
    Variable("STOA_LOGIN_LIMIT", Kind.NUMBER, 10, "sign-ins a minute, of one address and of one account"),
    Variable("STOA_REQUEST_LIMIT", Kind.NUMBER, 600, "requests a minute: of the shop, for a user or an address; of the model server, for an address that looks at its pages"),
    Variable("STOA_CURRENCY", Kind.TEXT, "EUR", "what prices are in unless their product says otherwise: ISO 4217", shape=_CURRENCY),
    Variable("STOA_MAX_BODY_BYTES", Kind.NUMBER, 10 * 1024 * 1024, "of one request, but uploads and batches"),
    Variable("STOA_KEPT_ANSWERS_PER_USER", Kind.BYTES, "256MiB", "of the answers that are kept a day for one user's `Idempotency-Key`s; past it the oldest go, and their keys are refused"),
    Variable("STOA_TRUSTED_PROXIES", Kind.NUMBER, 0, "how many proxies before us append to `X-Forwarded-For`; with 0 such headers are not heard"),
    Variable("STOA_CORS_ORIGINS", Kind.LIST, [], "origins whose pages may call us, as in `https://shop.example`", shape=_ORIGIN),
    Variable("STOA_METRICS_DIR", Kind.TEXT, "", "where the processes of one machine count together", shown="`var/metrics`"),
    Variable("STOA_METRICS_PUBLIC", Kind.FLAG, False, "whether anybody may read `/metrics`"),
    Variable("STOA_LOG_FORMAT", Kind.TEXT, "json", "`json`, a line an event; or `console`"),
    Variable("STOA_LOG_LEVEL", Kind.TEXT, "INFO", "`DEBUG`, `INFO`, `WARNING` or `ERROR`"),
    Variable("STOA_S3_ENDPOINT", Kind.TEXT, "", "the S3 server", shown="Amazon's", shape=_PAGE),
    Variable("STOA_S3_REGION", Kind.TEXT, "", "its region", shown="as boto3 finds it"),
    Variable("STOA_S3_ACCESS_KEY", Kind.SECRET, "", "who we are there", shown="as boto3 finds it, such as the machine's role"),
    Variable("STOA_S3_SECRET_KEY", Kind.SECRET, "", "the same", shown="as boto3 finds it"),
    Variable("OTEL_EXPORTER_OTLP_ENDPOINT", Kind.TEXT, "", "a collector of OpenTelemetry that traces are sent to", shown="traces are not sent", shape=_COLLECTOR),
    Variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", Kind.TEXT, "", "the same, for traces alone", shape=_COLLECTOR),
    Variable("OTEL_EXPORTER_OTLP_PROTOCOL", Kind.TEXT, "", "how it is spoken to: `http/protobuf` alone"),
    Variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", Kind.TEXT, "", "the same, for traces alone"),
    Variable("OTEL_SERVICE_NAME", Kind.TEXT, "", "what the project is called in traces", shown="`stoa-` and the project"),
    Variable("OTEL_SDK_DISABLED", Kind.FLAG, False, "nothing is traced"),
    Variable("TMPDIR", Kind.TEXT, "", "where uploads wait until they are whole", shown="`/tmp`"),
)  # fmt: skip

_OF_COMMERCE = (
    Variable("STOA_TAX_RATE", Kind.NUMBER, 0, "the tax on what is taxable in an order, in hundredths of a percent: `1900` is 19 %"),
    Variable("STOA_DELIVERY_FEE", Kind.NUMBER, 0, "what delivery costs, once an order, in minor units of the order's currency"),
    Variable("STOA_ANALYTICS_TIME_ZONE", Kind.TEXT, "UTC", "in which zone the days of the figures begin, named by a place as in `Europe/Dublin`; a change makes them anew"),
    Variable("STOA_CONTENT_WRITE_LIMIT", Kind.NUMBER, 5, "reviews, questions, reports and appeals a minute for a user, and invitations"),
    Variable("STOA_UPLOAD_LIMIT", Kind.NUMBER, 10, "uploads a minute a user"),
    Variable("STOA_DELETE_LIMIT", Kind.NUMBER, 10, "deletions of attachments a minute a user"),
    Variable("STOA_MODERATION_AUTO_HIDE_AFTER", Kind.NUMBER, 5, "trusted reporters after whom something is hidden on its own; 0: never"),
    Variable("STOA_MODERATION_UNDO_MINUTES", Kind.NUMBER, 10, "how long a decision can be undone, and nobody is told of it"),
    Variable("STOA_MODERATION_APPEAL_DAYS", Kind.NUMBER, 14, "how long an author may appeal"),
    Variable("STOA_STORAGE", Kind.TEXT, "files", "where attachments lie: `files` of this machine, or `s3`"),
    Variable("STOA_MEDIA_ROOT", Kind.TEXT, "", "the folder of `files`; all shops and workers must see the same", shown="`var/media`"),
    Variable("STOA_S3_BUCKET", Kind.TEXT, "", "the bucket of `s3`"),
    Variable("STOA_S3_PUBLIC_URL", Kind.TEXT, "", "where anybody reads the bucket, such as a CDN; without it, by addresses signed for five minutes", shape=_PAGE),
    Variable("STOA_CLAMD", Kind.TEXT, "", "`tcp://host:3310` or `unix:///path` of a ClamAV daemon; set, nothing is taken that it has not seen", shape=_SCANNER),
    Variable("STOA_DESCRIPTIONS_BASE_URL", Kind.TEXT, "http://127.0.0.1:8001/v1", "any OpenAI-compatible server", shape=_PAGE),
    Variable("STOA_DESCRIPTIONS_API_KEY", Kind.SECRET, "", "the key for it"),
    Variable("STOA_DESCRIPTIONS_MODEL", Kind.TEXT, "stoa-describer", "the model there"),
    Variable("STOA_DESCRIPTIONS_A_DAY", Kind.NUMBER, 500, "how many descriptions a shop may ask for in a day of UTC; 0: any number"),
    Variable("STOA_DESCRIPTIONS_WEBHOOK_SECRET", Kind.SECRET, "", "the `whsec_` secret, of at least 24 bytes, with which the model server signs its word that a batch has ended; without it, it is asked every few seconds"),
)  # fmt: skip

_OF_INFERENCE = (
    Variable("STOA_MODELS_DIR", Kind.LIST, [], "model folders; downloads go into the first", shown="`var/models`"),
    Variable("STOA_LOAD", Kind.LIST, ["stoa-describer", "stoa-encoder"], "models that are wanted the first time; later only what operators said counts"),
    Variable("STOA_REMOTE_MODELS", Kind.SECRET, "", "a JSON array of models of other servers, with their keys"),
    Variable("STOA_MEMORY_BUDGET", Kind.BYTES, "", "what weights and caches of all loaded models may take", shown="no limit"),
    Variable("STOA_MAX_LOADED", Kind.NUMBER, 0, "so many models at once; 0: no limit"),
    Variable("STOA_EVICT", Kind.FLAG, False, "who needs room gets that of the idle model that was used longest ago; else the load is 503"),
    Variable("STOA_AUTOLOAD", Kind.FLAG, False, "a request for a model that is not loaded loads it"),
    Variable("STOA_IDLE_UNLOAD", Kind.DECIMAL, 0.0, "seconds after which a model that nobody uses is ended, and a request brings a wanted one back; 0: never"),
    Variable("STOA_START_HOST", Kind.FLAG, True, "servers and workers start a model host where none runs; `false` where it runs apart, as in containers"),
    Variable("STOA_RUN_DIR", Kind.TEXT, "", "where the model host's sockets are; web processes and workers of one machine share it", shown="`var/run`"),
    Variable("STOA_COMPILED_DIR", Kind.TEXT, "", "the model host's compiled kernels, private to its user", shown="`var/compiled`"),
    Variable("STOA_KEY_REQUEST_LIMIT", Kind.NUMBER, 600, "requests a minute of a key; the admin sets this and the next two for one key on its page"),
    Variable("STOA_KEY_TOKEN_LIMIT", Kind.NUMBER, 200_000, "tokens a minute of a key"),
    Variable("STOA_KEY_CONCURRENCY_LIMIT", Kind.NUMBER, 16, "requests at once of a key"),
    Variable("STOA_USER_REQUEST_LIMIT", Kind.NUMBER, 1200, "requests a minute of all keys and sessions of a user"),
    Variable("STOA_USER_TOKEN_LIMIT", Kind.NUMBER, 400_000, "tokens a minute of all keys and sessions of a user"),
    Variable("STOA_USER_CONCURRENCY_LIMIT", Kind.NUMBER, 32, "requests at once of all keys and sessions of a user"),
    Variable("STOA_KEY_MONTHLY_TOKEN_LIMIT", Kind.NUMBER, 0, "tokens a month of a key and of the batches made with it, unless its page in the admin says otherwise; 0: any number"),
    Variable("STOA_USER_MONTHLY_TOKEN_LIMIT", Kind.NUMBER, 0, "tokens a month of all that speaks for a user, batches included, unless their page in the admin says otherwise; 0: any number"),
    Variable("STOA_ADDRESS_REQUEST_LIMIT", Kind.NUMBER, 60, "requests a minute of an address without a key"),
    Variable("STOA_TRACE_SPANS", Kind.NUMBER, 200_000, "at most so many spans are kept for `GET /traces`, each for a day"),
    Variable("STOA_SOCKETS", Kind.NUMBER, 2000, "WebSockets open at once in one process"),
    Variable("STOA_SOCKETS_PER_USER", Kind.NUMBER, 20, "the same, of one user"),
    Variable("STOA_FILES_DIR", Kind.TEXT, "", "where files of batches lie; web servers and workers on several machines share it, or use S3", shown="`var/files`"),
    Variable("STOA_FILES_BUCKET", Kind.TEXT, "", "an S3 bucket instead, that nobody else reads"),
    Variable("STOA_MAX_FILE_BYTES", Kind.BYTES, "200MiB", "of one file"),
    Variable("STOA_FILES_PER_USER", Kind.BYTES, "10GiB", "of all files of one user, what batches have written included"),
    Variable("STOA_BATCH_REQUESTS", Kind.NUMBER, 50_000, "requests of one batch"),
    Variable("STOA_MAX_BATCH_BYTES", Kind.BYTES, "128MiB", "of the body of one batch"),
    Variable("STOA_BATCHES_PER_USER", Kind.BYTES, "10GiB", "of the requests and results of all batches of one user, with about 512 bytes a request beside them; past it nothing is accepted, and what is not done fails"),
    Variable("STOA_BATCH_QUEUED_TOKENS", Kind.NUMBER, 500_000_000, "tokens that the open batches of one user may take together, prompts estimated; past it a batch is refused"),
    Variable("STOA_BATCH_KEEP_DAYS", Kind.DECIMAL, 7.0, "days after which a batch, its results and its files go"),
    Variable("STOA_WEBHOOK_ALLOW", Kind.LIST, [], "receivers of webhooks that may be anywhere, as `host:port`, exactly as they stand in the address; all others are public, on port 80 or 443"),
    Variable("HF_ENDPOINT", Kind.TEXT, "https://huggingface.co", "the hub that models are downloaded from"),
    Variable("HF_TOKEN", Kind.SECRET, "", "who we are there; it is not sent on to where the hub redirects"),
    Variable("NO_COLOR", Kind.TEXT, "", "set to anything: the command line prints no colours"),
)  # fmt: skip

VARIABLES: Final = (
    *_OF_BOTH,
    *(replace(variable, projects=COMMERCE) for variable in _OF_COMMERCE),
    *(replace(variable, projects=INFERENCE) for variable in _OF_INFERENCE),
)


def table(project: str) -> str:
    """The variables that this project reads, as Markdown."""
    rows = [
        f"| `{variable.name}` | {variable.kind.value} | {variable.default_shown} | {variable.meaning} |"
        for variable in VARIABLES
        if project in variable.projects
    ]
    return "\n".join(["| variable | type | default | meaning |", "|---|---|---|---|", *rows])
