"""Reranking: documents in the order of their relevance to a query."""

import secrets

from inference.engine import ScoringRequest
from inference.protocol.scoring.rerank import (
    RerankedDocument,
    RerankMeta,
    RerankRequest,
    RerankResponse,
    RerankResult,
    RerankTokens,
)
from inference.protocol.token_usage import EmbeddingsTokenUsage
from inference.scoring.services import score_texts
from shared.accounts.authentication import Principal
from shared.observability.request_id import current_request_id


async def rerank_documents(*, caller: Principal, body: RerankRequest, returns_documents: bool) -> RerankResponse:
    """Return the documents of a request, the most relevant first. Raise as `score_texts` does."""
    texts = body.texts()
    request = ScoringRequest(
        request_id=current_request_id(),
        texts=texts,
        queries=(body.query,),
        max_text_tokens=body.max_document_tokens(),
        max_tokens=body.max_input_tokens(),
    )
    result = await score_texts(caller=caller, model_id=body.model, request=request)
    ranked = sorted(enumerate(score for (score,) in result.scores), key=lambda one: (-one[1], one[0]))
    results = [RerankResult(index, score) for index, score in ranked[: body.top_n or len(ranked)]]
    if returns_documents:
        for one in results:
            one.document = RerankedDocument(texts[one.index])
    return RerankResponse(
        id=f"rerank-{secrets.token_hex(12)}",
        object="list",
        model=body.model,
        results=results,
        usage=EmbeddingsTokenUsage(result.prompt_tokens, result.prompt_tokens),
        meta=RerankMeta(RerankTokens(result.prompt_tokens)),
    )
