"""Query parameters of the list of jobs."""

from django_filters import rest_framework as filters

from commerce.descriptions.models import DescriptionJob
from shared.api.lists.filters import ListFilterSet


class JobFilters(ListFilterSet):
    search_fields = {"state": "state"}
    order_fields = {name: name for name in ("id", "created_at", "ended_at")}
    state = filters.ChoiceFilter(choices=DescriptionJob.State.choices, help_text="State of the jobs.")

    class Meta:
        model = DescriptionJob
        fields: list[str] = []
