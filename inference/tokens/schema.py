"""OpenAPI texts and examples of tokens."""

from inference.access.docs import TEXT_MODEL, OperationDocs

_ERRORS_TEXT = """It needs the permission `run_inference`. It uses no tokens of a limit, but counts as a request. It
    answers 404 for an unknown model, and 400 for a model that is not loaded or runs on another server."""

TOKENIZE = OperationDocs(
    summary="Turn a text into tokens",
    description=f"""
    Returns the token ids of a text with their count, including the first and last tokens that the model's tokenizer
    adds. With `messages` it is the prompt that the model's chat template makes of a conversation and its tools. Use it
    to count the tokens of a request before sending it. It takes the forms of vLLM's and llama.cpp's routes.

    {_ERRORS_TEXT}
    """,
    request_examples={
        "A prompt": {"model": TEXT_MODEL, "prompt": "A lamp for every room"},
        "A conversation": {
            "model": TEXT_MODEL,
            "messages": [{"role": "user", "content": "Describe a lamp."}],
            "return_token_strs": True,
        },
        "In llama.cpp's form": {"model": TEXT_MODEL, "content": "A lamp for every room", "with_pieces": True},
    },
    response_example={"tokens": [37, 1159, 298, 466, 752], "count": 5, "max_model_len": 1024},
)

DETOKENIZE = OperationDocs(
    summary="Turn tokens into a text",
    description=f"""
    Returns the text of token ids, without control tokens. Bytes that are no whole character become U+FFFD. An id that
    the model's vocabulary does not have is answered with 400.

    {_ERRORS_TEXT}
    """,
    request_examples={"Five tokens": {"model": TEXT_MODEL, "tokens": [37, 1159, 298, 466, 752]}},
    response_example={"prompt": "A lamp for every room", "content": "A lamp for every room"},
)
