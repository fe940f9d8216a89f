"""Query parameters of the list of attachments."""

from commerce.attachments.models import Attachment
from shared.api.lists.filters import ListFilterSet


class AttachmentFilters(ListFilterSet):
    order_fields = {name: name for name in ("id", "created_at")}

    class Meta:
        model = Attachment
        fields: list[str] = []
