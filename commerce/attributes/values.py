"""Writes to the values of attributes, thousands at a time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from commerce.attributes.models import Attribute, AttributeValue
from shared.api.errors import ValidationFailed
from shared.api.slugs import make_slug

MAX_VALUES_PER_ATTRIBUTE = 4_000
MAX_VALUES_PER_SHOP = 20_000
MAX_TEXT_LENGTH_PER_ATTRIBUTE = 400_000  # characters of all values: one attribute fits into an array of 4 MiB


def set_values(*, attribute: Attribute, items: Sequence[Mapping[str, Any]]) -> None:
    """Replace the values of an attribute.

    Items with an id change that value, items without one are new, and values not in the list are deleted. The caller
    holds the attribute's row lock. Raises ValidationFailed, also for a value to delete that a product uses.
    """
    existing = {row.pk: row for row in attribute.values.all()}
    sent_ids: set[int] = set()
    new, changed = [], []
    for position, item in enumerate(items):
        value_id = item.get("id")
        if value_id is None:
            new.append(_assign(AttributeValue(attribute=attribute), item))
            continue
        if value_id not in existing or value_id in sent_ids:
            message = "This attribute has no value with this id, or the id is sent twice."
            raise ValidationFailed({f"values.{position}.id": [message]})
        sent_ids.add(value_id)
        if _differs(existing[value_id], item):
            changed.append(_assign(existing[value_id], item))
    _require_text_limit(attribute, [*new, *(existing[value_id] for value_id in sent_ids)])
    removed = AttributeValue.objects.filter(pk__in=existing.keys() - sent_ids)
    require_unused(removed, field="values")
    removed._raw_delete(removed.db)  # one query; delete() would look for the products of every hundred values again
    save_values(new=new, changed=changed)
    require_shop_value_limit(shop_id=attribute.shop_id)


def require_unused(values: "QuerySet[AttributeValue]", *, field: str) -> None:
    """Raise ValidationFailed, which names the product, if a product has one of the values."""
    used = values.filter(products__isnull=False).order_by("pk").values_list("value", "products__pk", "products__name")
    found = used.first()
    if found is not None:
        value, product_id, name = found
        message = (
            f"The product {name!r} (id {product_id}) uses the value {value!r}. "
            "Take the value off the product and its variations first."
        )
        raise ValidationFailed({field: [message]})


def merge_values(
    *, attribute: Attribute, items: Sequence[Mapping[str, Any]]
) -> tuple[list[AttributeValue], list[AttributeValue]]:
    """Return the values to create and to change so that the attribute has all items.

    No value is deleted, and the same text twice makes two values. Raises ValidationFailed for too many values.
    """
    old = list(attribute.values.all()) if attribute.pk else []
    existing: dict[str, list[AttributeValue]] = defaultdict(list)
    for row in old:
        existing[row.value].append(row)
    new, changed = [], []
    for item in items:
        same = existing[item["value"]]
        row = same.pop(0) if same else AttributeValue(attribute=attribute)
        if not row.pk:
            new.append(_assign(row, item))
        elif _differs(row, item):
            changed.append(_assign(row, item))
    _require_text_limit(attribute, [*old, *new])
    if len(old) + len(new) > MAX_VALUES_PER_ATTRIBUTE:
        raise ValidationFailed(
            {"values": [f"{attribute.name}: an attribute has at most {MAX_VALUES_PER_ATTRIBUTE} values."]}
        )
    return new, changed


def save_values(*, new: Sequence[AttributeValue], changed: Sequence[AttributeValue]) -> None:
    """Save values with one query for several hundred of them."""
    AttributeValue.objects.bulk_update(changed, ["value", "meta", "slug"], batch_size=500)
    AttributeValue.objects.bulk_create(new, batch_size=1000)


def require_shop_value_limit(*, shop_id: int) -> None:
    """Raise ValidationFailed if the shop has too many values: lists of all shops carry them."""
    if AttributeValue.objects.filter(attribute__shop=shop_id).count() > MAX_VALUES_PER_SHOP:
        raise ValidationFailed({"values": [f"A shop has at most {MAX_VALUES_PER_SHOP} values in all its attributes."]})


def _require_text_limit(attribute: Attribute, rows: Sequence[AttributeValue]) -> None:
    if (length := sum(len(row.value) + len(row.meta) for row in rows)) > MAX_TEXT_LENGTH_PER_ATTRIBUTE:
        message = f"{attribute.name}: value and meta of all values have {length} characters together; at most "
        raise ValidationFailed({"values": [f"{message}{MAX_TEXT_LENGTH_PER_ATTRIBUTE} are allowed."]})


def _differs(row: AttributeValue, item: Mapping[str, Any]) -> bool:
    return (row.value, row.meta) != (item["value"], item.get("meta", row.meta))


def _assign(row: AttributeValue, item: Mapping[str, Any]) -> AttributeValue:
    row.value, row.meta = item["value"], item.get("meta", row.meta)
    row.slug = make_slug(row.value)[:255]
    return row
