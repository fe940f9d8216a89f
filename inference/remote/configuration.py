"""Remote models, their servers and dialects, and the setting STOA_REMOTE_MODELS that named them."""

import re
from typing import Annotated, Literal

import httpx2
import msgspec
from django.core.exceptions import ImproperlyConfigured
from msgspec import Meta

MODEL_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"
API_KEY_PATTERN = r"^[!-~]*\Z"
_BASE_URL_PATTERN = r"^https?://[^\s/?#@]+(/[^\s?#]*)?\Z"
_MAX_PORT = 65535
ModelId = Annotated[str, Meta(pattern=MODEL_ID_PATTERN)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Capability = Literal["text-generation", "embeddings"]
DialectName = Literal["openai", "vllm", "sglang", "transformers", "llama.cpp", "stoa"]


class RemoteModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A model that another server runs.

    base_url: the server's URL with /v1, as OpenAI's clients take it. api_key: sent as a bearer token.
    model: the server's name of the model, if it is not `id`. dialect: see `inference.remote.dialects`.
    context_size: tokens; 0: what the server reports.
    stream_usage: whether the server reports usage at the end of a stream. If not, responses are not streamed.
    connect_timeout, first_token_timeout, token_timeout: seconds to connect, to the first token, and between tokens.
    """

    id: ModelId
    base_url: str
    api_key: str = ""
    model: str = ""
    dialect: DialectName = "openai"
    capabilities: tuple[Capability, ...] = ("text-generation",)
    context_size: Annotated[int, Meta(ge=0)] = 0
    stream_usage: bool = True
    connect_timeout: Seconds = 5.0
    first_token_timeout: Seconds = 120.0
    token_timeout: Seconds = 60.0

    def __post_init__(self) -> None:
        if not is_base_url(self.base_url):
            raise ValueError("base_url must be like https://gpu.example:8000/v1, without user or query")
        if not re.match(API_KEY_PATTERN, self.api_key):
            raise ValueError("api_key must be printable ASCII without spaces")

    def __repr__(self) -> str:
        return f"RemoteModel({self.id!r})"  # keeps the key out of logs

    @property
    def name(self) -> str:
        """The server's name of the model."""
        return self.model or self.id

    def url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/')}/{path}"


def is_base_url(url: str) -> bool:
    """Return whether a text is the URL of a server, to which requests can be sent."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, UnicodeError):
        return False
    has_port = parsed.port is None or 0 < parsed.port <= _MAX_PORT
    return has_port and bool(parsed.host) and re.match(_BASE_URL_PATTERN, url) is not None


def origin_of(base_url: str) -> tuple[str, str, int | None] | None:
    """Return the scheme, host and port of a server's URL, which share its API key, or None for an invalid URL."""
    if not is_base_url(base_url):
        return None
    url = httpx2.URL(base_url)  # has no port if it is the scheme's own
    return url.scheme, url.host, url.port


def server_of(base_url: str) -> str:
    """Return the host and port of a URL."""
    return base_url.partition("://")[2].partition("/")[0]


def read_remote_models(text: str) -> dict[str, RemoteModel]:
    """Return the models by id. Raise ImproperlyConfigured, whose message contains no API key."""
    try:
        models = msgspec.json.decode(text or "[]", type=list[RemoteModel])
    except msgspec.DecodeError as error:
        raise ImproperlyConfigured(
            f'STOA_REMOTE_MODELS is invalid: {error}. It must be a JSON array like [{{"id": "big", '
            '"base_url": "https://gpu.example:8000/v1", "api_key": "...", "dialect": "vllm"}].'
        ) from None
    by_id = {model.id: model for model in models}
    if len(by_id) < len(models):
        raise ImproperlyConfigured("STOA_REMOTE_MODELS has an id twice: ids must be unique.")
    return by_id
