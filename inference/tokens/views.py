"""Views of tokens."""

from inference.access.operations import OperationCall, operation
from inference.protocol.native.tokens import DetokenizeRequest, DetokenizeResponse, TokenizeRequest, TokenizeResponse
from inference.tokens import schema, services
from shared.accounts.roles import Permission


@operation(
    "POST",
    docs=schema.TOKENIZE,
    permission=Permission.RUN_INFERENCE,
    body=TokenizeRequest,
    response=TokenizeResponse,
)
async def tokenize(call: OperationCall[TokenizeRequest]) -> TokenizeResponse:
    request = call.body.tokenization_request()
    result = await services.tokenize(caller=call.caller, model_id=call.body.model, request=request)
    return TokenizeResponse.from_engine(result, call.body)


@operation(
    "POST",
    docs=schema.DETOKENIZE,
    permission=Permission.RUN_INFERENCE,
    body=DetokenizeRequest,
    response=DetokenizeResponse,
)
async def detokenize(call: OperationCall[DetokenizeRequest]) -> DetokenizeResponse:
    body = call.body
    text = await services.detokenize(caller=call.caller, model_id=body.model, tokens=body.tokens)
    return DetokenizeResponse(text, text)
