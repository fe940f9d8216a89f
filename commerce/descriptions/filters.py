"""What the lists of drafts and jobs may be asked."""

from django_filters import rest_framework as filters

from commerce.descriptions.models import DescriptionDraft, DescriptionJob
from shared.api.listing import ListFilters, WholeNumberFilter


class DraftFilters(ListFilters):
    search_fields = {name: name for name in ("state", "language", "product_id")}
    order_fields = {name: name for name in ("id", "created_at", "decided_at")}
    relations = {"product": "product"}
    product_id = WholeNumberFilter()
    shop_id = WholeNumberFilter(field_name="product__shop_id")
    job_id = WholeNumberFilter(field_name="item__job_id")
    state = filters.ChoiceFilter(choices=DescriptionDraft.State.choices)

    class Meta:
        model = DescriptionDraft
        fields: list[str] = []


class JobFilters(ListFilters):
    search_fields = {"state": "state"}
    order_fields = {name: name for name in ("id", "created_at", "ended_at")}
    state = filters.ChoiceFilter(choices=DescriptionJob.State.choices)

    class Meta:
        model = DescriptionJob
        fields: list[str] = []
