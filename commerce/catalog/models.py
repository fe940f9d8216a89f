"""Models of products, their variations, product types, categories and tags.

Database constraints hold their invariants.
"""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Case, F, Prefetch, Q, Value, When
from django.db.models.functions import Cast, Coalesce, Least
from django.db.models.lookups import LessThan

from commerce.attachments.models import Attachment
from commerce.attributes.models import AttributeValue
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.slugs import SlugField, validate_slug

LOW_STOCK_QUANTITY = 10  # a product with fewer pieces is low on stock
# Of a product or one of its variations. Indexes have this expression.
LOWEST_QUANTITY = Least(
    Coalesce("lowest_variation_quantity", "quantity", output_field=models.IntegerField()),
    "quantity",
    output_field=models.IntegerField(),
)
MAX_CATEGORY_DEPTH = 4  # levels below a category at the top


def platform_currency() -> str:
    """Return the default currency; migrations refer to this function."""
    return str(settings.CURRENCY)


class ProductType(models.Model):
    """A broad group of products, such as home or outdoors, in one language."""

    name = models.CharField(max_length=255)
    slug = SlugField(max_length=255, validators=[validate_slug])
    language = models.CharField(max_length=16, default="en")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["slug", "language"], name="commerce_product_type_slug_language")]

    def __str__(self) -> str:
        return self.name


class CategoryQuerySet(models.QuerySet["Category"]):
    def for_response(self) -> Self:
        """Prefetch all categories below, in one query a level."""
        return self.prefetch_related("__".join(["children"] * MAX_CATEGORY_DEPTH))


class Category(models.Model):
    """A category within a product type, in one language. A product may be in several categories.

    Categories form a tree. `depth` is the number of categories above one, written by `taxonomy.save_entry`.
    """

    type = models.ForeignKey(ProductType, on_delete=models.PROTECT, related_name="categories")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="children")
    depth = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    name = models.CharField(max_length=255)
    slug = SlugField(max_length=255, validators=[validate_slug])
    language = models.CharField(max_length=16, default="en")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = CategoryQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "categories"
        constraints = [models.UniqueConstraint(fields=["slug", "language"], name="commerce_category_slug_language")]

    def __str__(self) -> str:
        return self.name


class Tag(models.Model):
    """A word that groups products across types and categories, such as bestseller, in one language."""

    name = models.CharField(max_length=255)
    slug = SlugField(max_length=255, validators=[validate_slug])
    language = models.CharField(max_length=16, default="en")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["slug", "language"], name="commerce_tag_slug_language")]

    def __str__(self) -> str:
        return self.name


class ProductQuerySet(models.QuerySet["Product"]):
    def live(self) -> Self:
        """Exclude deleted rows, which orders still refer to."""
        return self.filter(deleted_at=None)

    def for_user(self, user: User) -> Self:
        """Return the products of the shops that this user owns or works in, in any status."""
        return self.live().filter(shop__in=Shop.objects.for_user(user))

    def managed_by(self, user: User) -> Self:
        """Return the products that this user may change: those of their shops, or all for a super admin."""
        return self.live().filter(shop__in=Shop.objects.managed_by(user))

    def low_stock(self) -> Self:
        """Return the products that are low on stock, or have a variation that is, the lowest quantity first."""
        is_low = LessThan(LOWEST_QUANTITY, LOW_STOCK_QUANTITY)
        return self.live().filter(is_low).order_by(LOWEST_QUANTITY, "quantity", "pk")

    def unpublished(self) -> Self:
        """Return what is not published yet or no more."""
        return self.live().exclude(status=Product.Status.PUBLISH)

    def public(self) -> Self:
        """Return what everybody may see and buy: published products of active shops."""
        return self.live().filter(status=Product.Status.PUBLISH, shop__is_active=True)

    def visible_to(self, user: User | None) -> Self:
        """Return the public products and those of the user's shops. `user` is None for an anonymous request."""
        if user is None:
            return self.public()
        public = Q(status=Product.Status.PUBLISH, shop__is_active=True)
        return self.live().filter(public | Q(shop__in=Shop.objects.managed_by(user)))

    def for_response(self) -> Self:
        """Fetch the images that every response shows; `with` fetches other relations."""
        return self.select_related("image").prefetch_related("gallery")


class PricedItem(models.Model):
    """An item with a price and a stock. Money is in minor units of the product's currency."""

    sku = models.CharField("SKU", max_length=64, blank=True, db_index=True)
    price = models.PositiveBigIntegerField(help_text="In minor units of the currency: 1250 is 12.50 euro.")
    sale_price = models.PositiveBigIntegerField(null=True, blank=True, help_text="In minor units; at most the price.")
    quantity = models.PositiveIntegerField(default=0)
    sold_quantity = models.PositiveBigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        abstract = True

    @property
    def selling_price(self) -> int:
        """Return what a customer pays for one piece, in minor units."""
        return self.price if self.sale_price is None else self.sale_price

    @property
    def in_stock(self) -> bool:
        return self.quantity > 0


class Product(PricedItem):
    """A product of a shop.

    A variable product is sold in its variations: its quantity is their sum, and its lowest and highest price are
    theirs.
    """

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
    tags = models.ManyToManyField(Tag, blank=True, related_name="products")
    attribute_values = models.ManyToManyField(AttributeValue, through="ProductValue", related_name="products")
    name = models.CharField(max_length=255, db_index=True)
    slug = SlugField(max_length=255, validators=[validate_slug])
    description = models.TextField(blank=True)
    currency = models.CharField(max_length=3, default=platform_currency)
    is_taxable = models.BooleanField(default=True)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.DRAFT)
    product_type = models.CharField(max_length=16, choices=Kind.choices, default=Kind.SIMPLE)
    unit = models.CharField(max_length=64, blank=True, help_text="What one of it is: piece, 500 g, set of 4.")
    height = models.CharField(max_length=32, blank=True)
    width = models.CharField(max_length=32, blank=True)
    length = models.CharField(max_length=32, blank=True)
    image = models.ForeignKey(Attachment, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    gallery = models.ManyToManyField(Attachment, blank=True, related_name="+")
    language = models.CharField(max_length=16, default="en")

    # Written by `variations.refresh_derived_fields`, for variable products only; the quantity also by `stock`.
    lowest_variation_quantity = models.IntegerField(null=True, editable=False)
    lowest_variation_price = models.PositiveBigIntegerField(null=True, editable=False)
    highest_variation_price = models.PositiveBigIntegerField(null=True, editable=False)
    min_price = models.GeneratedField(
        expression=Coalesce("lowest_variation_price", "sale_price", "price"),
        output_field=models.BigIntegerField(),
        db_persist=True,
    )
    max_price = models.GeneratedField(
        expression=Coalesce("highest_variation_price", "sale_price", "price"),
        output_field=models.BigIntegerField(),
        db_persist=True,
    )

    # Written by `services.change_rating`; only visible reviews count.
    rating_sum = models.PositiveBigIntegerField(default=0, editable=False)
    rating_count = models.PositiveIntegerField(default=0, editable=False)
    ratings = models.GeneratedField(
        expression=Case(
            When(rating_count=0, then=Value(0.0)),
            default=Cast("rating_sum", models.FloatField()) / Cast("rating_count", models.FloatField()),
        ),
        output_field=models.FloatField(),
        db_persist=True,
    )

    objects = ProductQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["slug", "language"], name="commerce_product_slug_language"),
            # Positive fields bring checks of their own: no price or quantity is ever below zero.
            models.CheckConstraint(
                condition=Q(sale_price__isnull=True) | Q(sale_price__lte=F("price")),
                name="commerce_product_sale_price_within_price",
            ),
            models.CheckConstraint(
                condition=Q(currency__regex=r"^[A-Z]{3}$"), name="commerce_product_currency_iso_4217"
            ),
            models.CheckConstraint(
                condition=Q(rating_sum__gte=F("rating_count"), rating_sum__lte=F("rating_count") * 5),
                name="commerce_product_rating_of_one_to_five",
            ),
        ]
        indexes = [
            models.Index(fields=["language", "status", "-id"], name="commerce_product_newest"),
            models.Index(fields=["language", "status", "min_price", "id"], name="commerce_product_by_price"),
            models.Index(fields=["language", "status", "-sold_quantity", "-id"], name="commerce_product_best_selling"),
            models.Index(fields=["language", "status", "created_at", "id"], name="commerce_product_by_age"),
            models.Index(fields=["language", "status", "max_price", "id"], name="commerce_product_by_max_price"),
            models.Index(fields=["language", "status", "ratings", "id"], name="commerce_product_by_rating"),
            models.Index(fields=["language", "status", "price", "id"], name="commerce_product_by_full_price"),
            models.Index(fields=["language", "status", "sale_price", "id"], name="commerce_product_by_sale_price"),
            models.Index(fields=["language", "status", "quantity", "id"], name="commerce_product_by_quantity"),
            models.Index(
                fields=["shop", "status", "-id"],
                condition=Q(deleted_at__isnull=True),
                name="commerce_product_live_of_shop",
            ),
            models.Index(LOWEST_QUANTITY, "quantity", "id", name="commerce_product_lowest_stock"),
            models.Index("shop", LOWEST_QUANTITY, "quantity", "id", name="commerce_product_stock_of_shop"),
            models.Index(fields=["status", "-id"], name="commerce_product_by_status"),
            # With the columns that filter the list of unpublished products, to count it without the table.
            models.Index(
                fields=["-id", "shop", "language"],
                condition=Q(deleted_at__isnull=True) & ~Q(status="publish"),
                name="commerce_product_unpublished",
            ),
            models.Index(fields=["updated_at"], name="commerce_product_updated"),
            # All columns that facets read: counting a hundred thousand products would otherwise read their texts too.
            models.Index(
                fields=[
                    "language",
                    "status",
                    "deleted_at",
                    "shop",
                    "type",
                    "currency",
                    "min_price",
                    "ratings",
                    "quantity",
                ],
                name="commerce_product_facets",
            ),
            models.Index(fields=["-id"], condition=Q(deleted_at__isnull=False), name="commerce_product_deleted"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def total_reviews(self) -> int:
        """Return the number of visible reviews; every review has a rating."""
        return self.rating_count


class ProductValue(models.Model):
    """A value of an attribute in which the variations of a product may differ.

    The value cannot be deleted while a product has it.
    """

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="value_links", db_index=False)
    value = models.ForeignKey(AttributeValue, on_delete=models.PROTECT, related_name="product_links", db_index=False)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["product", "value"], name="commerce_product_value_once")]
        indexes = [models.Index(fields=["value", "product"], name="commerce_product_of_value")]

    def __str__(self) -> str:
        return f"{self.value_id} of product {self.product_id}"


class VariationQuerySet(models.QuerySet["Variation"]):
    def live(self) -> Self:
        """Exclude deleted rows, which orders still refer to."""
        return self.filter(deleted_at=None)

    def visible_to(self, user: User | None) -> Self:
        """Return the live variations with their image and values. Who may see a product may see its variations."""
        values = VariationValue.objects.select_related("value__attribute")
        return self.live().select_related("image").prefetch_related(Prefetch("value_links", values))


class Variation(PricedItem):
    """A variation of a variable product: a combination of its attribute values, such as a size and a color.

    `options` has the combination as it was written, as a list of `{"name": ..., "value": ...}`. It is the only record
    of options that name no attribute. Money is in the product's currency.
    """

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="variations")
    title = models.CharField(max_length=255)
    options = models.JSONField(default=list, blank=True)
    image = models.ForeignKey(Attachment, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    objects = VariationQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(sale_price__isnull=True) | Q(sale_price__lte=F("price")),
                name="commerce_variation_sale_price_within_price",
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def current_options(self) -> list[dict[str, str]]:
        """Return the present names of linked values, or else the options as they were written."""
        linked = [link.value for link in self.value_links.all()]
        options: list[dict[str, str]] = self.options
        return [{"name": value.attribute.name, "value": value.value} for value in linked] or options


class VariationValue(models.Model):
    """A value that a variation combines. Its product has the value too, in ProductValue."""

    variation = models.ForeignKey(Variation, on_delete=models.CASCADE, related_name="value_links", db_index=False)
    value = models.ForeignKey(AttributeValue, on_delete=models.PROTECT, related_name="variation_links")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["variation", "value"], name="commerce_variation_value_once")]

    def __str__(self) -> str:
        return f"{self.value_id} of variation {self.variation_id}"
