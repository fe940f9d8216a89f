"""Wire structs of POST /rerank, /v1/rerank and /v2/rerank."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import InvalidRequest
from inference.protocol.fields import ModelId
from inference.protocol.native.body import RequestBody
from inference.protocol.token_usage import EmbeddingsTokenUsage

MAX_DOCUMENTS = 1000
DEFAULT_DOCUMENT_TOKENS = 4096  # of Cohere

DocumentText = Annotated[str, Meta(description="Text of the document.", examples=["A brass lamp with a linen shade."])]


class DocumentObject(RequestBody):
    """A document as an object."""

    text: DocumentText


Document = str | DocumentObject


class RerankRequest(RequestBody):
    """A query and the documents to sort by their relevance to it."""

    model: ModelId
    query: Annotated[
        str, Meta(min_length=1, description="Text that the documents are compared with.", examples=["a warm lamp"])
    ]
    documents: Annotated[
        list[Document],
        Meta(
            min_length=1,
            max_length=MAX_DOCUMENTS,
            description=f"Up to {MAX_DOCUMENTS} texts, or objects with a `text`.",
            examples=[["A brass lamp with a linen shade.", "A quiet kettle."]],
        ),
    ]
    top_n: (
        Annotated[
            int,
            Meta(ge=0, le=2**31 - 1, description="Number of results; all by default, and with 0.", examples=[1]),
        ]
        | None
    ) = None
    return_documents: (
        Annotated[
            bool,
            Meta(
                description="Whether results have their documents. By default they have, but under `/v2`.",
                examples=[True],
            ),
        ]
        | None
    ) = None
    max_tokens_per_doc: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=2**31 - 1,
                description=f"Tokens to which each document is cut, {DEFAULT_DOCUMENT_TOKENS} by default. Documents "
                "are cut to the model's context in any case.",
                examples=[512],
            ),
        ]
        | None
    ) = None
    truncation: (
        Annotated[
            bool,
            Meta(description="Whether documents are cut; if false, one that is too long is an error.", examples=[True]),
        ]
        | None
    ) = None
    truncate_prompt_tokens: (
        Annotated[
            int,
            Meta(
                ge=-1,
                le=2**31 - 1,
                description="Tokens to which the query with a document is cut, at its end; -1 is the model's context.",
                examples=[512],
            ),
        ]
        | None
    ) = None

    def texts(self) -> tuple[str, ...]:
        """Return the texts of the documents."""
        return tuple(document if isinstance(document, str) else document.text for document in self.documents)

    def max_document_tokens(self) -> int | None:
        """Return the number of tokens to which documents are cut; None if they are not.

        Raise InvalidRequest for limits without truncation.
        """
        if self.truncation is False:
            for field in ("max_tokens_per_doc", "truncate_prompt_tokens"):
                if getattr(self, field) is not None:
                    raise InvalidRequest(f"`{field}` cuts documents: leave it out, or `truncation`.", field=field)
            return None
        return self.max_tokens_per_doc or DEFAULT_DOCUMENT_TOKENS

    def max_input_tokens(self) -> int | None:
        """Return the number of tokens to which the query with a document is cut. Raise InvalidRequest for 0."""
        return read_truncation(self.truncate_prompt_tokens)


def read_truncation(tokens: int | None) -> int | None:
    """Return the limit of vLLM's `truncate_prompt_tokens`; None is the model's context. Raise InvalidRequest for 0."""
    if tokens == 0:
        raise InvalidRequest(
            "`truncate_prompt_tokens` must be 1 or more, or -1 for the model's context.", field="truncate_prompt_tokens"
        )
    return None if tokens in (None, -1) else tokens


class RerankedDocument(Struct):
    """The document of a result."""

    text: DocumentText


class RerankResult(Struct, omit_defaults=True):
    """The relevance of one document."""

    index: Annotated[int, Meta(description="Position of the document in the request, from 0.", examples=[0])]
    relevance_score: Annotated[
        float,
        Meta(
            description="Probability from 0 to 1 that the document is relevant, by a cross-encoder; cosine similarity "
            "from -1 to 1, by an embedding model.",
            examples=[0.91],
        ),
    ]
    document: Annotated[RerankedDocument, Meta(description="The document.")] | UnsetType = UNSET


class RerankTokens(Struct):
    """Token counts in Cohere's form."""

    input_tokens: Annotated[int, Meta(description="Number of tokens that the model read.", examples=[21])]


class RerankMeta(Struct):
    """Details in Cohere's form."""

    tokens: Annotated[RerankTokens, Meta(description="Token counts in Cohere's form.")]


class RerankResponse(Struct):
    """Documents in the order of their relevance, the best first."""

    id: Annotated[str, Meta(description="Id of the response.", examples=["rerank-5b8d1f0c9a7e4d2b8c3f6a10"])]
    object: Annotated[str, Meta(description="Always `list`.", examples=["list"])]
    model: ModelId
    results: Annotated[list[RerankResult], Meta(description="Results, the most relevant first.")]
    usage: Annotated[EmbeddingsTokenUsage, Meta(description="Token usage of the request.")]
    meta: Annotated[RerankMeta, Meta(description="Details in Cohere's form.")]
