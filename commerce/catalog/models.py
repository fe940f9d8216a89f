"""Products, their types and categories. What must hold of a product, the database holds."""

from typing import Self

from django.db import models
from django.db.models import F, Q

from commerce.shops.models import Shop
from shared.accounts.models import User


class ProductType(models.Model):
    """A branch of the market that a shop's products belong to: kitchen, outdoors, ..."""

    name = models.CharField(max_length=255)
    slug = models.SlugField(max_length=255)
    language = models.CharField(max_length=16, default="en")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["slug", "language"], name="commerce_product_type_slug_language")]

    def __str__(self) -> str:
        return self.name


class Category(models.Model):
    """A shelf within a type; a product may stand on several."""

    type = models.ForeignKey(ProductType, on_delete=models.PROTECT, related_name="categories")
    name = models.CharField(max_length=255)
    slug = models.SlugField(max_length=255)
    language = models.CharField(max_length=16, default="en")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "categories"
        constraints = [models.UniqueConstraint(fields=["slug", "language"], name="commerce_category_slug_language")]

    def __str__(self) -> str:
        return self.name


class ProductQuerySet(models.QuerySet["Product"]):
    def for_user(self, user: User) -> Self:
        """The products of the shops that this user owns or works in."""
        return self.filter(shop__in=Shop.objects.for_user(user))


class Product(models.Model):
    """One thing for sale. Money is in the minor units of `currency`, cents of a euro for one."""

    class Status(models.TextChoices):
        DRAFT = "draft"
        PUBLISH = "publish"
        APPROVED = "approved"
        REJECTED = "rejected"
        UNDER_REVIEW = "under_review"

    class Kind(models.TextChoices):
        SIMPLE = "simple"
        VARIABLE = "variable"

    shop = models.ForeignKey(Shop, on_delete=models.PROTECT, related_name="products")
    type = models.ForeignKey(ProductType, on_delete=models.PROTECT, related_name="products")
    categories = models.ManyToManyField(Category, blank=True, related_name="products")
    name = models.CharField(max_length=255)
    slug = models.SlugField(max_length=255)
    description = models.TextField(blank=True)
    price = models.PositiveBigIntegerField(help_text="In minor units of the currency: 1250 is 12.50 euro.")
    sale_price = models.PositiveBigIntegerField(null=True, blank=True, help_text="In minor units; at most the price.")
    currency = models.CharField(max_length=3, default="EUR")
    quantity = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.DRAFT)
    product_type = models.CharField(max_length=16, choices=Kind.choices, default=Kind.SIMPLE)
    language = models.CharField(max_length=16, default="en")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ProductQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["slug", "language"], name="commerce_product_slug_language"),
            # Positive fields carry their own checks: no price and no quantity is ever below zero.
            models.CheckConstraint(
                condition=Q(sale_price__isnull=True) | Q(sale_price__lte=F("price")),
                name="commerce_product_sale_price_within_price",
            ),
            models.CheckConstraint(
                condition=Q(currency__regex=r"^[A-Z]{3}$"), name="commerce_product_currency_iso_4217"
            ),
        ]

    def __str__(self) -> str:
        return self.name
