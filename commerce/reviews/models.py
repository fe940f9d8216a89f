"""Reviews and questions: what customers write about products. Deleting one keeps the row."""

from typing import Self, TypeVar

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
    def standing(self) -> Self:
        """What is not deleted, hidden or not."""
        return self.filter(deleted_at=None)

    def visible(self) -> Self:
        """What anybody may read."""
        return self.standing().filter(hidden_at=None)

    def for_author(self, user: User) -> Self:
        """What this user may take back: their own, hidden or not; anything for a super admin."""
        standing = self.standing()
        return standing if user.role == Role.SUPER_ADMIN else standing.filter(user=user)

    def managed_by(self, user: User) -> Self:
        """What is written about the shops that this user owns or works in; about every shop for a super admin."""
        return self.visible().filter(shop__in=Shop.objects.managed_by(user))


class Content(models.Model):
    """What is common to all that customers write; each kind can be reported."""

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="%(class)ss")
    product = models.ForeignKey(Product, on_delete=models.PROTECT, related_name="%(class)ss")
    shop = models.ForeignKey(Shop, on_delete=models.PROTECT, related_name="%(class)ss")
    abusive_reports_count = models.PositiveIntegerField(default=0)
    hidden_at = models.DateTimeField(null=True, blank=True)  # for now: until a moderator decides
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        abstract = True
        ordering = ["-id"]

    @property
    def is_visible(self) -> bool:
        return self.deleted_at is None and self.hidden_at is None


class Review(Content):
    """A customer's opinion of a product: one for each order they bought it in, and one without an order."""

    # Always the parent, whichever order of the tree was named.
    order = models.ForeignKey(Order, on_delete=models.PROTECT, null=True, blank=True, related_name="reviews")
    rating = models.PositiveSmallIntegerField()
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
            models.Index(fields=["-id"], condition=Q(deleted_at__isnull=False), name="commerce_review_deleted"),
        ]

    def __str__(self) -> str:
        return f"Review {self.pk}: {self.rating} of 5"


class Question(Content):
    """A customer's question about a product, and the shop's answer."""

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
            models.Index(fields=["-id"], condition=Q(deleted_at__isnull=False), name="commerce_question_deleted"),
        ]

    def __str__(self) -> str:
        return f"Question {self.pk}"
