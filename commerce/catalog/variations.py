"""Variations of a variable product, the attribute values that they combine, and what the product derives from them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Max, Min, Sum
from django.db.models.functions import Coalesce

from commerce.attributes.models import Attribute, AttributeValue
from commerce.catalog.models import Product, ProductValue, Variation, VariationValue
from shared.api.errors import ValidationFailed

COLUMNS = ("title", "options", "sku", "price", "sale_price", "quantity", "image_id")
MAX_VARIATIONS = 100
MAX_QUANTITY = 2**31 - 1  # of a variation, and of all variations of a product
MAX_VALUES = 200  # attribute values of a product
MAX_LISTED_VALUES = 10  # in an error


def set_variations(*, product: Product, items: Sequence[Mapping[str, Any]] | None, now: datetime) -> None:
    """Replace the variations of a product by `items`, or leave them if `items` is None.

    Items with an id change that variation, items without one are new, and variations not in the list are deleted.
    The caller holds the product's row lock. Raises ValidationFailed.
    """
    if items is not None:
        kept_ids = {item["id"] for item in items if item.get("id") is not None}
        removed_ids = set(product.variations.live().exclude(pk__in=kept_ids).values_list("pk", flat=True))
        _write(product, items, removed_ids, "variations", now)
    _delete_unused_links(product)
    refresh_derived_fields(product=product)


def change_variations(
    *, product: Product, upsert: Sequence[Mapping[str, Any]], removed_ids: Sequence[int], now: datetime
) -> None:
    """Change and add the variations in `upsert`, delete those in `removed_ids`, and leave all others.

    The caller holds the product's row lock. Raises ValidationFailed.
    """
    own_ids = set(product.variations.values_list("pk", flat=True))
    for position, variation_id in enumerate(removed_ids):
        if variation_id not in own_ids:
            raise ValidationFailed({f"variation_options.delete.{position}": [UNKNOWN_VARIATION]})
    _write(product, upsert, set(removed_ids), "variation_options.upsert", now)
    _delete_unused_links(product)
    refresh_derived_fields(product=product)


def set_attribute_values(*, product: Product, value_ids: Sequence[int]) -> None:
    """Replace the attribute values in which the variations of a product may differ.

    The values' attributes are locked, so that no value is deleted meanwhile. Call it before variations are written,
    and `require_listed_values` afterwards. Raises ValidationFailed for a value of another shop.
    """
    of_shop = Attribute.objects.filter(shop=product.shop_id, values__in=value_ids).values("pk")
    attributes = list(Attribute.objects.select_for_update().filter(pk__in=of_shop).order_by("pk"))
    known_ids = set(
        AttributeValue.objects.filter(attribute__in=attributes, pk__in=value_ids).values_list("pk", flat=True)
    )
    for position, value_id in enumerate(value_ids):
        if value_id not in known_ids:
            message = "The product's shop has no attribute value with this id."
            raise ValidationFailed({f"variations.{position}.attribute_value_id": [message]})
    links = ProductValue.objects.filter(product=product)
    links.exclude(value__in=known_ids).delete()
    existing_ids = set(links.values_list("value_id", flat=True))
    new_ids = [value_id for value_id in dict.fromkeys(value_ids) if value_id not in existing_ids]
    ProductValue.objects.bulk_create([ProductValue(product=product, value_id=value_id) for value_id in new_ids])


def require_listed_values(*, product: Product) -> None:
    """Raise ValidationFailed if a variation uses a value that the product does not have."""
    links = VariationValue.objects.filter(variation__product=product).select_related("variation", "value")
    unlisted = links.exclude(value__in=product.value_links.values("value")).first()
    if unlisted is not None:
        message = (
            f"The variation {unlisted.variation.title!r} uses the value {unlisted.value.value!r} "
            f"(id {unlisted.value_id}): list this value, or delete the variation."
        )
        raise ValidationFailed({"variations": [message]})


def delete_value_links(*, product: Product) -> None:
    """Delete the product's attribute values and its variations' links to them, so that a shop may delete the values."""
    VariationValue.objects.filter(variation__product=product).delete()
    ProductValue.objects.filter(product=product).delete()


def refresh_derived_fields(*, product: Product) -> None:
    """Set the product's quantity and prices to those of its variations."""
    selling_price = Coalesce("sale_price", "price")
    totals = product.variations.live().aggregate(
        lowest_quantity=Min("quantity"),
        quantity=Coalesce(Sum("quantity"), 0),
        lowest=Min(selling_price),
        highest=Max(selling_price),
    )
    product.lowest_variation_price, product.highest_variation_price = totals["lowest"], totals["highest"]
    product.lowest_variation_quantity = totals["lowest_quantity"]
    if product.product_type == Product.Kind.VARIABLE:
        product.quantity = totals["quantity"]
        product.price, product.sale_price = totals["lowest"] or 0, None
    product.save()
    product.refresh_from_db(fields=["min_price", "max_price"])  # generated by the database


UNKNOWN_VARIATION = "This product has no variation with this id, or the id is sent twice."


def _write(
    product: Product, items: Sequence[Mapping[str, Any]], removed_ids: Collection[int], path: str, now: datetime
) -> None:
    """Delete the variations in `removed_ids`, and save and link those in `items`. `path` leads to an item in errors."""
    existing = {variation.pk: variation for variation in product.variations.live()}
    product.variations.live().filter(pk__in=removed_ids).update(deleted_at=now)
    remaining_count = len(existing.keys() - set(removed_ids)) + sum(item.get("id") is None for item in items)
    if remaining_count > MAX_VARIATIONS:
        message = f"A product has at most {MAX_VARIATIONS} variations; with these it would have {remaining_count}."
        raise ValidationFailed({path: [message]})
    variations = _validated_variations(
        product, items, {pk: row for pk, row in existing.items() if pk not in removed_ids}, path
    )
    _save(variations, now)
    _link_values(product, dict(zip(variations, items, strict=True)), path)


def _validated_variations(
    product: Product, items: Sequence[Mapping[str, Any]], existing: dict[int, Variation], path: str
) -> list[Variation]:
    variations = []
    for position, item in enumerate(items):
        variation_id = item.get("id")
        variation = Variation(product=product) if variation_id is None else existing.pop(variation_id, None)
        if variation is None:
            raise ValidationFailed({f"{path}.{position}": [UNKNOWN_VARIATION]})
        for name in COLUMNS:
            if name in item:
                setattr(variation, name, item[name])
        if variation.sale_price is not None and variation.sale_price > variation.price:
            raise ValidationFailed({f"{path}.{position}": ["The sale price must not be above the price."]})
        variations.append(variation)
    pieces = sum(variation.quantity for variation in existing.values())
    for position, variation in enumerate(variations):
        pieces += variation.quantity
        if pieces > MAX_QUANTITY:
            message = f"All variations of a product together have at most {MAX_QUANTITY} pieces."
            raise ValidationFailed({f"{path}.{position}.quantity": [message]})
    return variations


def _save(variations: Sequence[Variation], now: datetime) -> None:
    changed = [variation for variation in variations if variation.pk]
    for variation in changed:
        variation.updated_at = now
    Variation.objects.bulk_update(changed, [*COLUMNS, "updated_at"])
    Variation.objects.bulk_create([variation for variation in variations if not variation.pk])


def _link_values(product: Product, items: Mapping[Variation, Mapping[str, Any]], path: str) -> None:
    """Link the variations to the product's values that their options name.

    A product without attribute values has options of free text. Raises ValidationFailed for an option that is no value
    of the product, and for two variations with the same combination.
    """
    values = {
        (value.attribute.name, value.value): value
        for value in product.attribute_values.select_related("attribute").order_by("pk")
    }
    if not values:
        return
    for position, (variation, item) in enumerate(items.items()):
        if "options" not in item:
            continue
        linked = _values_of_options(item["options"], values, f"{path}.{position}.options")
        VariationValue.objects.filter(variation=variation).delete()
        VariationValue.objects.bulk_create([VariationValue(variation=variation, value=value) for value in linked])
    _require_different_combinations(product, list(items), path)


def _values_of_options(
    options: Sequence[Mapping[str, str]], values: Mapping[tuple[str, str], AttributeValue], path: str
) -> list[AttributeValue]:
    linked: dict[int, AttributeValue] = {}
    for position, option in enumerate(options):
        value = values.get((option["name"], option["value"]))
        if value is None:
            known = "; ".join(f"{name}: {text}" for name, text in list(values)[:MAX_LISTED_VALUES])
            message = f"{option['name']}: {option['value']} is no value of this product. It has {known}."
            raise ValidationFailed({f"{path}.{position}": [message]})
        if linked.setdefault(value.attribute_id, value) is not value:
            raise ValidationFailed({f"{path}.{position}": [f"A variation has one value of {option['name']}."]})
    return list(linked.values())


def _require_different_combinations(product: Product, written: Sequence[Variation], path: str) -> None:
    combinations: dict[int, set[int]] = {}
    links = VariationValue.objects.filter(variation__product=product, variation__deleted_at=None)
    for variation_id, value_id in links.values_list("variation_id", "value_id"):
        combinations.setdefault(variation_id, set()).add(value_id)
    for position, variation in enumerate(written):
        combination = combinations.get(variation.pk)
        others = [other for pk, other in combinations.items() if pk != variation.pk]
        if combination is not None and combination in others:
            raise ValidationFailed({f"{path}.{position}": ["Another variation of this product has the same options."]})


def _delete_unused_links(product: Product) -> None:
    """Delete the links of deleted variations, also of those deleted in the admin."""
    VariationValue.objects.filter(variation__product=product, variation__deleted_at__isnull=False).delete()
