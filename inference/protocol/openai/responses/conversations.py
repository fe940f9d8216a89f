"""Wire structs of /v1/conversations."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.protocol.native.body import RequestBody
from inference.protocol.openai.responses.items import Item, with_item_types
from inference.protocol.openai.responses.response import Metadata
from inference.protocol.parsing import parse_struct

MAX_NEW_ITEMS = 20

ConversationId = Annotated[
    str, Meta(max_length=128, description="Id of the conversation.", examples=["conv_2b7d90c1f3e84a65b0d1c9e7"])
]
NewItems = Annotated[
    list[Item], Meta(max_length=MAX_NEW_ITEMS, description="Items to add, at most 20, the oldest first.")
]


class ConversationCreateRequest(RequestBody):
    """A conversation to create."""

    items: NewItems | None = None
    metadata: Metadata | None = None


class ConversationUpdateRequest(RequestBody):
    """New metadata of a conversation, which replace the old."""

    metadata: Metadata | None


class ItemsCreateRequest(RequestBody):
    """Items to add to a conversation."""

    items: Annotated[NewItems, Meta(min_length=1)]


class Conversation(Struct, kw_only=True):
    """A conversation."""

    id: ConversationId
    created_at: Annotated[int, Meta(description="Creation time in Unix seconds.", examples=[1795276179])]
    metadata: Metadata
    object: Annotated[Literal["conversation"], Meta(description="Kind of the object.")] = "conversation"


class ConversationDeleted(Struct, kw_only=True):
    """The answer to a deletion."""

    id: ConversationId
    deleted: Annotated[Literal[True], Meta(description="Always true.")] = True
    object: Annotated[Literal["conversation.deleted"], Meta(description="Kind of the object.")] = "conversation.deleted"


def parse_new_conversation(value: Mapping[str, Any]) -> ConversationCreateRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    return parse_struct(_with_types(value), ConversationCreateRequest)


def parse_new_items(value: Mapping[str, Any]) -> ItemsCreateRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    return parse_struct(_with_types(value), ItemsCreateRequest)


def _with_types(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or "items" not in value:
        return value
    return {**value, "items": with_item_types(value["items"], "items")}
