"""Admin of attachments, which can be viewed and deleted but not changed."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _

from commerce.attachments import services, storage
from commerce.attachments.images.sizes import thumbnail_size
from commerce.attachments.models import Attachment
from shared.accounts.permissions import signed_in_user
from shared.api.admin.base import LargeTableAdmin


@admin.register(Attachment)
class AttachmentAdmin(LargeTableAdmin):
    list_display = ["name", "preview", "content_type", "size", "owner", "created_at"]
    list_select_related = ["owner"]
    sortable_by = ["name", "created_at"]
    list_filter = ["content_type"]
    search_fields = ["name", "owner__email"]
    fields = ["name", "preview", "content_type", "size", "width", "height", "owner", "created_at"]
    readonly_fields = fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Attachment | None = None) -> bool:
        return False

    @admin.display(description="Preview")
    def preview(self, attachment: Attachment) -> str:
        url = storage.original_url(attachment, None)
        if attachment.width is None or attachment.height is None:
            return format_html('<a href="{}">{}</a>', url, _("Download"))
        thumbnail = storage.size_url(attachment, thumbnail_size(attachment.width, attachment.height), None)
        return format_html('<a href="{}"><img src="{}" alt="" style="max-height: 4rem"></a>', url, thumbnail)

    def delete_model(self, request: HttpRequest, obj: Attachment) -> None:
        services.delete_attachment(attachment_id=obj.pk, actor=signed_in_user(request), now=timezone.now())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Attachment]) -> None:
        for attachment in list(queryset):
            self.delete_model(request, attachment)
