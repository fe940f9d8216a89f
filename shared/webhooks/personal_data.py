"""Personal data in webhooks: endpoints and the deliveries to them."""

from typing import Any

from django.db.models import QuerySet

from shared.accounts.models import User
from shared.personal_data import PersonalDataRule, delete_rows
from shared.webhooks.models import Delivery, Endpoint


def _deliveries(user: User) -> "dict[str, QuerySet[Any]]":
    return {f"{Delivery._meta.label}.endpoint": Delivery.objects.for_user(user)}


SECRETS = ("secret", "previous_secret")
_endpoints = delete_rows(Endpoint, "user", excluded_fields=SECRETS)
RULES = (PersonalDataRule(Endpoint, "user", _endpoints.erase, excluded_fields=SECRETS, related_rows=_deliveries),)
