"""Arguments and results of the tools of /mcp. They are few and short, since models read their descriptions."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.json import encode

from inference.engine import GenerationRequest, InvalidRequest
from inference.protocol.fields import ModelId
from inference.protocol.native.batches import BatchId, BatchItemId, BatchResultsQuery, BatchStatusResponse
from inference.protocol.native.body import RequestBody
from inference.protocol.native.inference import InferenceRequest
from inference.protocol.openai.chat import parse_chat_request
from inference.protocol.parameters import MaxTokens, Seed, StopSequences, Temperature, TopP
from inference.protocol.parsing import parse_struct
from inference.protocol.scoring.rerank import MAX_DOCUMENTS, RerankRequest
from inference.protocol.token_usage import EmbeddingsTokenUsage, TokenUsage

DEFAULT_MAX_TOKENS = 512
MAX_TOOL_TEXTS = 128  # a result with the vectors of more texts is too long for most clients
MAX_PRODUCTS = 20
MAX_QUERY_LENGTH = 500

Prompt = Annotated[str, Meta(min_length=1, description="The user's message to the model.")]
SystemPrompt = Annotated[str, Meta(description="Instructions for the model, before the user's message.")]


class _Sampling(RequestBody, kw_only=True):
    max_tokens: Annotated[MaxTokens, Meta(description="Maximum number of generated tokens.")] = DEFAULT_MAX_TOKENS
    temperature: Temperature | UnsetType = UNSET
    top_p: TopP | UnsetType = UNSET
    stop: StopSequences | UnsetType = UNSET
    seed: Seed | UnsetType = UNSET

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that are set, by their names on every surface."""
        names = ("max_tokens", "temperature", "top_p", "stop", "seed")
        return {name: value for name in names if (value := getattr(self, name)) is not UNSET}


class GenerateTextArguments(_Sampling, kw_only=True):
    """Arguments of the tool `generate_text`."""

    model: ModelId
    prompt: Prompt
    system: SystemPrompt | UnsetType = UNSET
    raw: Annotated[
        bool, Meta(description="Whether the model continues `prompt` itself, without its chat template.")
    ] = False
    json_schema: (
        Annotated[dict[str, Any], Meta(description="JSON schema that the text must match; it is then a JSON document.")]
        | UnsetType
    ) = UNSET

    def generation_request(self, request_id: str) -> GenerationRequest:
        """Return the engine's request. Raise InvalidRequest for arguments that exclude each other."""
        fields: dict[str, Any] = {"model": self.model} | self.parameters()
        if self.json_schema is not UNSET:
            wanted = {"name": "answer", "strict": True, "schema": self.json_schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": wanted}
        if not self.raw:
            fields["messages"] = _messages(self.prompt, self.system)
            return parse_chat_request(fields).generation_request(request_id)
        if self.system is not UNSET:
            raise InvalidRequest("`system` needs the chat template: leave it out, or `raw`.", field="system")
        return parse_struct(fields | {"prompt": self.prompt}, InferenceRequest).generation_request(request_id)


class GeneratedTextResult(Struct, omit_defaults=True):
    """Result of the tool `generate_text`."""

    text: Annotated[str, Meta(description="Generated text.")]
    finish_reason: Annotated[
        str, Meta(description="`stop` at its end, or `length` if it was cut at `max_tokens` or the context.")
    ]
    usage: Annotated[TokenUsage, Meta(description="Token usage.")]
    reasoning: Annotated[str, Meta(description="Reasoning before the text, if the model writes any.")] | UnsetType = (
        UNSET
    )


class EmbedTextsArguments(RequestBody, kw_only=True):
    """Arguments of the tool `embed_texts`."""

    model: ModelId
    texts: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(min_length=1, max_length=MAX_TOOL_TEXTS, description=f"Up to {MAX_TOOL_TEXTS} texts."),
    ]
    dimensions: (
        Annotated[
            int, Meta(ge=1, le=2**31 - 1, description="Length to which the vectors are cut; all numbers by default.")
        ]
        | UnsetType
    ) = UNSET


class EmbeddingsResult(Struct):
    """Result of the tool `embed_texts`."""

    vectors: Annotated[list[list[float]], Meta(description="One vector of length 1 for each text, in their order.")]
    usage: Annotated[EmbeddingsTokenUsage, Meta(description="Token usage.")]


class RerankDocumentsArguments(RequestBody, kw_only=True):
    """Arguments of the tool `rerank_documents`."""

    model: ModelId
    query: Annotated[str, Meta(min_length=1, description="Text that the documents are compared with.")]
    documents: Annotated[
        list[str], Meta(min_length=1, max_length=MAX_DOCUMENTS, description=f"Up to {MAX_DOCUMENTS} texts.")
    ]
    top_n: (
        Annotated[int, Meta(ge=1, le=MAX_DOCUMENTS, description="Number of results; all by default.")] | UnsetType
    ) = UNSET

    def rerank_request(self) -> RerankRequest:
        """Return the request of POST /rerank."""
        top_n = None if self.top_n is UNSET else self.top_n
        return RerankRequest(model=self.model, query=self.query, documents=list(self.documents), top_n=top_n)


class RankedDocument(Struct):
    """One document of a result."""

    index: Annotated[int, Meta(description="Position of the document in the arguments, from 0.")]
    relevance_score: Annotated[float, Meta(description="Relevance to the query; higher is more relevant.")]
    text: Annotated[str, Meta(description="Text of the document.")]


class RankedDocumentsResult(Struct):
    """Result of the tool `rerank_documents`."""

    results: Annotated[list[RankedDocument], Meta(description="Documents, the most relevant first.")]
    usage: Annotated[EmbeddingsTokenUsage, Meta(description="Token usage.")]


class BatchPrompt(RequestBody, kw_only=True):
    """One request of a batch."""

    id: BatchItemId
    prompt: Prompt
    system: SystemPrompt | UnsetType = UNSET


class SubmitBatchArguments(_Sampling, kw_only=True):
    """Arguments of the tool `submit_batch`."""

    model: ModelId
    requests: Annotated[list[BatchPrompt], Meta(min_length=1, description="Requests, each with an id of its own.")]

    def body(self) -> bytes:
        """Return the body of POST /batch."""
        requests = [{"id": one.id, "messages": _messages(one.prompt, one.system)} for one in self.requests]
        return encode({"model": self.model, "requests": requests} | self.parameters())


class BatchArguments(RequestBody, kw_only=True):
    """Arguments of the tools about one batch."""

    batch_id: BatchId


class BatchResultsArguments(BatchResultsQuery, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the tool `get_batch_results`."""

    batch_id: BatchId


class BatchRequestResult(Struct):
    """The result of one request of a batch."""

    id: BatchItemId
    status: Annotated[str, Meta(description="`completed` or `failed`.")]
    answer: Annotated[
        dict[str, Any] | None,
        Meta(description="Answer in the form of the route that the batch was made for; null if it failed."),
    ]
    error: Annotated[str | None, Meta(description="Reason why it failed, otherwise null.")]


class BatchResults(Struct):
    """Result of the tool `get_batch_results`."""

    batch: Annotated[BatchStatusResponse, Meta(description="The batch.")]
    results: Annotated[
        list[BatchRequestResult],
        Meta(description="Results in the order of the requests, up to the first unfinished one."),
    ]
    next: Annotated[
        int | None, Meta(description="Value of `after` for the next page; null if the batch has ended and has no more.")
    ]


class SearchProductsArguments(RequestBody, kw_only=True):
    """Arguments of the tool `search_products`."""

    query: Annotated[
        str, Meta(min_length=1, max_length=MAX_QUERY_LENGTH, description="Words to search for, such as `brass lamp`.")
    ]
    limit: Annotated[int, Meta(ge=1, le=MAX_PRODUCTS, description="Maximum number of products.")] = 10
    language: Annotated[
        str, Meta(pattern="^[a-z]{2}$", description="Language of the products, as a code of two letters.")
    ] = "en"


class FoundProduct(Struct):
    """One product of the shop."""

    id: Annotated[int, Meta(description="Id of the product.")]
    name: Annotated[str, Meta(description="Name of the product.")]
    slug: Annotated[str, Meta(description="Slug of the product, which its address ends with.")]
    description: Annotated[str, Meta(description="Beginning of its description.")]
    price: Annotated[float | None, Meta(description="Price, or the lowest one of its variations.")]
    currency: Annotated[str, Meta(description="ISO 4217 code of the price's currency.")]
    in_stock: Annotated[bool, Meta(description="Whether it can be ordered now.")]
    shop_id: Annotated[int, Meta(description="Id of the shop that sells it.")]


class FoundProductsResult(Struct):
    """Result of the tool `search_products`."""

    products: Annotated[list[FoundProduct], Meta(description="Products, the best match first.")]
    total: Annotated[int, Meta(description="Number of products that match.")]


def _messages(prompt: str, system: str | UnsetType) -> list[dict[str, str]]:
    before = [] if system is UNSET else [{"role": "system", "content": str(system)}]
    return [*before, {"role": "user", "content": prompt}]
