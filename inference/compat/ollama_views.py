"""Views of Ollama's API."""

import time

from inference.access.operations import OperationCall, operation
from inference.compat import schema, services
from inference.embeddings.services import read_vector
from inference.engine import EmbeddingRequest, FinishReason
from inference.generation import services as generation
from inference.generation.streaming import EventStreamResponse
from inference.protocol.errors import model_unloaded_error
from inference.protocol.ollama.models import (
    OllamaLoadedModelList,
    OllamaModelDescription,
    OllamaModelList,
    OllamaVersion,
)
from inference.protocol.ollama.requests import (
    OllamaChatRequest,
    OllamaEmbedRequest,
    OllamaGenerateRequest,
    OllamaShowRequest,
    parse_chat_request,
    parse_embed_request,
    parse_generate_request,
)
from inference.protocol.ollama.responses import (
    CONTENT_TYPE,
    OllamaChatResponse,
    OllamaEmbedResponse,
    OllamaGenerateResponse,
    OllamaResponder,
)
from inference.registry.services import ensure_loaded
from shared.accounts.roles import Permission
from shared.observability.request_id import current_request_id

OllamaResponse = OllamaChatResponse | OllamaGenerateResponse | EventStreamResponse


@operation(
    "POST",
    docs=schema.OLLAMA_CHAT,
    permission=Permission.RUN_INFERENCE,
    body=OllamaChatRequest,
    body_parser=parse_chat_request,
    response=OllamaChatResponse,
    content_type=CONTENT_TYPE,
)
async def chat(call: OperationCall[OllamaChatRequest]) -> OllamaResponse:
    return await _respond(call, OllamaResponder(call.body.model, is_chat=True))


@operation(
    "POST",
    docs=schema.OLLAMA_GENERATE,
    permission=Permission.RUN_INFERENCE,
    body=OllamaGenerateRequest,
    body_parser=parse_generate_request,
    response=OllamaGenerateResponse,
    content_type=CONTENT_TYPE,
)
async def generate(call: OperationCall[OllamaGenerateRequest]) -> OllamaResponse:
    return await _respond(call, OllamaResponder(call.body.model, is_chat=False))


@operation(
    "POST",
    docs=schema.OLLAMA_EMBED,
    permission=Permission.RUN_INFERENCE,
    body=OllamaEmbedRequest,
    body_parser=parse_embed_request,
    response=OllamaEmbedResponse,
)
async def embed(call: OperationCall[OllamaEmbedRequest]) -> OllamaEmbedResponse:
    started_at, body = time.monotonic_ns(), call.body
    request = EmbeddingRequest(request_id=current_request_id(), texts=body.texts())
    result = await services.embed_within_context(
        caller=call.caller,
        model_id=await services.model_id_of(body.model),
        request=request,
        dimensions=body.dimensions,
        truncate=body.truncate,
    )
    return OllamaEmbedResponse(
        model=body.model,
        embeddings=[read_vector(vector).tolist() for vector in result.vectors],
        total_duration=time.monotonic_ns() - started_at,
        prompt_eval_count=result.prompt_tokens,
    )


@operation("GET", docs=schema.OLLAMA_TAGS, permission=Permission.READ_MODELS, response=OllamaModelList)
async def list_models(call: OperationCall[None]) -> OllamaModelList:
    return OllamaModelList(await services.ollama_models())


@operation("GET", docs=schema.OLLAMA_PS, permission=Permission.READ_MODELS, response=OllamaLoadedModelList)
async def list_loaded_models(call: OperationCall[None]) -> OllamaLoadedModelList:
    return OllamaLoadedModelList(await services.loaded_ollama_models())


@operation(
    "POST",
    docs=schema.OLLAMA_SHOW,
    permission=Permission.READ_MODELS,
    body=OllamaShowRequest,
    response=OllamaModelDescription,
)
async def show(call: OperationCall[OllamaShowRequest]) -> OllamaModelDescription:
    return await services.describe_ollama_model(await services.model_id_of(call.body.model))


@operation("GET", docs=schema.OLLAMA_VERSION, permission=None, response=OllamaVersion)
async def version(call: OperationCall[None]) -> OllamaVersion:
    return OllamaVersion(services.version())


async def _respond(
    call: OperationCall[OllamaChatRequest] | OperationCall[OllamaGenerateRequest], responder: OllamaResponder
) -> OllamaResponse:
    body = call.body
    model_id = await services.model_id_of(body.model)
    if not body.generates:
        await ensure_loaded(model_id=model_id)
        return responder.loaded()
    request = body.generation_request(generation.new_id("ollama_"))
    if body.stream:
        outputs = await generation.start_stream(caller=call.caller, model_id=model_id, request=request)
        return EventStreamResponse(
            outputs, responder.lines, content_type=CONTENT_TYPE, keep_alive=responder.keep_alive()
        )
    completion = await generation.complete(caller=call.caller, model_id=model_id, request=request)
    [choice] = completion.choices
    if choice.finish_reason is FinishReason.CANCELLED:
        raise model_unloaded_error()
    return responder.whole(choice, completion.usage)
