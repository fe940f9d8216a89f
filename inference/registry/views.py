"""Routes of models and of the service's health."""

from django.utils import timezone

from inference.access.operations import Call, operation
from inference.protocol import native, openai
from inference.registry import listing, services
from shared.accounts.roles import Permission


@operation("GET", summary="Whether the service is whole", permission=None, answer=native.Health)
async def health(call: Call[None]) -> native.Health:
    """Degraded while a model that should be loaded is not."""
    return await listing.read_health()


@operation("GET", summary="List the models", permission=Permission.READ_MODELS, answer=native.ModelList)
async def models(call: Call[None]) -> native.ModelList:
    """All there are, loaded or not."""
    return native.ModelList(await listing.list_models())


@operation(
    "POST",
    summary="Load a model",
    permission=Permission.MANAGE_MODELS,
    body=native.LoadBody,
    body_required=False,
    answer=native.LoadAnswer,
    keyed=True,
)
async def load(call: Call[native.LoadBody], model_id: str) -> native.LoadAnswer:
    """Answers when it is loaded, with the options in effect; goes on when the client leaves."""
    report = await services.load_model(
        model_id=model_id, options=call.body.options(), actor=call.caller.user, now=timezone.now()
    )
    return native.LoadAnswer(
        status="loaded",
        model_id=report.model_id,
        memory_usage_bytes=report.memory_usage_bytes,
        load_time_ms=report.load_time_ms,
        gpu_layers=report.gpu_layers,
        context_size=report.context_size,
        batch_size=report.batch_size,
        max_sequences=report.max_sequences,
        quantization=report.quantization,
        dtype=report.dtype,
        device=report.device,
        warning=report.warning,
    )


@operation(
    "POST",
    summary="Unload a model",
    permission=Permission.MANAGE_MODELS,
    body=native.UnloadBody,
    body_required=False,
    answer=native.UnloadAnswer,
)
async def unload(call: Call[native.UnloadBody], model_id: str) -> native.UnloadAnswer:
    """Answers when its process is gone. Running requests finish first, unless `force` is true."""
    await services.unload_model(model_id=model_id, force=call.body.force, actor=call.caller.user, now=timezone.now())
    return native.UnloadAnswer("unloaded", model_id)


@operation("GET", summary="List the models (OpenAI)", permission=Permission.READ_MODELS, answer=openai.ModelPage)
async def openai_models(call: Call[None]) -> openai.ModelPage:
    """All that can be loaded."""
    entries = [openai.ModelEntry(card.id, "model", card.changed_at, "stoa") for card in await services.list_cards()]
    return openai.ModelPage("list", entries)


@operation("GET", summary="One model (OpenAI)", permission=Permission.READ_MODELS, answer=openai.ModelEntry)
async def openai_model(call: Call[None], model_id: str) -> openai.ModelEntry:
    """404 names those that there are."""
    card = await services.find_loadable(model_id)
    return openai.ModelEntry(card.id, "model", card.changed_at, "stoa")
