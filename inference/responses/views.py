"""Views of /v1/responses and /v1/conversations."""

import time
from collections.abc import Callable, Iterator
from functools import partial

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from inference.access.operations import OperationCall, operation
from inference.engine import GenerationOutput, InvalidRequest
from inference.generation.streaming import EventStreamResponse
from inference.protocol.openai.responses import conversations as wire
from inference.protocol.openai.responses.encoder import ResponseEncoder
from inference.protocol.openai.responses.events import RESPONSE_EVENTS
from inference.protocol.openai.responses.items import Item
from inference.protocol.openai.responses.request import (
    CompactedResponse,
    CompactRequest,
    InputTokens,
    InputTokensRequest,
    ItemListQuery,
    ResponseCreateRequest,
    RetrieveQuery,
    parse_compact_request,
    parse_input_tokens_request,
    parse_response_request,
)
from inference.protocol.openai.responses.response import ItemList, Response, ResponseDeleted
from inference.responses import conversations, runs, schema, services
from inference.responses.runs import PreparedResponse
from inference.streams.reader import StoredStreamResponse, check_position
from shared.accounts.authentication import Principal
from shared.accounts.roles import Permission
from shared.serving.db_threads import run_in_db_thread


@operation(
    "POST",
    docs=schema.CREATE,
    permission=Permission.RUN_INFERENCE,
    body=ResponseCreateRequest,
    body_parser=parse_response_request,
    response=Response,
    events=RESPONSE_EVENTS,
    idempotent=True,
)
async def create(call: OperationCall[ResponseCreateRequest]) -> Response | HttpResponseBase:
    if call.stream_key and not call.body.is_stored:
        raise InvalidRequest(
            "A stream with an Idempotency-Key needs `store`: leave it out or set it to true.", field="store"
        )
    prepared = await runs.prepare(caller=call.caller, body=call.body)
    if call.body.background:
        row = await runs.submit(prepared, call.stream_key)
        return _stored_stream(row.stream_pk, -1, call.caller) if call.body.stream else _body(row.body)
    if not call.body.stream:
        return await runs.complete(prepared)
    if call.body.is_stored:
        return _stored_stream(await runs.start_stored_stream(prepared, call.stream_key), -1, call.caller)
    return await _unstored_stream(prepared)


@operation(
    "GET",
    docs=schema.RETRIEVE,
    permission=Permission.RUN_INFERENCE,
    query=RetrieveQuery,
    response=Response,
    events=RESPONSE_EVENTS,
)
async def retrieve(call: OperationCall[None], response_id: str) -> HttpResponseBase:
    query: RetrieveQuery = call.query
    if not query.stream:
        if query.starting_after is not None:
            raise InvalidRequest("`starting_after` needs `stream`: set it to true.", field="starting_after")
        row = await run_in_db_thread(services.find_response, user=call.caller.user, response_id=response_id)
        return _body(row.body)
    stream_pk = await run_in_db_thread(services.find_stream, user=call.caller.user, response_id=response_id)
    after = -1 if query.starting_after is None else query.starting_after
    await check_position(stream_pk, after, field="starting_after")
    return _stored_stream(stream_pk, after, call.caller)


@operation("DELETE", docs=schema.DELETE, permission=Permission.RUN_INFERENCE, response=ResponseDeleted)
async def delete(call: OperationCall[None], response_id: str) -> ResponseDeleted:
    await run_in_db_thread(services.delete_response, user=call.caller.user, response_id=response_id)
    return ResponseDeleted(response_id)


@operation("POST", docs=schema.CANCEL, permission=Permission.RUN_INFERENCE, response=Response)
async def cancel(call: OperationCall[None], response_id: str) -> HttpResponse:
    return _body(
        await run_in_db_thread(
            services.cancel_response, user=call.caller.user, response_id=response_id, now=timezone.now()
        )
    )


@operation("GET", docs=schema.INPUT_ITEMS, permission=Permission.RUN_INFERENCE, query=ItemListQuery, response=ItemList)
async def input_items(call: OperationCall[None], response_id: str) -> ItemList:
    return await _list(services.list_input_items, call, response_id=response_id)


@operation(
    "POST",
    docs=schema.INPUT_TOKENS,
    permission=Permission.RUN_INFERENCE,
    body=InputTokensRequest,
    body_parser=parse_input_tokens_request,
    response=InputTokens,
)
async def count_tokens(call: OperationCall[InputTokensRequest]) -> InputTokens:
    return InputTokens(await runs.count_input_tokens(caller=call.caller, body=call.body))


@operation(
    "POST",
    docs=schema.COMPACT,
    permission=Permission.RUN_INFERENCE,
    body=CompactRequest,
    body_parser=parse_compact_request,
    response=CompactedResponse,
    idempotent=True,
)
async def compact(call: OperationCall[CompactRequest]) -> CompactedResponse:
    return await runs.compact(caller=call.caller, body=call.body)


@operation(
    "POST",
    docs=schema.CREATE_CONVERSATION,
    permission=Permission.RUN_INFERENCE,
    body=wire.ConversationCreateRequest,
    body_parser=wire.parse_new_conversation,
    body_required=False,
    response=wire.Conversation,
    idempotent=True,
)
async def create_conversation(call: OperationCall[wire.ConversationCreateRequest]) -> wire.Conversation:
    return await run_in_db_thread(
        conversations.create_conversation,
        user=call.caller.user,
        items=call.body.items or [],
        metadata=call.body.metadata or {},
        now=timezone.now(),
    )


@operation("GET", docs=schema.RETRIEVE_CONVERSATION, permission=Permission.RUN_INFERENCE, response=wire.Conversation)
async def retrieve_conversation(call: OperationCall[None], conversation_id: str) -> wire.Conversation:
    return await run_in_db_thread(
        conversations.read_conversation, user=call.caller.user, conversation_id=conversation_id
    )


@operation(
    "POST",
    docs=schema.UPDATE_CONVERSATION,
    permission=Permission.RUN_INFERENCE,
    body=wire.ConversationUpdateRequest,
    response=wire.Conversation,
)
async def update_conversation(
    call: OperationCall[wire.ConversationUpdateRequest], conversation_id: str
) -> wire.Conversation:
    return await run_in_db_thread(
        conversations.update_conversation,
        user=call.caller.user,
        conversation_id=conversation_id,
        metadata=call.body.metadata or {},
        now=timezone.now(),
    )


@operation(
    "DELETE", docs=schema.DELETE_CONVERSATION, permission=Permission.RUN_INFERENCE, response=wire.ConversationDeleted
)
async def delete_conversation(call: OperationCall[None], conversation_id: str) -> wire.ConversationDeleted:
    await run_in_db_thread(conversations.delete_conversation, user=call.caller.user, conversation_id=conversation_id)
    return wire.ConversationDeleted(id=conversation_id)


@operation(
    "GET",
    docs=schema.LIST_CONVERSATION_ITEMS,
    permission=Permission.RUN_INFERENCE,
    query=ItemListQuery,
    response=ItemList,
)
async def list_conversation_items(call: OperationCall[None], conversation_id: str) -> ItemList:
    return await _list(conversations.list_items, call, conversation_id=conversation_id)


@operation(
    "POST",
    docs=schema.CREATE_CONVERSATION_ITEMS,
    permission=Permission.RUN_INFERENCE,
    body=wire.ItemsCreateRequest,
    body_parser=wire.parse_new_items,
    response=ItemList,
    idempotent=True,
)
async def create_conversation_items(call: OperationCall[wire.ItemsCreateRequest], conversation_id: str) -> ItemList:
    return await run_in_db_thread(
        conversations.create_items,
        user=call.caller.user,
        conversation_id=conversation_id,
        items=call.body.items,
        now=timezone.now(),
    )


@operation("GET", docs=schema.RETRIEVE_CONVERSATION_ITEM, permission=Permission.RUN_INFERENCE, response=Item)  # type: ignore[arg-type]
async def retrieve_conversation_item(call: OperationCall[None], conversation_id: str, item_id: str) -> Item:
    return await run_in_db_thread(
        conversations.read_item, user=call.caller.user, conversation_id=conversation_id, item_id=item_id
    )


@operation(
    "DELETE", docs=schema.DELETE_CONVERSATION_ITEM, permission=Permission.RUN_INFERENCE, response=wire.Conversation
)
async def delete_conversation_item(call: OperationCall[None], conversation_id: str, item_id: str) -> wire.Conversation:
    return await run_in_db_thread(
        conversations.delete_item, user=call.caller.user, conversation_id=conversation_id, item_id=item_id
    )


async def _list(read: Callable[..., ItemList], call: OperationCall[None], **ids: str) -> ItemList:
    query: ItemListQuery = call.query
    page = partial(read, after=query.after, limit=query.limit, newest_first=query.order == "desc")
    return await run_in_db_thread(page, user=call.caller.user, **ids)


def _body(text: str) -> HttpResponse:
    return HttpResponse(text, content_type="application/json")


def _stored_stream(stream_pk: int, after: int, caller: Principal) -> StoredStreamResponse:
    return StoredStreamResponse(stream_pk, after=after, principal=caller, recover=_end_interrupted)


def _end_interrupted(stream_pk: int) -> bool:
    return services.end_interrupted(stream_pk, now=timezone.now())


async def _unstored_stream(prepared: PreparedResponse) -> EventStreamResponse:
    encoder = prepared.encoder()
    outputs = await runs.start(prepared)
    start = b"".join((*encoder.start(), encoder.begin()))
    return EventStreamResponse(outputs, partial(_encode, encoder), start=start)


def _encode(encoder: ResponseEncoder, output: GenerationOutput) -> Iterator[bytes]:
    yield from encoder.push(output, ended_at=time.time())
    if encoder.has_ended:
        yield encoder.end()
