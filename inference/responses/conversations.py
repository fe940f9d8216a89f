"""Services of conversations: create, change and delete them, and add, read and delete their items."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Length
from msgspec.structs import replace

from inference.access.responses import ObjectNotFound
from inference.engine import InvalidRequest
from inference.protocol.openai.responses import conversations as wire
from inference.protocol.openai.responses.items import Item, item_prefix
from inference.protocol.openai.responses.response import ItemList
from inference.responses.context import (
    check_conversation_size,
    decode_item,
    encode_item,
    find_conversation,
    storable_items,
)
from inference.responses.models import Conversation, ConversationItem
from shared.accounts.models import User
from shared.accounts.services import lock_active_user

MAX_CONVERSATIONS = 10_000  # of one user
MAX_DELETED_PER_RUN = 100


@transaction.atomic
def create_conversation(
    *, user: User, items: Sequence[Item], metadata: Mapping[str, str], now: datetime
) -> wire.Conversation:
    """Create a conversation with these items.

    Raise ApiError 401 if the user is no longer active, and InvalidRequest above MAX_CONVERSATIONS.
    """
    lock_active_user(user)  # concurrent creations are counted one after the other
    if Conversation.objects.for_user(user).count() >= MAX_CONVERSATIONS:
        raise InvalidRequest(
            f"You have {MAX_CONVERSATIONS} conversations, the maximum: 0 are left. Delete some of them."
        )
    conversation = Conversation.objects.create(user=user, metadata=dict(metadata), created_at=now, used_at=now)
    add_items(conversation=conversation, items=items, now=now)
    _check_size(conversation)
    return serialize_conversation(conversation)


def read_conversation(*, user: User, conversation_id: str) -> wire.Conversation:
    """Return the user's conversation. Raise ObjectNotFound."""
    return serialize_conversation(find_conversation(user=user, conversation_id=conversation_id))


def update_conversation(
    *, user: User, conversation_id: str, metadata: Mapping[str, str], now: datetime
) -> wire.Conversation:
    """Replace the metadata of a conversation. Raise ObjectNotFound."""
    mine = Conversation.objects.for_user(user).filter(conversation_id=conversation_id)
    mine.update(metadata=dict(metadata), used_at=now)
    return read_conversation(user=user, conversation_id=conversation_id)


def delete_conversation(*, user: User, conversation_id: str) -> None:
    """Delete a conversation with its items; its responses stay. Raise ObjectNotFound."""
    _delete([find_conversation(user=user, conversation_id=conversation_id)])


@transaction.atomic
def create_items(*, user: User, conversation_id: str, items: Sequence[Item], now: datetime) -> ItemList:
    """Add items to a conversation and return them. Raise ObjectNotFound, and InvalidRequest above its maxima."""
    lock_active_user(user)
    conversation = lock_conversation(find_conversation(user=user, conversation_id=conversation_id).pk)
    if conversation is None:
        raise ObjectNotFound("conversation", conversation_id)
    added = add_items(conversation=conversation, items=items, now=now)
    _check_size(conversation)
    return ItemList(data=added, first_id=str(added[0].id), last_id=str(added[-1].id), has_more=False)


def list_items(*, user: User, conversation_id: str, after: str | None, limit: int, newest_first: bool) -> ItemList:
    """Return a page of a conversation's items. Raise ObjectNotFound, and InvalidRequest for a wrong `after`."""
    conversation = find_conversation(user=user, conversation_id=conversation_id)
    rows = ConversationItem.objects.filter(conversation=conversation).order_by("-pk" if newest_first else "pk")
    if after is not None:
        last = ConversationItem.objects.filter(conversation=conversation, item_id=after).first()
        if last is None:
            raise InvalidRequest(f"`after` must be the id of an item of this list, not {after[:100]!r}.", field="after")
        rows = rows.filter(pk__lt=last.pk) if newest_first else rows.filter(pk__gt=last.pk)
    bodies = list(rows.values_list("body", flat=True)[: limit + 1])
    page = [decode_item(body) for body in bodies[:limit]]
    return ItemList(
        data=page,
        first_id=str(page[0].id) if page else "",
        last_id=str(page[-1].id) if page else "",
        has_more=len(bodies) > limit,
    )


def read_item(*, user: User, conversation_id: str, item_id: str) -> Item:
    """Return an item of a conversation. Raise ObjectNotFound."""
    return decode_item(_find_item(user, conversation_id, item_id).body)


def delete_item(*, user: User, conversation_id: str, item_id: str) -> wire.Conversation:
    """Delete an item and return its conversation. Raise ObjectNotFound."""
    item = _find_item(user, conversation_id, item_id)
    conversation = item.conversation
    item.delete()
    return serialize_conversation(conversation)


def lock_conversation(conversation_pk: int) -> Conversation | None:
    """Return a conversation that nobody deletes until the end of the transaction, or None if it is gone."""
    return Conversation.objects.select_for_update(no_key=True).filter(pk=conversation_pk).first()


def add_items(*, conversation: Conversation, items: Sequence[Item], now: datetime) -> list[Item]:
    """Add items to the end of a conversation and return them. The caller holds its lock.

    An item whose id the conversation already has gets a new one.
    """
    added = storable_items(items, f"{conversation.conversation_id}/{secrets.token_hex(8)}")
    existing = ConversationItem.objects.filter(conversation=conversation)
    taken = set(existing.filter(item_id__in=[str(item.id) for item in added]).values_list("item_id", flat=True))
    for place, item in enumerate(added):
        if str(item.id) in taken:
            added[place] = item = replace(item, id=f"{item_prefix(item)}{secrets.token_hex(12)}")
        taken.add(str(item.id))
    ConversationItem.objects.bulk_create(
        ConversationItem(conversation=conversation, item_id=str(item.id), body=encode_item(item)) for item in added
    )
    Conversation.objects.filter(pk=conversation.pk).update(used_at=now)
    return added


def serialize_conversation(conversation: Conversation) -> wire.Conversation:
    return wire.Conversation(
        id=conversation.conversation_id,
        created_at=int(conversation.created_at.timestamp()),
        metadata=conversation.metadata,
    )


def delete_old_conversations(*, now: datetime) -> int:
    """Delete up to MAX_DELETED_PER_RUN conversations that were not used for the retention. Return their number."""
    old = Conversation.objects.filter(used_at__lte=now - settings.RESPONSE_RETENTION).order_by("used_at")
    conversations = list(old[:MAX_DELETED_PER_RUN])
    _delete(conversations)
    return len(conversations)


def delete_conversations_of(user: User) -> None:
    """Delete all conversations of a user."""
    _delete(list(Conversation.objects.for_user(user)))


@transaction.atomic
def _delete(conversations: Sequence[Conversation]) -> None:
    pks = [conversation.pk for conversation in conversations]
    # Whoever adds items or a response locks the conversation first.
    list(Conversation.objects.select_for_update().filter(pk__in=pks).order_by("pk").values_list("pk"))
    ConversationItem.objects.filter(conversation__in=pks).delete()
    Conversation.objects.filter(pk__in=pks).delete()


def _check_size(conversation: Conversation) -> None:
    items = ConversationItem.objects.filter(conversation=conversation)
    check_conversation_size(items.count(), items.aggregate(length=Sum(Length("body")))["length"] or 0)


def _find_item(user: User, conversation_id: str, item_id: str) -> ConversationItem:
    conversation = find_conversation(user=user, conversation_id=conversation_id)
    item = ConversationItem.objects.filter(conversation=conversation, item_id=item_id).first()
    if item is None:
        raise ObjectNotFound("item", item_id)
    return item
