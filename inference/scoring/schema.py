"""OpenAPI texts and examples of reranking, scores, decisions and moderations."""

from inference.access.docs import EMBEDDING_MODEL, TEXT_MODEL, OperationDocs

_QUERY = "a warm lamp"
_DOCUMENTS = ["A quiet kettle.", "A brass lamp with a linen shade."]
_MODELS_TEXT = """A cross-encoder, a model with the capability `rerank`, reads each text together with the query and
    gives the probability that it is relevant. An embedding model compares their vectors and gives cosine similarity."""
_ERRORS_TEXT = """It needs the permission `run_inference`. It answers 404 for an unknown model, 400 for a model that
    does something else, with the loaded ones that could, 400 with the code `CONTEXT_LENGTH_EXCEEDED` for a text that
    is too long and is not cut, and 429 over a limit."""
_RERANK_TEXT = f"""
    Sorts documents by their relevance to a query, the best first. {_MODELS_TEXT}

    Documents are cut to `max_tokens_per_doc` tokens and to the model's context; with `truncation: false`, a document
    that is too long is an error.

    {_ERRORS_TEXT}
    """
_RESULTS = [{"index": 1, "relevance_score": 0.61}, {"index": 0, "relevance_score": 0.17}]
_RESPONSE = {
    "id": "rerank-5b8d1f0c9a7e4d2b8c3f6a10",
    "object": "list",
    "model": EMBEDDING_MODEL,
    "results": _RESULTS,
    "usage": {"prompt_tokens": 21, "total_tokens": 21},
    "meta": {"tokens": {"input_tokens": 21}},
}

RERANK = OperationDocs(
    summary="Sort documents by relevance",
    description=_RERANK_TEXT,
    request_examples={
        "Two documents": {"model": EMBEDDING_MODEL, "query": _QUERY, "documents": _DOCUMENTS},
        "The best one": {
            "model": EMBEDDING_MODEL,
            "query": _QUERY,
            "documents": [{"text": document} for document in _DOCUMENTS],
            "top_n": 1,
            "return_documents": False,
        },
    },
    response_example=_RESPONSE
    | {"results": [one | {"document": {"text": _DOCUMENTS[int(one["index"])]}} for one in _RESULTS]},
)

COHERE_RERANK = OperationDocs(
    summary="Sort documents, in Cohere's form",
    description=_RERANK_TEXT,
    request_examples={
        "Two documents": {
            "model": EMBEDDING_MODEL,
            "query": _QUERY,
            "documents": _DOCUMENTS,
            "top_n": 2,
            "max_tokens_per_doc": 512,
        },
    },
    response_example=_RESPONSE,
)

SCORE = OperationDocs(
    summary="Score pairs of texts",
    description=f"""
    Returns a score for each pair of texts, in the order of the pairs. `text_1` is one text for all pairs, or one for
    each. {_MODELS_TEXT}

    {_ERRORS_TEXT}
    """,
    request_examples={
        "A query and two texts": {"model": EMBEDDING_MODEL, "text_1": _QUERY, "text_2": _DOCUMENTS},
        "Two pairs": {
            "model": EMBEDDING_MODEL,
            "text_1": [_QUERY, "a kettle"],
            "text_2": _DOCUMENTS,
            "truncate_prompt_tokens": -1,
        },
    },
    response_example={
        "id": "score-5b8d1f0c9a7e4d2b8c3f6a10",
        "object": "list",
        "created": 1795276179,
        "model": EMBEDDING_MODEL,
        "data": [
            {"index": 0, "object": "score", "score": 0.17},
            {"index": 1, "object": "score", "score": 0.61},
        ],
        "usage": {"prompt_tokens": 21, "total_tokens": 21},
    },
)

_TICKET = "I was charged twice for my order. Please return the money."
_PREDICATE = {"type": "predicate", "name": "refund", "instructions": "The customer wants a refund."}

DECISIONS = OperationDocs(
    summary="Answer questions by probabilities",
    description="""
    Answers up to 400 questions about one input, in their order, as OpenAI's decisions do. A predicate asks how
    probable it is that a statement is true, a choice asks for one of 2 to 255 options, and a score rates the input on
    2 to 10 levels. No text is generated: the answers are the probabilities that the model gives to the possible
    answers, which add up to 1. The model reads the input once for all questions.

    The input is a text, or the messages and tool calls of a conversation. Images are refused.

    It needs the permission `run_inference`. It answers 404 for an unknown model, 400 for a model that does not generate
    text, with the loaded ones that could, 400 with the code `context_length_exceeded` for an input that is too long
    with a question, and 429 over a limit.
    """,
    request_examples={
        "A predicate": {"model": TEXT_MODEL, "input": _TICKET, "questions": [_PREDICATE]},
        "Three kinds of questions": {
            "model": TEXT_MODEL,
            "input": [{"type": "message", "role": "user", "content": _TICKET}],
            "questions": [
                _PREDICATE,
                {
                    "type": "choice",
                    "name": "department",
                    "instructions": "Which department should answer?",
                    "choices": [{"value": "billing", "description": "Payments and refunds."}, {"value": "technical"}],
                },
                {
                    "type": "score",
                    "name": "urgency",
                    "instructions": "How urgent is it?",
                    "levels": [{"label": "low"}, {"label": "high", "description": "Needs an answer today."}],
                },
            ],
        },
    },
    response_example={
        "answers": [{"type": "predicate", "name": "refund", "probability": 0.93}],
        "model": TEXT_MODEL,
        "usage": {
            "input_tokens": 62,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 38},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 62,
        },
    },
)

MODERATIONS = OperationDocs(
    summary="Moderate texts",
    description="""
    Returns the probability of each of OpenAI's moderation categories for up to 32 texts, and flags those of 0.5 or
    more. A generating model answers a question for each category, as decisions do. A classifier gives the probabilities
    of its labels that are categories, and the result has only these.

    Without `model`, and for OpenAI's names such as `omni-moderation-latest`, the configured model moderates. Images are
    refused.

    It needs the permission `run_inference`. It answers 400 if no model is configured, with what to load; 404 for an
    unknown model, 400 for a model that cannot moderate, 400 with the code `context_length_exceeded` for a text that is
    too long, and 429 over a limit.
    """,
    request_examples={
        "Two texts": {"model": TEXT_MODEL, "input": ["What a lovely lamp.", "I will break your kettle."]},
        "A text in parts": {
            "model": TEXT_MODEL,
            "input": [{"type": "text", "text": "What a lovely lamp."}, {"type": "text", "text": "I want it."}],
        },
    },
    response_example={
        "id": "modr-5b8d1f0c9a7e4d2b8c3f6a10",
        "model": TEXT_MODEL,
        "results": [
            {
                "flagged": False,
                "categories": {"violence": False},
                "category_scores": {"violence": 0.02},
                "category_applied_input_types": {"violence": ["text"]},
            }
        ],
    },
)
