"""Writing the values of attributes, thousands at a time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.text import slugify

from commerce.attributes.models import Attribute, AttributeValue
from shared.api.errors import ValidationFailed

MOST_OF_AN_ATTRIBUTE = 4_000
MOST_OF_A_SHOP = 20_000


def set_values(*, attribute: Attribute, wanted: Sequence[Mapping[str, Any]]) -> None:
    """`wanted` is the whole list: those with an id are changed, those without are new, the others are deleted. In the
    transaction of a caller who holds the attribute's lock. Raises ValidationFailed."""
    known = {row.pk: row for row in attribute.values.all()}
    kept: set[int] = set()
    new, changed = [], []
    for position, given in enumerate(wanted):
        identity = given.get("id")
        if identity is None:
            new.append(_filled(AttributeValue(attribute=attribute), given))
            continue
        if identity not in known or identity in kept:
            message = "This attribute has no value with this id, or it is named twice."
            raise ValidationFailed({f"values.{position}.id": [message]})
        kept.add(identity)
        if _differs(known[identity], given):
            changed.append(_filled(known[identity], given))
    AttributeValue.objects.filter(pk__in=known.keys() - kept).delete()
    save_values(new=new, changed=changed)
    require_room(shop_id=attribute.shop_id)


def merge_values(
    *, attribute: Attribute, given: Sequence[Mapping[str, Any]]
) -> tuple[list[AttributeValue], list[AttributeValue]]:
    """The values to make and to change, so that the attribute has all that are given. None is deleted; the same text
    twice is two values. Raises ValidationFailed where they would be too many."""
    known: dict[str, list[AttributeValue]] = defaultdict(list)
    for row in attribute.values.all() if attribute.pk else ():
        known[row.value].append(row)
    had = sum(map(len, known.values()))
    new, changed = [], []
    for value in given:
        same = known[value["value"]]
        row = same.pop(0) if same else AttributeValue(attribute=attribute)
        if not row.pk:
            new.append(_filled(row, value))
        elif _differs(row, value):
            changed.append(_filled(row, value))
    if had + len(new) > MOST_OF_AN_ATTRIBUTE:
        raise ValidationFailed(
            {"values": [f"{attribute.name}: an attribute has at most {MOST_OF_AN_ATTRIBUTE} values."]}
        )
    return new, changed


def save_values(*, new: Sequence[AttributeValue], changed: Sequence[AttributeValue]) -> None:
    """A query for a few hundred of them."""
    AttributeValue.objects.bulk_update(changed, ["value", "meta", "slug"], batch_size=500)
    AttributeValue.objects.bulk_create(new, batch_size=1000)


def require_room(*, shop_id: int) -> None:
    """Raises ValidationFailed where a shop has more values than everybody's lists should carry."""
    if AttributeValue.objects.filter(attribute__shop=shop_id).count() > MOST_OF_A_SHOP:
        raise ValidationFailed({"values": [f"A shop has at most {MOST_OF_A_SHOP} values in all its attributes."]})


def _differs(row: AttributeValue, given: Mapping[str, Any]) -> bool:
    return (row.value, row.meta) != (given["value"], given.get("meta", row.meta))


def _filled(row: AttributeValue, given: Mapping[str, Any]) -> AttributeValue:
    row.value, row.meta = given["value"], given.get("meta", row.meta)
    row.slug = slugify(row.value)[:255]
    return row
