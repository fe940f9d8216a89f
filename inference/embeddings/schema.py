"""OpenAPI texts and examples of embeddings."""

from inference.access.docs import EMBEDDING_MODEL, OperationDocs

_ERRORS_TEXT = """It needs the permission `run_inference`. It answers 404 for an unknown model, 400 for a model that
    is not loaded or makes no embeddings, 400 with the code `CONTEXT_LENGTH_EXCEEDED` for a text that is too long,
    and 429 over a limit. A request with the header `Priority: u=7` (RFC 9218; `u=6` too) is background work:
    it runs after others and on one core."""

EMBEDDINGS = OperationDocs(
    summary="Embed texts",
    description=f"""
    Returns one vector for each text, in the order of the input. Vectors have the length 1. A request takes up to
    2,048 texts, as one string or as an array of strings.

    {_ERRORS_TEXT}
    """,
    request_examples={
        "Two texts": {"model": EMBEDDING_MODEL, "input": ["a brass lamp", "a quiet kettle"]},
        "Base64": {"model": EMBEDDING_MODEL, "input": "a brass lamp", "encoding_format": "base64"},
    },
    response_example={
        "model": EMBEDDING_MODEL,
        "data": [
            {"embedding": [0.0122, 0.0339, -0.1152], "index": 0},
            {"embedding": [0.0417, -0.0206, 0.0911], "index": 1},
        ],
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    },
)

OPENAI_EMBEDDINGS = OperationDocs(
    summary="Embed texts or token ids",
    description=f"""
    Returns one vector for each input, in the form of OpenAI's embeddings. An input is a text or an array of token ids,
    which are used unchanged. With `dimensions` the vectors are cut to their first numbers and scaled to the length 1.

    {_ERRORS_TEXT}
    """,
    request_examples={
        "Two texts": {"model": EMBEDDING_MODEL, "input": ["a brass lamp", "a quiet kettle"]},
        "Fewer dimensions": {
            "model": EMBEDDING_MODEL,
            "input": "a brass lamp",
            "dimensions": 64,
            "encoding_format": "float",
        },
    },
    response_example={
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.0122, 0.0339, -0.1152]}],
        "model": EMBEDDING_MODEL,
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    },
)
