"""Stored responses, and conversations with their items."""

import secrets
from typing import ClassVar

from django.db import models
from django.db.models import CheckConstraint, Index, Q

from inference.streams.models import StoredStream
from shared.accounts.models import ApiKey, User


def new_conversation_id() -> str:
    """Return a new public id of a conversation."""
    return f"conv_{secrets.token_hex(12)}"


class ConversationQuerySet(models.QuerySet["Conversation"]):
    """Queries of conversations."""

    def for_user(self, user: User) -> "ConversationQuerySet":
        """Return the user's own conversations."""
        return self.filter(user=user)


class Conversation(models.Model):
    """A conversation, whose items responses read and add to."""

    conversation_id = models.CharField(max_length=40, unique=True, default=new_conversation_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", db_index=False)
    metadata = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()
    used_at = models.DateTimeField()  # retention counts from here

    objects: ClassVar[ConversationQuerySet] = ConversationQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        indexes = [
            Index(fields=["user", "-id"], name="inference_conversations_user"),
            Index(fields=["used_at"], name="inference_conversations_used"),
        ]

    def __str__(self) -> str:
        return self.conversation_id


class ConversationItem(models.Model):
    """An item of a conversation; the order of primary keys is the order of the conversation. body: its JSON."""

    conversation = models.ForeignKey(Conversation, on_delete=models.DO_NOTHING, related_name="items", db_index=False)
    item_id = models.CharField(max_length=128)
    body = models.TextField()

    class Meta:
        indexes = [Index(fields=["conversation", "id"], name="inference_conversation_items")]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "item_id"], name="inference_conversation_item_once")
        ]

    def __str__(self) -> str:
        return self.item_id


class StoredResponseQuerySet(models.QuerySet["StoredResponse"]):
    """Queries of responses."""

    def for_user(self, user: User) -> "StoredResponseQuerySet":
        """Return the user's own responses."""
        return self.filter(user=user)


class StoredResponse(models.Model):
    """A stored response.

    body: the Response object as JSON. input_items: its own input as JSON, without what preceded it. generation: the
    engine's request of a background response as JSON, until it has ended. stream: its events, for a day after the end.
    attempts: runs that ended with a crash of the model's process. size: approximate bytes.
    """

    class Status(models.TextChoices):
        QUEUED = "queued"
        IN_PROGRESS = "in_progress"
        COMPLETED = "completed"
        INCOMPLETE = "incomplete"
        FAILED = "failed"
        CANCELLED = "cancelled"

    response_id = models.CharField(max_length=40, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", db_index=False)
    api_key = models.ForeignKey(
        ApiKey, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    model_id = models.CharField(max_length=255)
    status = models.CharField(max_length=16, choices=Status)
    is_background = models.BooleanField(default=False)
    previous_response_id = models.CharField(max_length=40, blank=True)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    stream = models.OneToOneField(
        StoredStream, on_delete=models.SET_NULL, null=True, blank=True, related_name="response"
    )
    body = models.TextField()
    input_items = models.TextField()
    generation = models.TextField(blank=True)
    size = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    resume_at = models.DateTimeField()  # earliest time of the next run
    attempts = models.PositiveSmallIntegerField(default=0)

    objects: ClassVar[StoredResponseQuerySet] = StoredResponseQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = "response"
        indexes = [
            Index(fields=["user", "-id"], name="inference_responses_of_user"),
            Index(fields=["created_at"], name="inference_responses_created"),
            Index(fields=["user", "resume_at", "id"], name="inference_responses_turns", condition=Q(ended_at=None)),
            Index(fields=["conversation"], name="inference_responses_of_conv", condition=Q(conversation__isnull=False)),
            Index(fields=["api_key"], name="inference_responses_of_key", condition=Q(api_key__isnull=False)),
        ]
        constraints = [
            CheckConstraint(
                condition=Q(status__in=["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]),
                name="inference_responses_status_known",
            ),
            CheckConstraint(
                condition=Q(status__in=["queued", "in_progress"], ended_at=None)
                | (~Q(status__in=["queued", "in_progress"]) & Q(ended_at__isnull=False)),
                name="inference_responses_ended_or_open",
            ),
        ]

    def __str__(self) -> str:
        return self.response_id

    @property
    def stream_pk(self) -> int:
        """The key of the stream of a response that has one."""
        if self.stream_id is None:
            raise LookupError("the events of this response are not stored")
        return self.stream_id
