"""Taking the attributes of a sheet into a shop: all of them, or none."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from commerce.attributes.models import Attribute, AttributeValue
from commerce.attributes.services import require_few, require_shop
from commerce.attributes.spreadsheets import SheetAttribute
from commerce.attributes.values import merge_values, require_room, save_values
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.api.slugs import slug_candidates

TRIES = 5


@dataclass(frozen=True, kw_only=True)
class Imported:
    """How many attributes are new, and how many values are new or changed."""

    attributes: int
    values: int


@transaction.atomic
def import_attributes(*, actor: User, shop_id: int, sheet: Sequence[SheetAttribute], now: datetime) -> Imported:
    """Makes the attributes and values that the shop does not have, and changes the `meta` of those that it has;
    nothing is deleted, and a second time changes nothing. An attribute is the shop's own with the same slug and
    language, else the one with the same name and language. Raises ApiError 403, ValidationFailed."""
    require_shop(actor=actor, shop_id=shop_id)
    Shop.objects.select_for_update().get(pk=shop_id)  # two imports at once would both make what neither had found
    known = _Known(shop_id)
    wanted: dict[int, tuple[Attribute, list[dict[str, str]]]] = {}
    for line in sheet:
        attribute = known.find_or_new(line, now)
        wanted.setdefault(id(attribute), (attribute, []))[1].extend(line.values)
    require_few(shop_id=shop_id, more=len(known.new))
    new, changed = _merged(list(wanted.values()))
    _save_with_slugs(known.new)
    save_values(new=new, changed=changed)
    require_room(shop_id=shop_id)
    return Imported(attributes=len(known.new), values=len(new) + len(changed))


def _save_with_slugs(attributes: Sequence[Attribute]) -> None:
    """Saves all at once with slugs that are free, which are looked up at once. A row comes with what its slug is to be
    made of."""
    candidates = [slug_candidates(attribute.slug) for attribute in attributes]
    for _ in range(TRIES):
        taken: dict[str, set[tuple[str, int]]] = defaultdict(set)
        rows = Attribute.objects.filter(slug__in={slug for slugs in candidates for slug in slugs})
        for slug, language, shop_id in rows.values_list("slug", "language", "shop_id"):
            taken[slug].add((language, shop_id))
        for attribute, slugs in zip(attributes, candidates, strict=True):
            attribute.slug = next((slug for slug in slugs if _is_free(attribute, taken[slug])), slugs[-1])
            taken[attribute.slug].add((attribute.language, attribute.shop_id))
        try:
            with transaction.atomic():
                Attribute.objects.bulk_create(attributes)
            return
        except IntegrityError as error:  # somebody took one in between
            collision = error
    raise ApiError(409, "Somebody else is taking the same slugs. Try again.") from collision


def _is_free(attribute: Attribute, holders: Collection[tuple[str, int]]) -> bool:
    """As `taking_slugs` says, over rows that are in memory."""
    return all(language != attribute.language and shop_id == attribute.shop_id for language, shop_id in holders)


def _merged(
    wanted: Sequence[tuple[Attribute, list[dict[str, str]]]],
) -> tuple[list[AttributeValue], list[AttributeValue]]:
    merged = [merge_values(attribute=attribute, given=given) for attribute, given in wanted]
    return [row for new, _ in merged for row in new], [row for _, changed in merged for row in changed]


class _Known:
    """What the shop has, and what the sheet adds to it."""

    def __init__(self, shop_id: int) -> None:
        self.shop_id = shop_id
        self.new: list[Attribute] = []
        rows = list(Attribute.objects.filter(shop=shop_id).prefetch_related("values").order_by("-id"))
        self._by_slug = {(row.slug, row.language): row for row in rows}
        self._by_name = {(row.name, row.language): row for row in rows}  # the oldest of a name

    def find_or_new(self, line: SheetAttribute, now: datetime) -> Attribute:
        found = self._by_slug.get((line.slug, line.language)) or self._by_name.get((line.name, line.language))
        if found is None:
            found = Attribute(
                shop_id=self.shop_id, name=line.name, slug=line.slug or line.name, language=line.language,
                created_at=now, updated_at=now,
            )  # fmt: skip
            self.new.append(found)
            self._by_name[line.name, line.language] = found
        return found
