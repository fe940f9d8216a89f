"""Models under Ollama's names, their descriptions, and embeddings of texts that are cut to the context."""

import hashlib
from datetime import UTC, datetime

from django.conf import settings
from msgspec.structs import replace

from inference.embeddings.services import embed
from inference.engine import ContextLengthExceeded, EmbeddingRequest, EmbeddingResult, TokenizationRequest
from inference.protocol.native.models import ModelInfo
from inference.protocol.ollama.models import (
    OllamaLoadedModel,
    OllamaModel,
    OllamaModelDescription,
    OllamaModelDetails,
)
from inference.protocol.ollama.options import LATEST
from inference.registry.catalog import CatalogModel
from inference.registry.model_status import list_models
from inference.registry.services import find_loadable_model, list_loadable_models
from inference.tokens.services import tokenize
from shared.accounts.authentication import Principal

FAMILY = "stoa"
_UNITS = ((10**9, "B"), (10**6, "M"), (10**3, "K"))
_CAPABILITIES = {"text-generation": ["completion", "tools"], "embeddings": ["embedding"]}


async def model_id_of(name: str) -> str:
    """Return the id of the model that an Ollama client names: `:latest` is the model itself."""
    if not name.endswith(LATEST) or name in {model.id for model in await list_loadable_models()}:
        return name
    return name.removesuffix(LATEST)


async def ollama_models() -> list[OllamaModel]:
    """Return the models that can be loaded."""
    return [
        OllamaModel(
            name=model.id,
            model=model.id,
            modified_at=_time(model.changed_at),
            size=model.size_bytes,
            digest=_digest(model),
            details=_details(model),
        )
        for model in await list_loadable_models()
    ]


async def loaded_ollama_models() -> list[OllamaLoadedModel]:
    """Return the loaded models. Those whose files are gone have no details."""
    catalog = {model.id: model for model in await list_loadable_models()}
    return [
        _loaded_model(info, catalog.get(info.id) or CatalogModel(id=info.id, type=info.type))
        for info in await list_models()
        if info.loaded
    ]


async def describe_ollama_model(model_id: str) -> OllamaModelDescription:
    """Return a model's description. Raise ApiError MODEL_NOT_FOUND."""
    model = await find_loadable_model(model_id)
    info: dict[str, str | int] = {"general.architecture": FAMILY, f"{FAMILY}.context_length": model.context_size}
    if model.parameters is not None:
        info["general.parameter_count"] = model.parameters
    return OllamaModelDescription(
        modified_at=_time(model.changed_at),
        details=_details(model),
        model_info=info,
        capabilities=[name for capability in model.capabilities for name in _CAPABILITIES.get(capability, [])],
    )


async def embed_within_context(
    *, caller: Principal, model_id: str, request: EmbeddingRequest, dimensions: int | None, truncate: bool
) -> EmbeddingResult:
    """Return vectors in the order of the texts, as `embed` does.

    truncate: cut the texts that are longer than the model's context instead of raising ContextLengthExceeded.
    """
    try:
        return await embed(caller=caller, model_id=model_id, request=request, dimensions=dimensions)
    except ContextLengthExceeded:
        if not truncate:
            raise
    texts = [await _cut(caller, model_id, str(text)) for text in request.texts]
    return await embed(
        caller=caller, model_id=model_id, request=replace(request, texts=tuple(texts)), dimensions=dimensions
    )


async def _cut(caller: Principal, model_id: str, text: str) -> str | tuple[int, ...]:
    """Return the text, or the tokens of its beginning if it is longer than the context."""
    result = await tokenize(caller=caller, model_id=model_id, request=TokenizationRequest(text=text))
    if len(result.ids) <= result.context_size:
        return text
    return (*result.ids[: result.context_size - 1], result.ids[-1])  # the last one is the tokenizer's end token


def offers_anthropic() -> bool:
    """Return whether the operator offers Anthropic's API."""
    return settings.ANTHROPIC_API


def offers_ollama() -> bool:
    """Return whether the operator offers Ollama's API."""
    return settings.OLLAMA_API


def offers_mcp() -> bool:
    """Return whether the operator offers the Model Context Protocol."""
    return settings.MCP_API


def version() -> str:
    """Return the server's version."""
    return settings.VERSION


def _loaded_model(info: ModelInfo, model: CatalogModel) -> OllamaLoadedModel:
    size = info.memory_usage_bytes or 0
    return OllamaLoadedModel(
        name=info.id,
        model=info.id,
        size=size,
        digest=_digest(model),
        details=_details(model),
        size_vram=info.gpu_memory_bytes or 0,
        context_length=info.context_size,
    )


def _details(model: CatalogModel) -> OllamaModelDetails:
    return OllamaModelDetails(
        format=model.type,
        families=[FAMILY],
        parameter_size=_short(model.parameters),
        quantization_level=model.quantization or (model.dtype or "").replace("float", "F").replace("bF", "BF"),
    )


def _short(count: int | None) -> str:
    if count is None:
        return ""
    unit, letter = next(((unit, letter) for unit, letter in _UNITS if count >= unit), (1, ""))
    return f"{count / unit:.1f}{letter}"


def _digest(model: CatalogModel) -> str:
    state = f"{model.id}:{model.type}:{model.size_bytes}:{model.changed_at}"
    return hashlib.sha256(state.encode()).hexdigest()


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
