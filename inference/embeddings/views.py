"""Views of embeddings."""

import re

from django.http import HttpRequest

from inference.access.operations import OperationCall, operation
from inference.embeddings import schema, services
from inference.engine import EmbeddingRequest
from inference.protocol.native.embeddings import EmbeddingsRequest, EmbeddingsResponse, EmbeddingVector
from inference.protocol.openai.embeddings import OpenAIEmbeddingsRequest, OpenAIEmbeddingsResponse
from inference.protocol.token_usage import EmbeddingsTokenUsage
from shared.accounts.roles import Permission
from shared.observability.request_id import current_request_id

BACKGROUND = re.compile(r"(?:^|,)\s*u=[67]\s*(?:,|$)")  # the two lowest urgencies of the header Priority (RFC 9218)


@operation(
    "POST",
    docs=schema.EMBEDDINGS,
    permission=Permission.RUN_INFERENCE,
    body=EmbeddingsRequest,
    response=EmbeddingsResponse,
    idempotent=True,
)
async def embeddings(call: OperationCall[EmbeddingsRequest]) -> EmbeddingsResponse:
    request = _request(call.request, call.body.texts())
    result = await services.embed(caller=call.caller, model_id=call.body.model, request=request)
    return EmbeddingsResponse(
        model=call.body.model,
        data=[
            EmbeddingVector(services.encode_vector(vector, call.body.encoding_format), index)
            for index, vector in enumerate(result.vectors)
        ],
        usage=EmbeddingsTokenUsage(result.prompt_tokens, result.prompt_tokens),
    )


@operation(
    "POST",
    docs=schema.OPENAI_EMBEDDINGS,
    permission=Permission.RUN_INFERENCE,
    body=OpenAIEmbeddingsRequest,
    response=OpenAIEmbeddingsResponse,
    idempotent=True,
)
async def openai_embeddings(call: OperationCall[OpenAIEmbeddingsRequest]) -> OpenAIEmbeddingsResponse:
    request = _request(call.request, call.body.texts())
    result = await services.embed(
        caller=call.caller, model_id=call.body.model, request=request, dimensions=call.body.dimensions
    )
    return services.build_openai_response(call.body.model, result, call.body.encoding_format)


def _request(http_request: HttpRequest, texts: tuple[str | tuple[int, ...], ...]) -> EmbeddingRequest:
    is_background = BACKGROUND.search(http_request.headers.get("Priority", "")) is not None
    return EmbeddingRequest(request_id=current_request_id(), texts=texts, batch=is_background, one_core=is_background)
