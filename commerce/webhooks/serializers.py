"""Serializers of webhooks and of the deliveries to them."""

import json
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.webhooks.events import ShopEvent
from shared.webhooks.destinations import MAX_URL_LENGTH
from shared.webhooks.models import Attempt, Delivery, DeliveryState, Endpoint
from shared.webhooks.services import EndpointWithSecret

MAX_EVENTS = 20  # of a body, which may repeat them


class WebhookSerializer(serializers.ModelSerializer[Endpoint]):
    """A webhook, without its secret."""

    id = serializers.CharField(source="public_id", help_text="Id of the webhook.")
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=ShopEvent.choices), help_text="Events that are sent to it."
    )
    enabled = serializers.BooleanField(source="is_enabled", help_text="Whether events are sent to it.")
    disabled_by = serializers.SerializerMethodField(
        help_text="Who disabled it: `owner`, `receiver` (its server answered 410) or `operator`; else null."
    )

    class Meta:
        model = Endpoint
        fields = [
            "id", "url", "events", "enabled", "disabled_by", "previous_secret_until", "created_at", "updated_at",
        ]  # fmt: skip
        extra_kwargs = {
            "url": {"help_text": "URL that the events are sent to."},
            "previous_secret_until": {"help_text": "Until when the previous secret signs too, or null."},
        }

    @extend_schema_field(serializers.ChoiceField(choices=Endpoint.DisabledBy.choices, allow_null=True))
    def get_disabled_by(self, endpoint: Endpoint) -> str | None:
        return endpoint.disabled_by or None


class WebhookWithSecretSerializer(WebhookSerializer):
    """A webhook with its new secret, which is shown once."""

    secret = serializers.CharField(help_text="Secret that signs the messages. It is not shown again.")

    class Meta(WebhookSerializer.Meta):
        fields = [*WebhookSerializer.Meta.fields, "secret"]

    def to_representation(self, instance: Any) -> dict[str, Any]:
        issued: EndpointWithSecret = instance
        issued.endpoint.secret = issued.secret  # in place of the encrypted one; the row is not saved again
        return super().to_representation(issued.endpoint)


class WebhookChangesSerializer(serializers.Serializer[Any]):
    """The fields of a webhook that its owner may change."""

    url = serializers.CharField(
        max_length=MAX_URL_LENGTH, required=False, help_text="URL of a public server, https or http."
    )
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=ShopEvent.choices),
        min_length=1,
        max_length=MAX_EVENTS,
        required=False,
        help_text="Events to send.",
    )
    enabled = serializers.BooleanField(required=False, help_text="Whether to send events.")


class NewWebhookSerializer(WebhookChangesSerializer):
    """A new webhook."""

    url = serializers.CharField(max_length=MAX_URL_LENGTH, help_text="URL of a public server, https or http.")
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=ShopEvent.choices),
        min_length=1,
        max_length=MAX_EVENTS,
        default=lambda: list(ShopEvent.values),
        help_text="Events to send. All of them if missing.",
    )
    enabled = serializers.BooleanField(default=True, help_text="Whether to send events.")


class WebhookDeliverySerializer(serializers.ModelSerializer[Delivery]):
    """A message to a webhook."""

    id = serializers.CharField(source="public_id", help_text="Id of the delivery, its `webhook-id` header.")
    attempt_count = serializers.IntegerField(source="attempts", min_value=0, help_text="Number of attempts so far.")
    next_attempt_at = serializers.SerializerMethodField(help_text="When it is sent next, or null.")

    class Meta:
        model = Delivery
        fields = ["id", "event", "url", "state", "attempt_count", "next_attempt_at", "created_at", "finished_at"]
        extra_kwargs = {
            "event": {"help_text": "Name of the event."},
            "url": {"help_text": "URL that it is sent to."},
            "state": {"help_text": "State of the delivery."},
            "finished_at": {"help_text": "When it was delivered or given up, or null."},
        }

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_next_attempt_at(self, delivery: Delivery) -> Any:
        due_at = delivery.due_at if delivery.state == DeliveryState.PENDING else None
        return due_at and serializers.DateTimeField().to_representation(due_at)


class WebhookAttemptSerializer(serializers.ModelSerializer[Attempt]):
    """An attempt to send a delivery."""

    failure = serializers.SerializerMethodField(help_text="Why it failed, or null if it was delivered.")

    class Meta:
        model = Attempt
        fields = ["number", "started_at", "duration_ms", "status", "failure"]
        extra_kwargs = {
            "number": {"help_text": "Number of the attempt, from 1."},
            "started_at": {"help_text": "When it began."},
            "duration_ms": {"help_text": "How long it took, in milliseconds."},
            "status": {"help_text": "HTTP status of the receiver's answer, or null without one."},
        }

    @extend_schema_field(serializers.ChoiceField(choices=Attempt.Failure.choices, allow_null=True))
    def get_failure(self, attempt: Attempt) -> str | None:
        return attempt.failure or None


class WebhookDeliveryDetailSerializer(WebhookDeliverySerializer):
    """A message with its body and its attempts."""

    body = serializers.SerializerMethodField(help_text="Message as it was signed and sent.")
    attempts = WebhookAttemptSerializer(source="attempt_log", many=True, help_text="Attempts, the first one first.")

    class Meta(WebhookDeliverySerializer.Meta):
        fields = [*WebhookDeliverySerializer.Meta.fields, "body", "attempts"]

    @extend_schema_field({"type": "object", "additionalProperties": True})
    def get_body(self, delivery: Delivery) -> Any:
        return json.loads(delivery.body)
