"""Drafts, which a model wrote and people use or leave; and how many a shop may ask for in a day."""

from typing import Self

from django.db import models
from django.db.models import Q

from commerce.catalog.models import Product
from commerce.shops.models import Shop
from shared.accounts.models import User


class DraftQuerySet(models.QuerySet["DescriptionDraft"]):
    def managed_by(self, user: User) -> Self:
        """The drafts for products that this user may change."""
        return self.filter(product__in=Product.objects.managed_by(user))

    def open(self) -> Self:
        """Those that nobody has decided about."""
        return self.filter(state=DescriptionDraft.State.OPEN)


class DescriptionDraft(models.Model):
    """One text for one product, with what was asked for. `written` is the model's, `text` what people made of it. The
    product is changed by accepting it alone. What was accepted or discarded stays, as the product's history."""

    class State(models.TextChoices):
        OPEN = "open"
        ACCEPTED = "accepted"
        DISCARDED = "discarded"

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="description_drafts")
    author = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="description_drafts", help_text="Who asked for it."
    )
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    text = models.TextField()
    written = models.TextField(editable=False)
    model = models.CharField(max_length=255, help_text="The model that wrote it.")
    tone = models.CharField(max_length=32, blank=True)
    language = models.CharField(max_length=16, default="en")
    keywords = models.JSONField(default=list, blank=True)
    max_words = models.PositiveSmallIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()
    edited_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")

    objects = DraftQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["open", "accepted", "discarded"]), name="commerce_description_draft_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="open", decided_at__isnull=True, decided_by__isnull=True)
                | (~Q(state="open") & Q(decided_at__isnull=False, decided_by__isnull=False)),
                name="commerce_description_draft_decided_by_somebody",
            ),
            models.CheckConstraint(condition=~Q(text=""), name="commerce_description_draft_has_text"),
        ]
        indexes = [models.Index(fields=["product", "-created_at", "-id"], name="commerce_draft_of_product")]

    def __str__(self) -> str:
        return f"Draft {self.pk} for {self.product}"

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN


class Allowance(models.Model):
    """How many descriptions were asked for on one day: of a shop, or by somebody who has none."""

    day = models.DateField(help_text="In UTC.")
    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, null=True, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    used = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-day", "id"]
        constraints = [
            # Of rows with a null in it a constraint lets any number be: each of these two is about its own kind.
            models.UniqueConstraint(fields=["shop", "day"], name="commerce_allowance_one_a_shop_and_day"),
            models.UniqueConstraint(fields=["user", "day"], name="commerce_allowance_one_a_user_and_day"),
            models.CheckConstraint(
                condition=Q(shop__isnull=False, user__isnull=True) | Q(shop__isnull=True, user__isnull=False),
                name="commerce_allowance_of_a_shop_or_a_user",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.used} on {self.day}"
