"""Routes of embeddings."""

import base64

from inference.access.operations import Call, operation
from inference.embeddings import services
from inference.engine import EmbeddingRequest
from inference.protocol import native
from inference.protocol.openai_embeddings import OpenAIEmbedding, OpenAIEmbeddingsAnswer, OpenAIEmbeddingsBody
from shared.accounts.roles import Permission
from shared.observability.request_id import current_request_id


@operation(
    "POST",
    summary="Embed texts",
    permission=Permission.RUN_INFERENCE,
    body=native.EmbeddingsBody,
    answer=native.EmbeddingsAnswer,
    keyed=True,
)
async def embeddings(call: Call[native.EmbeddingsBody]) -> native.EmbeddingsAnswer:
    """One vector a text, in the order of the input."""
    request = EmbeddingRequest(request_id=current_request_id(), texts=call.body.texts())
    result = await services.embed(caller=call.caller, model_id=call.body.model, request=request)
    return native.EmbeddingsAnswer(
        model=call.body.model,
        data=[
            native.Embedding(_form(vector, call.body.encoding_format), index)
            for index, vector in enumerate(result.vectors)
        ],
        usage=native.EmbeddingsUsage(result.prompt_tokens, result.prompt_tokens),
    )


@operation(
    "POST",
    summary="Embed texts (OpenAI)",
    permission=Permission.RUN_INFERENCE,
    body=OpenAIEmbeddingsBody,
    answer=OpenAIEmbeddingsAnswer,
    keyed=True,
)
async def openai_embeddings(call: Call[OpenAIEmbeddingsBody]) -> OpenAIEmbeddingsAnswer:
    """One vector a text, in the order of the input. Token ids are taken as they stand."""
    request = EmbeddingRequest(request_id=current_request_id(), texts=call.body.texts())
    result = await services.embed(
        caller=call.caller, model_id=call.body.model, request=request, dimensions=call.body.dimensions
    )
    return OpenAIEmbeddingsAnswer(
        object="list",
        data=[
            OpenAIEmbedding("embedding", index, _form(vector, call.body.encoding_format))
            for index, vector in enumerate(result.vectors)
        ],
        model=call.body.model,
        usage=native.EmbeddingsUsage(result.prompt_tokens, result.prompt_tokens),
    )


def _form(vector: bytes, encoding_format: str | None) -> list[float] | str:
    if encoding_format == "base64":
        return base64.b64encode(vector).decode()
    return services.read_vector(vector).tolist()
