"""Import of a CSV file's attributes into a shop, all of them or none."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from commerce.attributes.csv_files import CsvAttribute
from commerce.attributes.models import Attribute, AttributeValue
from commerce.attributes.services import require_attribute_limit, require_owned_shop
from commerce.attributes.values import merge_values, require_shop_value_limit, save_values
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.slugs import save_all_with_unique_slugs


@dataclass(frozen=True, kw_only=True)
class ImportCounts:
    """Numbers of new attributes, and of new or changed values."""

    attributes: int
    values: int


@transaction.atomic
def import_attributes(*, actor: User, shop_id: int, attributes: Sequence[CsvAttribute], now: datetime) -> ImportCounts:
    """Create the attributes and values that the shop does not have, and change the `meta` of those that it has.

    Nothing is deleted, and importing the same file again changes nothing. An attribute is matched by slug and language,
    else by name and language. Raises ApiError 403 and ValidationFailed.
    """
    require_owned_shop(actor=actor, shop_id=shop_id)
    Shop.objects.select_for_update().get(pk=shop_id)  # two imports at once would both create the same attributes
    matcher = _AttributeMatcher(shop_id)
    values_by_attribute: dict[int, tuple[Attribute, list[dict[str, str]]]] = {}
    for imported in attributes:
        attribute = matcher.get_or_add(imported, now)
        values_by_attribute.setdefault(id(attribute), (attribute, []))[1].extend(imported.values)
    require_attribute_limit(shop_id=shop_id, added=len(matcher.new))
    new, changed = _merge_all(list(values_by_attribute.values()))
    save_all_with_unique_slugs(matcher.new, _is_free)
    save_values(new=new, changed=changed)
    require_shop_value_limit(shop_id=shop_id)
    return ImportCounts(attributes=len(matcher.new), values=len(new) + len(changed))


def _is_free(attribute: Attribute, owners: Collection[tuple[str, int]]) -> bool:
    """Return whether the slug is free, by the rule of `AttributeQuerySet.with_unavailable_slugs`."""
    return all(language != attribute.language and shop_id == attribute.shop_id for language, shop_id in owners)


def _merge_all(
    values_by_attribute: Sequence[tuple[Attribute, list[dict[str, str]]]],
) -> tuple[list[AttributeValue], list[AttributeValue]]:
    merged = [merge_values(attribute=attribute, items=items) for attribute, items in values_by_attribute]
    return [row for new, _ in merged for row in new], [row for _, changed in merged for row in changed]


class _AttributeMatcher:
    """The shop's attributes by slug and by name, and the new ones that the file adds."""

    def __init__(self, shop_id: int) -> None:
        self.shop_id = shop_id
        self.new: list[Attribute] = []
        rows = list(Attribute.objects.filter(shop=shop_id).prefetch_related("values").order_by("-id"))
        self._by_slug = {(row.slug, row.language): row for row in rows}
        self._by_name = {(row.name, row.language): row for row in rows}  # the oldest of each name

    def get_or_add(self, imported: CsvAttribute, now: datetime) -> Attribute:
        attribute = self._by_slug.get((imported.slug, imported.language)) or self._by_name.get(
            (imported.name, imported.language)
        )
        if attribute is None:
            attribute = Attribute(
                shop_id=self.shop_id,
                name=imported.name,
                slug=imported.slug or imported.name,
                language=imported.language,
                created_at=now,
                updated_at=now,
            )
            self.new.append(attribute)
            self._by_name[imported.name, imported.language] = attribute
        return attribute
