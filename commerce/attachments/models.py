"""What people uploaded, and the folders of files that belong to nobody."""

from typing import Self

from django.db import models
from django.db.models import Q

from shared.accounts.models import User
from shared.accounts.roles import Role


class AttachmentQuerySet(models.QuerySet["Attachment"]):
    def for_user(self, user: User) -> Self:
        """What this user may delete: their own; everything for a super admin."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.filter(owner=user)


class Attachment(models.Model):
    """One uploaded file, with the smaller sizes made of it when it is an image. It owns a folder of the storage, named
    by `key`. Who refers to it lets go when it is deleted (SET_NULL)."""

    class Type(models.TextChoices):
        JPEG = "image/jpeg"
        PNG = "image/png"
        WEBP = "image/webp"
        GIF = "image/gif"
        AVIF = "image/avif"
        PDF = "application/pdf"
        ZIP = "application/zip"
        EPUB = "application/epub+zip"

    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="attachments")
    key = models.CharField(max_length=32, unique=True, editable=False)
    name = models.CharField(max_length=255, db_index=True)
    content_type = models.CharField(max_length=32, choices=Type.choices)
    size = models.PositiveBigIntegerField(help_text="In bytes, as stored.")
    width = models.PositiveIntegerField(null=True, blank=True)
    height = models.PositiveIntegerField(null=True, blank=True)
    sizes_made_at = models.DateTimeField(null=True, blank=True, editable=False)  # null: a worker has yet to make them
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
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_image(self) -> bool:
        return self.width is not None


class Leftover(models.Model):
    """A folder of the storage that goes once it is due. An upload is one until its attachment is committed; what a
    deleted attachment leaves is one until its files are gone. So a crash leaves nothing that nobody knows of."""

    folder = models.CharField(max_length=100, unique=True)
    due_at = models.DateTimeField(db_index=True)
    finalized_at = models.DateTimeField(null=True, editable=False)  # of one sent straight to S3: stored, and only once

    def __str__(self) -> str:
        return self.folder
