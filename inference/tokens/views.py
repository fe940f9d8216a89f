"""Routes of tokens."""

from inference.access.operations import Call, operation
from inference.protocol.tokens import DetokenizeAnswer, DetokenizeBody, TokenizeAnswer, TokenizeBody
from inference.tokens import services
from shared.accounts.roles import Permission


@operation(
    "POST",
    summary="Turn a text into tokens",
    permission=Permission.RUN_INFERENCE,
    body=TokenizeBody,
    answer=TokenizeAnswer,
)
async def tokenize(call: Call[TokenizeBody]) -> TokenizeAnswer:
    """With the first and last tokens that the model's tokenizer adds by itself."""
    tokens = await services.tokenize(caller=call.caller, model_id=call.body.model, prompt=call.body.prompt)
    return TokenizeAnswer(tokens, len(tokens))


@operation(
    "POST",
    summary="Turn tokens into a text",
    permission=Permission.RUN_INFERENCE,
    body=DetokenizeBody,
    answer=DetokenizeAnswer,
)
async def detokenize(call: Call[DetokenizeBody]) -> DetokenizeAnswer:
    """Without control tokens; half a character becomes U+FFFD."""
    body = call.body
    text = await services.detokenize(caller=call.caller, model_id=body.model, tokens=body.tokens)
    return DetokenizeAnswer(text)
