"""Views of Anthropic's messages."""

from django.http import StreamingHttpResponse

from inference.access.operations import OperationCall, operation
from inference.compat import schema
from inference.engine import FinishReason
from inference.generation import services
from inference.generation.streaming import respond_with_stream
from inference.protocol.anthropic.errors import AnthropicErrorEvent
from inference.protocol.anthropic.requests import (
    CountTokensRequest,
    MessagesRequest,
    parse_count_tokens_request,
    parse_messages_request,
)
from inference.protocol.anthropic.responses import (
    STREAM_EVENTS,
    CountTokensResponse,
    MessageResponse,
    MessageStreamEncoder,
    build_message,
)
from inference.protocol.errors import model_unloaded_error
from inference.tokens.services import tokenize
from shared.accounts.roles import Permission


@operation(
    "POST",
    docs=schema.MESSAGES,
    permission=Permission.RUN_INFERENCE,
    body=MessagesRequest,
    body_parser=parse_messages_request,
    response=MessageResponse,
    events=(*STREAM_EVENTS, AnthropicErrorEvent),
    idempotent=True,
)
async def create_message(call: OperationCall[MessagesRequest]) -> MessageResponse | StreamingHttpResponse:
    message_id, model = services.new_id("msg_"), call.body.model
    request = call.body.generation_request(message_id)
    if call.body.stream:
        encoder = MessageStreamEncoder(message_id, model, shows_thinking=call.body.shows_thinking)
        outputs = await services.start_stream(caller=call.caller, model_id=model, request=request)
        return await respond_with_stream(call, outputs, encoder.events, encoder.start(outputs.prompt_tokens))
    completion = await services.complete(caller=call.caller, model_id=model, request=request)
    [choice] = completion.choices
    if choice.finish_reason is FinishReason.CANCELLED:
        raise model_unloaded_error()
    return build_message(message_id, model, choice, completion.usage, shows_thinking=call.body.shows_thinking)


@operation(
    "POST",
    docs=schema.COUNT_TOKENS,
    permission=Permission.RUN_INFERENCE,
    body=CountTokensRequest,
    body_parser=parse_count_tokens_request,
    response=CountTokensResponse,
)
async def count_tokens(call: OperationCall[CountTokensRequest]) -> CountTokensResponse:
    request = call.body.tokenization_request()
    result = await tokenize(caller=call.caller, model_id=call.body.model, request=request)
    return CountTokensResponse(len(result.ids))
