"""Routes of models and of the service's health."""

import msgspec
from django.utils import timezone
from msgspec import structs

from inference.access.operations import OperationCall, operation
from inference.protocol.native.health import HealthResponse
from inference.protocol.native.models import (
    LoadModelRequest,
    LoadModelResponse,
    ModelList,
    UnloadModelRequest,
    UnloadModelResponse,
)
from inference.protocol.openai.models import OpenAIModel, OpenAIModelList
from inference.registry import model_status, schema, services
from shared.accounts.roles import Permission


@operation("GET", docs=schema.HEALTH, permission=None, response=HealthResponse)
async def health(call: OperationCall[None]) -> HealthResponse:
    return await model_status.read_health()


@operation("GET", docs=schema.LIST_MODELS, permission=Permission.READ_MODELS, response=ModelList)
async def models(call: OperationCall[None]) -> ModelList:
    is_operator = call.caller.has_permission(Permission.MANAGE_MODELS)
    return ModelList(await model_status.list_models(with_members=is_operator))


@operation(
    "POST",
    docs=schema.LOAD_MODEL,
    permission=Permission.MANAGE_MODELS,
    body=LoadModelRequest,
    body_required=False,
    response=LoadModelResponse,
    idempotent=True,
)
async def load(call: OperationCall[LoadModelRequest], model_id: str) -> LoadModelResponse:
    report = await services.load_model(
        model_id=model_id, options=call.body.options(), actor=call.caller.user, now=timezone.now()
    )
    return msgspec.convert({"status": "loaded", **structs.asdict(report)}, LoadModelResponse)


@operation(
    "POST",
    docs=schema.UNLOAD_MODEL,
    permission=Permission.MANAGE_MODELS,
    body=UnloadModelRequest,
    body_required=False,
    response=UnloadModelResponse,
)
async def unload(call: OperationCall[UnloadModelRequest], model_id: str) -> UnloadModelResponse:
    await services.unload_model(model_id=model_id, force=call.body.force, actor=call.caller.user, now=timezone.now())
    return UnloadModelResponse("unloaded", model_id)


@operation("GET", docs=schema.OPENAI_LIST_MODELS, permission=Permission.READ_MODELS, response=OpenAIModelList)
async def openai_models(call: OperationCall[None]) -> OpenAIModelList:
    entries = [
        OpenAIModel(model.id, "model", model.changed_at, "stoa") for model in await services.list_loadable_models()
    ]
    return OpenAIModelList("list", entries)


@operation("GET", docs=schema.OPENAI_MODEL, permission=Permission.READ_MODELS, response=OpenAIModel)
async def openai_model(call: OperationCall[None], model_id: str) -> OpenAIModel:
    model = await services.find_loadable_model(model_id)
    return OpenAIModel(model.id, "model", model.changed_at, "stoa")
