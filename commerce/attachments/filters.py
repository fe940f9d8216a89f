"""What the list of attachments may be asked."""

from commerce.attachments.models import Attachment
from shared.api.listing import ListFilters


class AttachmentFilters(ListFilters):
    order_fields = {name: name for name in ("id", "created_at")}

    class Meta:
        model = Attachment
        fields: list[str] = []
