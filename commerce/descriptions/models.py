"""Drafts: what a model wrote for a product, kept until somebody uses it."""

from django.db import models

from commerce.catalog.models import Product
from shared.accounts.models import User


class DescriptionDraft(models.Model):
    """One text for one product, word for word as the model wrote it. The product itself is not changed."""

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="description_drafts")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="description_drafts")
    text = models.TextField()
    model = models.CharField(max_length=255, help_text="The model that wrote it.")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"Draft {self.pk} for {self.product}"
