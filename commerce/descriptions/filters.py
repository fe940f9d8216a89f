"""Query parameters of the list of drafts."""

from django_filters import rest_framework as filters

from commerce.descriptions.models import DescriptionDraft
from shared.api.lists.filters import IntegerFilter, ListFilterSet


class DraftFilters(ListFilterSet):
    search_fields = {name: name for name in ("state", "language", "product_id")}
    order_fields = {name: name for name in ("id", "created_at", "decided_at")}
    relations = {"product": "product"}
    product_id = IntegerFilter(help_text="Id of a product.")
    shop_id = IntegerFilter(field_name="product__shop_id", help_text="Id of a shop.")
    job_id = IntegerFilter(field_name="item__job_id", help_text="Id of a job.")
    state = filters.ChoiceFilter(choices=DescriptionDraft.State.choices, help_text="State of the drafts.")

    class Meta:
        model = DescriptionDraft
        fields: list[str] = []
