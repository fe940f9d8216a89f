"""Personal data in responses and conversations: what the user wrote and what models answered."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from inference.responses.conversations import delete_conversations_of
from inference.responses.models import Conversation, ConversationItem, StoredResponse
from inference.responses.services import delete_responses_of
from shared.accounts.models import User
from shared.personal_data import PersonalDataRule


def _erase_responses(user: User, now: datetime) -> None:
    delete_responses_of(user)


def _erase_conversations(user: User, now: datetime) -> None:
    delete_conversations_of(user)


def _items(user: User) -> "dict[str, QuerySet[Any]]":
    return {
        "inference_responses.ConversationItem.conversation": ConversationItem.objects.filter(conversation__user=user)
    }


RULES = (
    PersonalDataRule(StoredResponse, "user", _erase_responses),
    PersonalDataRule(Conversation, "user", _erase_conversations, related_rows=_items),
)
