"""STOA_REMOTE_MODELS: which models another server runs, where it is, and what it understands."""

import re
from typing import Annotated, Literal

import msgspec
from django.core.exceptions import ImproperlyConfigured
from msgspec import Meta

Id = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Capability = Literal["text-generation", "embeddings"]
DialectName = Literal["openai", "vllm", "sglang", "transformers", "llama.cpp", "stoa"]

_ADDRESS = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


class RemoteModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of another server.

    base_url: with its /v1, as OpenAI's clients take it. api_key: sent as a bearer token. model: its name over there,
    where that is not `id`. dialect: what the server understands beyond OpenAI's parameters.
    context_size: tokens; 0 is what the server tells, if it does.
    stream_usage: whether it tells the usage at the end of a stream. Where not, it is asked for whole answers.
    Time limits in seconds: to connect, from there to the first token, and from one token to the next.
    """

    id: Id
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
        if not _ADDRESS.fullmatch(self.base_url):
            raise ValueError("base_url must be like https://gpu.example:8000/v1, without a user or a query")

    def __repr__(self) -> str:
        return f"RemoteModel({self.id!r})"  # the key stays out of logs

    @property
    def name(self) -> str:
        return self.model or self.id

    def url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/')}/{path}"


def read_remote_models(text: str) -> dict[str, RemoteModel]:
    """The models by id. ImproperlyConfigured says what is wrong, without repeating a key."""
    try:
        models = msgspec.json.decode(text or "[]", type=list[RemoteModel])
    except msgspec.DecodeError as error:
        raise ImproperlyConfigured(
            f'STOA_REMOTE_MODELS is wrong: {error}. It is a JSON array like [{{"id": "big", '
            '"base_url": "https://gpu.example:8000/v1", "api_key": "...", "dialect": "vllm"}].'
        ) from None
    by_id = {model.id: model for model in models}
    if len(by_id) < len(models):
        raise ImproperlyConfigured("STOA_REMOTE_MODELS names an id twice: every id must be its own.")
    return by_id
