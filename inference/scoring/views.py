"""Views of reranking, scores, decisions and moderations."""

import secrets
import time

from inference.access.operations import OperationCall, operation
from inference.engine import ScoringRequest
from inference.protocol.openai.decisions import (
    DecisionsInputTokensDetails,
    DecisionsOutputTokensDetails,
    DecisionsRequest,
    DecisionsResponse,
    DecisionsUsage,
    parse_decisions_request,
)
from inference.protocol.openai.moderations import ModerationsRequest, ModerationsResponse
from inference.protocol.scoring.rerank import RerankRequest, RerankResponse
from inference.protocol.scoring.scores import PairScore, ScoreRequest, ScoreResponse
from inference.protocol.token_usage import EmbeddingsTokenUsage
from inference.scoring import schema, services
from inference.scoring.decisions import answer, context_text, scoring_question
from inference.scoring.moderations import moderate, moderation_result
from inference.scoring.reranking import rerank_documents
from shared.accounts.roles import Permission
from shared.observability.request_id import current_request_id


@operation(
    "POST",
    docs=schema.RERANK,
    permission=Permission.RUN_INFERENCE,
    body=RerankRequest,
    response=RerankResponse,
    idempotent=True,
)
async def rerank(call: OperationCall[RerankRequest]) -> RerankResponse:
    is_wanted = call.body.return_documents is not False
    return await rerank_documents(caller=call.caller, body=call.body, returns_documents=is_wanted)


@operation(
    "POST",
    docs=schema.COHERE_RERANK,
    permission=Permission.RUN_INFERENCE,
    body=RerankRequest,
    response=RerankResponse,
    idempotent=True,
)
async def rerank_without_documents(call: OperationCall[RerankRequest]) -> RerankResponse:
    is_wanted = call.body.return_documents is True
    return await rerank_documents(caller=call.caller, body=call.body, returns_documents=is_wanted)


@operation(
    "POST",
    docs=schema.SCORE,
    permission=Permission.RUN_INFERENCE,
    body=ScoreRequest,
    response=ScoreResponse,
    idempotent=True,
)
async def score(call: OperationCall[ScoreRequest]) -> ScoreResponse:
    queries, texts = call.body.pairs()
    is_cut = call.body.truncate_prompt_tokens is not None
    request = ScoringRequest(
        request_id=current_request_id(),
        texts=texts,
        queries=queries,
        max_text_tokens=2**31 - 1 if is_cut else None,
        max_tokens=call.body.max_tokens(),
    )
    result = await services.score_texts(caller=call.caller, model_id=call.body.model, request=request)
    return ScoreResponse(
        id=f"score-{secrets.token_hex(12)}",
        object="list",
        created=int(time.time()),
        model=call.body.model,
        data=[PairScore(index, "score", score) for index, (score,) in enumerate(result.scores)],
        usage=EmbeddingsTokenUsage(result.prompt_tokens, result.prompt_tokens),
    )


@operation(
    "POST",
    docs=schema.DECISIONS,
    permission=Permission.RUN_INFERENCE,
    body=DecisionsRequest,
    body_parser=parse_decisions_request,
    response=DecisionsResponse,
    idempotent=True,
)
async def decisions(call: OperationCall[DecisionsRequest]) -> DecisionsResponse:
    body = call.body
    request = ScoringRequest(
        request_id=current_request_id(),
        context=context_text(body.input),
        questions=tuple(map(scoring_question, body.questions)),
    )
    result = await services.score_texts(caller=call.caller, model_id=body.model, request=request)
    return DecisionsResponse(
        answers=[answer(question, scores) for question, scores in zip(body.questions, result.scores, strict=True)],
        model=body.model,
        usage=DecisionsUsage(
            input_tokens=result.prompt_tokens,
            input_tokens_details=DecisionsInputTokensDetails(result.cached_tokens, result.cache_write_tokens),
            output_tokens=0,
            output_tokens_details=DecisionsOutputTokensDetails(0),
            total_tokens=result.prompt_tokens,
        ),
    )


@operation(
    "POST",
    docs=schema.MODERATIONS,
    permission=Permission.RUN_INFERENCE,
    body=ModerationsRequest,
    response=ModerationsResponse,
    idempotent=True,
)
async def moderations(call: OperationCall[ModerationsRequest]) -> ModerationsResponse:
    model_id, rows = await moderate(caller=call.caller, model=call.body.model, texts=call.body.texts())
    return ModerationsResponse(
        id=f"modr-{secrets.token_hex(12)}", model=model_id, results=list(map(moderation_result, rows))
    )
