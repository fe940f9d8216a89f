"""Query parameters of the list of drafts."""

from django_filters import rest_framework as filters

from commerce.descriptions.models import DescriptionDraft
from shared.api.lists.filters import IntegerFilter, ListFilterSet


class DraftFilters(ListFilterSet):
    search_fields = {name: name for name in ("state", "language", "product_id")}
    order_fields = {name: name for name in ("id", "created_at", "decided_at")}
    relations = {"product": "product"}
    product_id = IntegerFilter()
    shop_id = IntegerFilter(field_name="product__shop_id")
    job_id = IntegerFilter(field_name="item__job_id")
    state = filters.ChoiceFilter(choices=DescriptionDraft.State.choices)

    class Meta:
        model = DescriptionDraft
        fields: list[str] = []
