"""Writes to products and their ratings."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet

from commerce.attachments.models import Attachment
from commerce.catalog.models import Category, Product, ProductType, Tag
from commerce.catalog.variations import (
    change_variations,
    delete_value_links,
    require_listed_values,
    set_attribute_values,
    set_variations,
)
from commerce.shops.models import Shop
from commerce.webhooks.events import announce_product_updates
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, NotFound, ValidationFailed
from shared.api.slugs import save_with_unique_slug

COLUMNS = (
    "type_id", "name", "description", "price", "sale_price", "sku", "quantity", "currency", "is_taxable", "status",
    "product_type", "unit", "height", "width", "length",
)  # fmt: skip
UNKNOWN_IMAGE = "Send the id of an image that you uploaded."
# Statuses that a shop may set. Super admins approve and reject; a product under review waits for them, or a rejected
# product could go back on sale by way of a draft.
SHOP_STATUSES = frozenset({Product.Status.DRAFT, Product.Status.PUBLISH, Product.Status.UNDER_REVIEW})


@transaction.atomic
def create_product(*, actor: User, shop_id: int, values: Mapping[str, Any], now: datetime) -> Product:
    """Create a product in a shop that the actor manages.

    `values` has the columns, `slug`, `language`, `category_ids`, `tag_ids`, `image_id`, `gallery_ids`,
    `attribute_value_ids`, and `variations` or `variation_options`. Raises ApiError 403 for another shop, and
    ValidationFailed.
    """
    shop = require_managed_shop(actor=actor, shop_id=shop_id)
    product = Product(shop=shop, price=0, language=values.get("language", "en"))  # variations set the price later
    _set_columns(product, actor, values)
    _set_image(product, actor, values)

    def save(slug: str) -> None:
        product.slug = slug
        product.save(force_insert=True)

    save_with_unique_slug(save, Product.objects.filter(language=product.language), values.get("slug") or product.name)
    _set_relations(product, actor, values, now)
    return product


@transaction.atomic
def change_product(*, actor: User, product_id: int, values: Mapping[str, Any], now: datetime) -> Product:
    """Change the fields in `values`, which are those of `create_product` without `slug` and `language`.

    A new currency needs new prices in the same call. Raises NotFound unless the actor manages the product's shop, and
    ValidationFailed.
    """
    product = _lock_product(actor, product_id)
    require_prices_of_new_currency(product, values)
    _set_columns(product, actor, values)
    _set_image(product, actor, values)
    product.save()
    _set_relations(product, actor, values, now)
    announce_product_updates([product], now=now)
    return product


@transaction.atomic
def delete_product(*, actor: User, product_id: int, now: datetime) -> Product:
    """Remove a product from every list; orders keep it. Raises NotFound as `change_product` does."""
    product = _lock_product(actor, product_id)
    Product.objects.filter(pk=product.pk).update(deleted_at=now, updated_at=now)
    delete_value_links(product=product)
    return product


def require_managed_shop(*, actor: User, shop_id: int) -> Shop:
    """Return the shop if the actor may add products to it. Raises ApiError 403 for any other one."""
    shop = Shop.objects.managed_by(actor).filter(pk=shop_id).first()
    if shop is None:
        raise ApiError(403, "You may not add products to this shop.")
    return shop


def change_rating(*, product_id: int, stars: int, count: int) -> None:
    """Add to the sum of stars and the number of visible reviews; both are negative when a review is hidden."""
    Product.objects.filter(pk=product_id).update(
        rating_sum=F("rating_sum") + stars, rating_count=F("rating_count") + count
    )


def _lock_product(actor: User, product_id: int) -> Product:
    """Lock the product, so that an edit and an order do not overwrite each other's quantity."""
    product = Product.objects.select_for_update(of=("self",)).managed_by(actor).filter(pk=product_id).first()
    if product is None:
        raise NotFound
    return product


def assign_columns(product: Product, actor: User, values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Set the columns in `values`, and return the errors of their combination."""
    old_status = product.status
    for name in COLUMNS:
        if name in values:
            setattr(product, name, values[name])
    errors: dict[str, list[str]] = {}
    if product.sale_price is not None and product.sale_price > product.price:
        errors["sale_price"] = ["The sale price must not be above the price."]
    if product.status != old_status and not _can_set_status(actor, old_status, product.status):
        errors["status"] = [f"Shops cannot change the status from {old_status} to {product.status}."]
    return errors


def _set_columns(product: Product, actor: User, values: Mapping[str, Any]) -> None:
    errors = assign_columns(product, actor, values)
    if not ProductType.objects.filter(pk=product.type_id).exists():
        errors["type_id"] = ["There is no product type with this id."]
    if errors:
        raise ValidationFailed(errors)


def require_prices_of_new_currency(product: Product, values: Mapping[str, Any]) -> None:
    """Raise ValidationFailed if prices in minor units would be reinterpreted: 49 euro would become 4900 yen."""
    if values.get("currency", product.currency) == product.currency:
        return
    if values.get("product_type", product.product_type) == Product.Kind.VARIABLE:
        has_prices = _has_prices_of_all_variations(product, values)
        required = "all variations, with `sale_price` where one has an id"
    else:
        has_prices = "price" in values and ("sale_price" in values or product.sale_price is None)
        required = "`price` and `sale_price`"
    if not has_prices:
        raise ValidationFailed({"currency": [f"A new currency needs new prices: send {required} with it."]})


def _has_prices_of_all_variations(product: Product, values: Mapping[str, Any]) -> bool:
    items, kept_ids = values.get("variations"), set[int]()
    if "variation_options" in values:
        options = values["variation_options"]
        items = options.get("upsert", [])
        kept_ids = set(product.variations.live().exclude(pk__in=options.get("delete", [])).values_list("pk", flat=True))
    if items is None or kept_ids - {item.get("id") for item in items}:
        return False
    return all("sale_price" in item or item.get("id") is None for item in items)


def _can_set_status(actor: User, old: str, new: str) -> bool:
    if actor.role == Role.SUPER_ADMIN:
        return True
    if old == Product.Status.REJECTED:
        return new == Product.Status.UNDER_REVIEW
    return new in SHOP_STATUSES and old != Product.Status.UNDER_REVIEW


def _set_image(product: Product, actor: User, values: Mapping[str, Any]) -> None:
    if "image_id" not in values:
        return
    image_id = values["image_id"]
    if image_id is not None and image_id != product.image_id:
        _require_own_images(actor, "image", {image_id})
    product.image_id = image_id


def _require_own_images(actor: User, field: str, ids: set[int]) -> None:
    if own_images(actor, ids).count() != len(ids):
        raise ValidationFailed({field: [UNKNOWN_IMAGE]})


def own_images(actor: User, ids: Collection[int]) -> "QuerySet[Attachment]":
    return Attachment.objects.for_user(actor).filter(pk__in=ids, width__isnull=False)


def _set_relations(product: Product, actor: User, values: Mapping[str, Any], now: datetime) -> None:
    if "category_ids" in values:
        ids = set(values["category_ids"])
        if Category.objects.filter(pk__in=ids).count() != len(ids):
            raise ValidationFailed({"categories": ["There is no category with one of these ids."]})
        product.categories.set(ids)
    if "tag_ids" in values:
        ids = set(values["tag_ids"])
        if Tag.objects.filter(pk__in=ids).count() != len(ids):
            raise ValidationFailed({"tags": ["There is no tag with one of these ids."]})
        product.tags.set(ids)
    if "gallery_ids" in values:
        ids = set(values["gallery_ids"])
        existing_ids = set(product.gallery.values_list("pk", flat=True))
        _require_own_images(actor, "gallery", ids - existing_ids)
        product.gallery.set(ids)
    if product.product_type == Product.Kind.VARIABLE:
        _set_variations(product, actor, values, now)
    elif values.get("variations") or values.get("attribute_value_ids"):
        raise ValidationFailed({"variations": ["Only a variable product has variations."]})
    elif values.get("variation_options", {}).get("upsert"):
        raise ValidationFailed({"variation_options": ["Only a variable product has variations."]})
    elif (
        product.lowest_variation_price is not None or product.value_links.exists()
    ):  # it was a variable product until now
        set_variations(product=product, items=[], now=now)
        delete_value_links(product=product)


def _set_variations(product: Product, actor: User, values: Mapping[str, Any], now: datetime) -> None:
    if "attribute_value_ids" in values:
        set_attribute_values(product=product, value_ids=values["attribute_value_ids"])
    options = values.get("variation_options")
    if options is None:
        items = values.get("variations")
        require_own_variation_images(product, actor, items or [], "variations")
        set_variations(product=product, items=items, now=now)
    else:
        upsert = options.get("upsert", [])
        require_own_variation_images(product, actor, upsert, "variation_options.upsert")
        change_variations(product=product, upsert=upsert, removed_ids=options.get("delete", []), now=now)
    if "attribute_value_ids" in values:
        require_listed_values(product=product)


def require_own_variation_images(product: Product, actor: User, items: Sequence[Mapping[str, Any]], path: str) -> None:
    existing_ids = set(product.variations.exclude(image=None).values_list("image_id", flat=True))
    sent_ids = {position: item["image_id"] for position, item in enumerate(items) if item.get("image_id")}
    new_ids = set(sent_ids.values()) - existing_ids
    own_ids = set(own_images(actor, new_ids).values_list("pk", flat=True)) if new_ids else set[int]()
    for position, image_id in sent_ids.items():
        if image_id in new_ids - own_ids:
            raise ValidationFailed({f"{path}.{position}.image": [UNKNOWN_IMAGE]})
