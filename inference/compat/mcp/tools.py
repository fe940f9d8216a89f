"""The tools of /mcp. Each translates its arguments, calls the service of an HTTP route and translates its result."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.utils import timezone
from django.utils.functional import cached_property
from msgspec import UNSET

from inference.access.requests import heavy_request_slot
from inference.batches import services as batches
from inference.batches.models import BatchRequest
from inference.batches.results import find_batch, read_results, serialize_batch
from inference.batches.submission import create_parsed_batch, parse_batch
from inference.compat.mcp.shop import search_shop
from inference.embeddings.services import embed, read_vector
from inference.engine import EmbeddingRequest, FinishReason
from inference.generation.services import complete, new_id
from inference.protocol.errors import model_unloaded_error
from inference.protocol.mcp.tools import (
    BatchArguments,
    BatchRequestResult,
    BatchResults,
    BatchResultsArguments,
    EmbeddingsResult,
    EmbedTextsArguments,
    FoundProductsResult,
    GeneratedTextResult,
    GenerateTextArguments,
    RankedDocument,
    RankedDocumentsResult,
    RerankDocumentsArguments,
    SearchProductsArguments,
    SubmitBatchArguments,
)
from inference.protocol.native.batches import BatchCreateResponse, BatchStatusResponse
from inference.protocol.token_usage import EmbeddingsTokenUsage, TokenUsage
from inference.registry.services import find_loadable_model
from inference.scoring.reranking import rerank_documents
from shared.accounts.authentication import Principal
from shared.observability.request_id import current_request_id


@dataclass(frozen=True)
class Tool:
    """A tool with the structs of its arguments and its result.

    changes: whether it changes anything on this server; destroys: whether that cannot be undone.
    """

    name: str
    title: str
    description: str
    arguments: type[Any]
    result: type[Any]
    run: Callable[[Principal, Any], Awaitable[msgspec.Struct]]
    changes: bool = False
    destroys: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return object_schema(self.arguments)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        return object_schema(self.result)


def object_schema(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of a struct. Its root is an object, as the protocol asks, and not a reference."""
    schema = msgspec.json.schema(kind)
    components: dict[str, dict[str, Any]] = schema["$defs"]
    for component in components.values():
        component.pop("description", None)  # the docstring of its wire struct
    root = components.pop(schema["$ref"].rpartition("/")[2])
    return root | ({"$defs": components} if components else {})


async def generate_text(caller: Principal, arguments: GenerateTextArguments) -> GeneratedTextResult:
    request = arguments.generation_request(new_id("mcp_"))
    completion = await complete(caller=caller, model_id=arguments.model, request=request)
    [choice] = completion.choices
    if choice.finish_reason is FinishReason.CANCELLED:
        raise model_unloaded_error()
    usage = TokenUsage.from_engine(completion.usage, separates_reasoning=request.separates_reasoning)
    return GeneratedTextResult(choice.text, choice.finish_reason, usage, choice.reasoning or UNSET)


async def embed_texts(caller: Principal, arguments: EmbedTextsArguments) -> EmbeddingsResult:
    request = EmbeddingRequest(request_id=current_request_id(), texts=tuple(arguments.texts))
    dimensions = None if arguments.dimensions is UNSET else arguments.dimensions
    result = await embed(caller=caller, model_id=arguments.model, request=request, dimensions=dimensions)
    return EmbeddingsResult(
        [read_vector(vector).tolist() for vector in result.vectors],
        EmbeddingsTokenUsage(result.prompt_tokens, result.prompt_tokens),
    )


async def rerank(caller: Principal, arguments: RerankDocumentsArguments) -> RankedDocumentsResult:
    response = await rerank_documents(caller=caller, body=arguments.rerank_request(), returns_documents=False)
    results = [
        RankedDocument(one.index, one.relevance_score, arguments.documents[one.index]) for one in response.results
    ]
    return RankedDocumentsResult(results, response.usage)


async def submit_batch(caller: Principal, arguments: SubmitBatchArguments) -> BatchCreateResponse:
    async with heavy_request_slot(caller):
        parsed = await asyncio.to_thread(lambda: parse_batch(arguments.body()))
        await find_loadable_model(parsed.model_id)
        accepted, _ = await sync_to_async(create_parsed_batch)(caller=caller, parsed=parsed, now=timezone.now())
    return accepted


async def get_batch(caller: Principal, arguments: BatchArguments) -> BatchStatusResponse:
    return serialize_batch(await sync_to_async(find_batch)(user=caller.user, batch_id=arguments.batch_id))


async def get_batch_results(caller: Principal, arguments: BatchResultsArguments) -> BatchResults:
    return await sync_to_async(_read_batch_results)(caller, arguments)


def _read_batch_results(caller: Principal, arguments: BatchResultsArguments) -> BatchResults:
    """Return a page. The counts are read after the results, so they include every result of the page."""
    batch = find_batch(user=caller.user, batch_id=arguments.batch_id)
    page = read_results(batch, after=arguments.after, limit=arguments.limit)
    batch.refresh_from_db()
    last = page.requests[-1].index if page.requests else arguments.after
    return BatchResults(serialize_batch(batch), list(map(_batch_result, page.requests)), None if page.is_last else last)


def _batch_result(request: BatchRequest) -> BatchRequestResult:
    result = request.result
    answer = msgspec.json.decode(result.answer) if result.answer else None
    return BatchRequestResult(request.custom_id, request.status, answer, result.error_message or None)


async def cancel_batch(caller: Principal, arguments: BatchArguments) -> BatchStatusResponse:
    batch = await sync_to_async(find_batch)(user=caller.user, batch_id=arguments.batch_id)
    return serialize_batch(await sync_to_async(batches.cancel_batch)(batch_pk=batch.pk, now=timezone.now()))


async def search_products(caller: Principal, arguments: SearchProductsArguments) -> FoundProductsResult:
    return await search_shop(arguments)


SEARCH_PRODUCTS = Tool(
    "search_products",
    "Search products",
    "Searches the products of the shop by words, with spelling mistakes corrected. Returns the best matches.",
    SearchProductsArguments,
    FoundProductsResult,
    search_products,
)
TOOLS = (
    Tool(
        "generate_text",
        "Generate text",
        "Generates text with a model that has the capability text-generation, as the answer to a message.",
        GenerateTextArguments,
        GeneratedTextResult,
        generate_text,
    ),
    Tool(
        "embed_texts",
        "Embed texts",
        "Returns one vector for each text, by a model with the capability embeddings. Similar texts have similar ones.",
        EmbedTextsArguments,
        EmbeddingsResult,
        embed_texts,
    ),
    Tool(
        "rerank_documents",
        "Sort documents by relevance",
        "Sorts documents by their relevance to a query, by a model with the capability rerank or embeddings.",
        RerankDocumentsArguments,
        RankedDocumentsResult,
        rerank,
    ),
    Tool(
        "submit_batch",
        "Submit a batch",
        "Has many prompts answered by one model in the background. Returns the id of the batch at once.",
        SubmitBatchArguments,
        BatchCreateResponse,
        submit_batch,
        changes=True,
    ),
    Tool(
        "get_batch",
        "Get the status of a batch",
        "Returns the status of one of your batches: how many of its requests have completed or failed.",
        BatchArguments,
        BatchStatusResponse,
        get_batch,
    ),
    Tool(
        "get_batch_results",
        "Get results of a batch",
        "Returns a page of the results of one of your batches, in the order of its requests.",
        BatchResultsArguments,
        BatchResults,
        get_batch_results,
    ),
    Tool(
        "cancel_batch",
        "Cancel a batch",
        "Cancels the requests of one of your batches that are not done. Its results so far stay.",
        BatchArguments,
        BatchStatusResponse,
        cancel_batch,
        changes=True,
        destroys=True,
    ),
    SEARCH_PRODUCTS,
)
