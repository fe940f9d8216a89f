"""The route of embeddings."""

import base64
import sys
from array import array

from inference.access.operations import Call, operation
from inference.embeddings import services
from inference.engine import EmbeddingRequest
from inference.protocol import native
from shared.accounts.roles import Permission
from shared.observability.request_id import current_request_id


@operation(
    "POST",
    summary="Embed texts",
    permission=Permission.RUN_INFERENCE,
    body=native.EmbeddingsBody,
    answer=native.EmbeddingsAnswer,
)
async def embeddings(call: Call[native.EmbeddingsBody]) -> native.EmbeddingsAnswer:
    """One vector a text, in the order of the input."""
    request = EmbeddingRequest(request_id=current_request_id(), texts=call.body.texts())
    result = await services.embed(model_id=call.body.model, request=request)
    form = _base64 if call.body.encoding_format == "base64" else _numbers
    return native.EmbeddingsAnswer(
        model=call.body.model,
        data=[native.Embedding(form(vector), index) for index, vector in enumerate(result.vectors)],
        usage=native.EmbeddingsUsage(result.prompt_tokens, result.prompt_tokens),
    )


def _base64(vector: bytes) -> str:
    return base64.b64encode(vector).decode()


def _numbers(vector: bytes) -> list[float]:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
