"""The context of a response: the items that precede its input, from a previous response or from a conversation."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from inference.access.responses import ObjectNotFound
from inference.engine import InvalidRequest, Message
from inference.protocol.openai.responses.encoder import derived_id
from inference.protocol.openai.responses.items import (
    ContentPart,
    InputTextPart,
    Item,
    MessageItem,
    OutputTextPart,
    engine_messages,
    item_prefix,
)
from inference.protocol.openai.responses.request import ResponseContext, ToolParameters
from inference.protocol.openai.responses.response import Response
from inference.responses.compaction import read_compactions
from inference.responses.models import Conversation, ConversationItem, StoredResponse
from shared.accounts.models import User

MAX_CHAIN_LENGTH = 1000  # responses that continue each other
MAX_ITEMS = 10_000  # of one conversation
MAX_CONVERSATION_LENGTH = 16 * 1024**2  # characters of the items of one conversation, as JSON

_items_decoder = msgspec.json.Decoder(list[Item])
_response_decoder = msgspec.json.Decoder(Response)
_item_decoder = msgspec.json.Decoder(Item)
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True)
class InputContext:
    """The input of a response. preceding: items before it; new_items: its own, as they are stored."""

    preceding: list[Item]
    new_items: list[Item]
    conversation: Conversation | None = None

    def messages(self, instructions: str | None) -> tuple[Message, ...]:
        """Return the conversation for the engine. Raise InvalidRequest for a compaction that cannot be read."""
        system = (Message("system", instructions),) if instructions else ()
        return system + engine_messages(read_compactions([*self.preceding, *self.new_items]))


def read_context(*, user: User, body: ResponseContext, response_id: str) -> InputContext:
    """Return the context of a request.

    Raise ObjectNotFound for a previous response or a conversation that is gone, and InvalidRequest for a conversation
    that is full: its response could not be added.
    """
    new_items = storable_items(body.new_items(), response_id)
    if body.previous_response_id is not None:
        return InputContext(_read_chain(user, body.previous_response_id), new_items)
    if isinstance(body, ToolParameters) and body.conversation_id is not None:
        conversation = find_conversation(user=user, conversation_id=body.conversation_id, field="conversation")
        bodies = _read_bodies(conversation)
        new_bodies = [encode_item(item) for item in new_items]
        # The output has one item at least.
        check_conversation_size(len(bodies) + len(new_bodies) + 1, sum(map(len, (*bodies, *new_bodies))))
        return InputContext([decode_item(body) for body in bodies], new_items, conversation)
    return InputContext([], new_items)


def find_conversation(*, user: User, conversation_id: str, field: str | None = None) -> Conversation:
    """Return the user's conversation. Raise ObjectNotFound."""
    conversation = Conversation.objects.for_user(user).filter(conversation_id=conversation_id).first()
    if conversation is None:
        raise ObjectNotFound("conversation", conversation_id, field=field)
    return conversation


def check_conversation_size(count: int, length: int) -> None:
    """Raise InvalidRequest for more items than a conversation may have, or for more characters."""
    if count > MAX_ITEMS:
        message = f"A conversation has at most {MAX_ITEMS} items. Delete some of them, or begin a new one."
        raise InvalidRequest(message, field="conversation")
    if length > MAX_CONVERSATION_LENGTH:
        message = f"A conversation has items of at most {MAX_CONVERSATION_LENGTH} characters. Begin a new one."
        raise InvalidRequest(message, field="conversation")


def storable_items(items: Sequence[Item], seed: str) -> list[Item]:
    """Return the items as they are stored: with ids, which are derived from `seed`, and with contents as parts."""
    return [_storable(item, derived_id(item_prefix(item), seed, "input", place)) for place, item in enumerate(items)]


def encode_items(items: Sequence[Item]) -> str:
    return _encoder.encode(items).decode()


def encode_item(item: Item) -> str:
    return _encoder.encode(item).decode()


def encode_response(response: Response) -> str:
    return _encoder.encode(response).decode()


def decode_items(text: str) -> list[Item]:
    return _items_decoder.decode(text)


def decode_item(text: str) -> Item:
    item: Item = _item_decoder.decode(text)
    return item


def decode_response(text: str) -> Response:
    return _response_decoder.decode(text)


def drop_oldest(messages: Sequence[Message], excess: float) -> tuple[Message, ...]:
    """Return the conversation without its oldest part. excess: the part of it to drop, from 0 to 1.

    System messages stay, and results never lose the calls that they answer. Raise InvalidRequest if only the last
    message is left.
    """
    system = tuple(message for message in messages if message.role == "system")
    rest = [message for message in messages if message.role != "system"]
    if len(rest) < 2:
        message = "`input` is longer than the model's context even without older items. Shorten it."
        raise InvalidRequest(message, field="input")
    count = min(max(1, round(len(rest) * excess)), len(rest) - 1)
    kept = rest[count:]
    while len(kept) > 1 and kept[0].role == "tool":
        kept = kept[1:]
    return (*system, *kept)


def _read_bodies(conversation: Conversation) -> list[str]:
    items = ConversationItem.objects.filter(conversation=conversation).order_by("pk")
    return list(items.values_list("body", flat=True))


def _storable(item: Item, new_id: str) -> Item:
    item_id = item.id or new_id
    if isinstance(item, MessageItem):
        return replace(item, id=item_id, status=item.status or "completed", content=_parts(item))
    if hasattr(item, "status"):
        return replace(item, id=item_id, status=item.status or "completed")
    return replace(item, id=item_id)


def _parts(item: MessageItem) -> list[ContentPart]:
    parts: Sequence[ContentPart] = [InputTextPart(item.content)] if isinstance(item.content, str) else item.content
    if item.role != "assistant":
        return list(parts)
    return [OutputTextPart(text=part.text) if isinstance(part, InputTextPart) else part for part in parts]


def _read_chain(user: User, response_id: str) -> list[Item]:
    """Return the inputs and outputs of a response and of all that it continues, the oldest first."""
    newest_first: list[list[Item]] = []
    next_id: str = response_id
    while next_id:
        if len(newest_first) == MAX_CHAIN_LENGTH:
            message = (
                f"`previous_response_id` continues {MAX_CHAIN_LENGTH} responses, the maximum. Compact them with `POST "
                "/v1/responses/compact`, or begin anew."
            )
            raise InvalidRequest(message, field="previous_response_id")
        row = StoredResponse.objects.for_user(user).filter(response_id=next_id).first()
        if row is None:
            raise ObjectNotFound("response", next_id, field="previous_response_id")
        if row.ended_at is None:
            message = f"`previous_response_id` {next_id!r} has not ended yet: it is {row.status}. Wait for its end."
            raise InvalidRequest(message, field="previous_response_id")
        newest_first.append([*decode_items(row.input_items), *decode_response(row.body).output])
        next_id = row.previous_response_id
    return [item for items in reversed(newest_first) for item in items]
