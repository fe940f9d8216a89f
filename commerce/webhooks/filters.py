"""Allowed filters of the list of deliveries."""

from django_filters import rest_framework as filters

from shared.api.lists.filters import ListFilterSet
from shared.webhooks.models import Delivery, DeliveryState


class WebhookDeliveryFilters(ListFilterSet):
    search_fields = {"event": "event", "state": "state"}
    order_fields = {"created_at": "created_at"}
    state = filters.ChoiceFilter(choices=DeliveryState.choices, help_text="State of the deliveries.")

    class Meta:
        model = Delivery
        fields: list[str] = []
