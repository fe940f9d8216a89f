"""What webhooks keep about a person: where they want to be told, and what they were told."""

from typing import Any

from django.db.models import QuerySet

from inference.webhooks.models import Delivery, Endpoint
from shared.accounts.models import User
from shared.accounts.person_rules import Rule, deleted


def _deliveries(user: User) -> "dict[str, QuerySet[Any]]":
    return {"inference_webhooks.Delivery.endpoint": Delivery.objects.for_user(user)}


_endpoints = deleted(Endpoint, "user", hidden=("secret", "previous_secret"))
RULES = (Rule(Endpoint, "user", _endpoints.erase, hidden=_endpoints.hidden, more=_deliveries),)
