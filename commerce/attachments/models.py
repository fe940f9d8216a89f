"""Models of uploaded files and of storage folders that are scheduled for deletion."""

from typing import Self

from django.db import models
from django.db.models import Q

from commerce.attachments.uploads.file_types import FileType
from shared.accounts.models import User
from shared.accounts.roles import Role


class AttachmentQuerySet(models.QuerySet["Attachment"]):
    def for_user(self, user: User) -> Self:
        """Return the attachments that this user may delete: their own, those of their shops, all for a super admin."""
        if user.role == Role.SUPER_ADMIN:
            return self.all()
        own = Q(owner=user)
        if user.role == Role.STORE_OWNER:
            own |= Q(shop__in=user.owned_shops.all())  # no join, with which PostgreSQL would not lock the rows
        return self.filter(own)


class Attachment(models.Model):
    """An uploaded file, with smaller copies where it is an image.

    It owns the storage folder named by `key`. References to it are set to null when it is deleted.
    """

    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="attachments")
    # Of the staff member who uploaded it: its quota counts the file, also once they have left.
    shop = models.ForeignKey(
        "commerce_shops.Shop", on_delete=models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    key = models.CharField(max_length=32, unique=True, editable=False)
    name = models.CharField(max_length=255, db_index=True)
    content_type = models.CharField(max_length=32, choices=FileType.choices)
    size = models.PositiveBigIntegerField(help_text="Size of the stored file in bytes.")
    width = models.PositiveIntegerField(null=True, blank=True)
    height = models.PositiveIntegerField(null=True, blank=True)
    alt = models.CharField("alternative text", max_length=500, blank=True, default="", db_default="")
    # What a cropped image should show, as fractions of the width and the height.
    focal_x = models.FloatField(null=True, blank=True)
    focal_y = models.FloatField(null=True, blank=True)
    has_avif = models.BooleanField("has AVIF variants", default=False, db_default=False, editable=False)
    sizes_made_at = models.DateTimeField(null=True, blank=True, editable=False)  # null until a worker has made them
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = AttachmentQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["content_type", "-id"], name="commerce_attachment_by_type"),
            models.Index(
                fields=["id"],
                condition=Q(width__isnull=False, sizes_made_at__isnull=True),
                name="commerce_attachment_unsized",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(width__gt=0, height__gt=0) | Q(width__isnull=True, height__isnull=True),
                name="commerce_attachment_both_sides_or_none",
            ),
            models.CheckConstraint(
                condition=Q(focal_x__range=(0, 1), focal_y__range=(0, 1))
                | Q(focal_x__isnull=True, focal_y__isnull=True),
                name="commerce_attachment_focal_point_inside",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_image(self) -> bool:
        return self.width is not None


class ScheduledDeletion(models.Model):
    """A storage folder to delete at `due_at`, unless an upload commits first.

    An upload schedules the deletion of its folder before the first file, so that a crash leaves no unknown files.
    """

    folder = models.CharField(max_length=100, unique=True)
    due_at = models.DateTimeField(db_index=True)
    finalized_at = models.DateTimeField(null=True, editable=False)  # set once a presigned upload becomes an attachment

    class Meta:
        db_table = "commerce_attachments_leftover"

    def __str__(self) -> str:
        return self.folder
