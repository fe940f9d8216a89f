"""Query parameters of the lists of drafts and of jobs."""

from django_filters import rest_framework as filters

from commerce.descriptions.models import DescriptionDraft, DescriptionJob
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


class JobFilters(ListFilterSet):
    search_fields = {"state": "state"}
    order_fields = {name: name for name in ("id", "created_at", "ended_at")}
    state = filters.ChoiceFilter(choices=DescriptionJob.State.choices, help_text="State of the jobs.")

    class Meta:
        model = DescriptionJob
        fields: list[str] = []
