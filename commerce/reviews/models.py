"""Models of reviews and questions. Deleting one keeps its row."""

from typing import ClassVar, Self, TypeVar

from django.db import models
from django.db.models import Q

from commerce.attachments.models import Attachment
from commerce.catalog.models import Product
from commerce.orders.models import Order
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role

ContentT = TypeVar("ContentT", bound="Content")


class ContentQuerySet(models.QuerySet[ContentT]):
    def not_deleted(self) -> Self:
        """Return what is not deleted, hidden or not."""
        return self.filter(deleted_at=None)

    def visible(self) -> Self:
        """Return what everybody may read."""
        return self.not_deleted().filter(hidden_at=None)

    def for_author(self, user: User) -> Self:
        """Return what this user may delete: their own, hidden or not, or all for a super admin."""
        content = self.not_deleted()
        return content if user.role == Role.SUPER_ADMIN else content.filter(user=user)

    def managed_by(self, user: User) -> Self:
        """Return what is visible about the shops that this user owns or works in, or all for a super admin."""
        return self.visible().filter(shop__in=Shop.objects.managed_by(user))


class Content(models.Model):
    """Common fields of reviews and questions, both of which can be reported."""

    text_field: ClassVar[str]  # what the author wrote

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="%(class)ss")
    product = models.ForeignKey(Product, on_delete=models.PROTECT, related_name="%(class)ss")
    shop = models.ForeignKey(Shop, on_delete=models.PROTECT, related_name="%(class)ss")
    abusive_reports_count = models.PositiveIntegerField(default=0)
    hidden_at = models.DateTimeField(null=True, blank=True)  # until a moderator decides
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        abstract = True
        ordering = ["-id"]

    @property
    def is_visible(self) -> bool:
        return self.deleted_at is None and self.hidden_at is None

    @property
    def text(self) -> str:
        """Return what the author wrote."""
        return str(getattr(self, self.text_field))


class Review(Content):
    """A customer's review of a product: one for each order with it, and one without an order."""

    # The parent order, whichever order of the tree was sent.
    order = models.ForeignKey(Order, on_delete=models.PROTECT, null=True, blank=True, related_name="reviews")
    rating = models.PositiveSmallIntegerField()
    text_field = "comment"
    comment = models.TextField(blank=True)
    photos = models.ManyToManyField(Attachment, blank=True, related_name="reviews")

    objects = ContentQuerySet["Review"].as_manager()

    class Meta(Content.Meta):
        constraints = [
            models.CheckConstraint(condition=Q(rating__gte=1, rating__lte=5), name="commerce_review_rating_1_to_5"),
            models.UniqueConstraint(
                fields=["user", "product", "order"],
                condition=Q(deleted_at__isnull=True, order__isnull=False),
                name="commerce_review_one_an_order",
            ),
            models.UniqueConstraint(
                fields=["user", "product"],
                condition=Q(deleted_at__isnull=True, order__isnull=True),
                name="commerce_review_one_without_order",
            ),
        ]
        indexes = [
            models.Index(
                fields=["product", "-created_at", "-id"],
                condition=Q(deleted_at__isnull=True),
                name="commerce_review_of_product",
            ),
            models.Index(
                fields=["-created_at", "-id"], condition=Q(deleted_at__isnull=True), name="commerce_review_newest"
            ),
            models.Index(
                fields=["rating", "id"], condition=Q(deleted_at__isnull=True), name="commerce_review_by_rating"
            ),
            models.Index(
                fields=["updated_at", "id"], condition=Q(deleted_at__isnull=True), name="commerce_review_updated"
            ),
            models.Index(fields=["-id"], condition=Q(deleted_at__isnull=False), name="commerce_review_deleted"),
        ]

    def __str__(self) -> str:
        return f"Review {self.pk}: {self.rating} of 5"


class Question(Content):
    """A customer's question about a product, and the shop's answer."""

    text_field = "question"
    question = models.TextField()
    answer = models.TextField(blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)

    objects = ContentQuerySet["Question"].as_manager()

    class Meta(Content.Meta):
        indexes = [
            models.Index(
                fields=["product", "-created_at", "-id"],
                condition=Q(deleted_at__isnull=True),
                name="commerce_question_of_product",
            ),
            models.Index(
                fields=["-created_at", "-id"], condition=Q(deleted_at__isnull=True), name="commerce_question_newest"
            ),
            models.Index(
                fields=["updated_at", "id"], condition=Q(deleted_at__isnull=True), name="commerce_question_updated"
            ),
            models.Index(
                fields=["answered_at", "id"], condition=Q(deleted_at__isnull=True), name="commerce_question_answered"
            ),
            models.Index(fields=["-id"], condition=Q(deleted_at__isnull=False), name="commerce_question_deleted"),
        ]

    def __str__(self) -> str:
        return f"Question {self.pk}"
