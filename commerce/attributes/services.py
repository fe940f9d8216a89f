"""Making, changing and deleting attributes. Whoever writes owns the shop, and the shop that they move one to."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from commerce.attributes.models import Attribute
from commerce.attributes.values import require_room, set_values
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, ValidationFailed
from shared.api.slugs import save_with_slug

MOST_OF_A_SHOP = 1_000


@transaction.atomic
def create_attribute(
    *,
    actor: User,
    shop_id: int,
    name: str,
    language: str = "en",
    slug: str = "",
    values: Sequence[Mapping[str, Any]] = (),
    now: datetime,
) -> Attribute:
    """A new attribute of the shop, with its values. `slug` is that of its translations, where it has any; a slug that
    is taken gets a suffix. Raises ApiError 403 for somebody else's shop, ValidationFailed."""
    require_shop(actor=actor, shop_id=shop_id)
    require_few(shop_id=shop_id, more=1)
    attribute = Attribute(shop_id=shop_id, name=name, language=language, created_at=now, updated_at=now)

    def save(free: str) -> None:
        attribute.slug = free
        attribute.save(force_insert=True)

    save_with_slug(save, Attribute.objects.taking_slugs(shop_id, language), slug or name)
    set_values(attribute=attribute, wanted=values)
    return attribute


@transaction.atomic
def update_attribute(*, actor: User, attribute_id: int, changes: Mapping[str, Any], now: datetime) -> Attribute:
    """Changes `name`, `shop_id` and `values`, those that are named; `values` is the whole list. The slug stays. Raises
    ApiError 404, 403 unless the actor owns both the shop it is in and the one it goes to, ValidationFailed."""
    attribute = _to_change(actor, attribute_id)
    if changes.get("shop_id", attribute.shop_id) != attribute.shop_id:
        require_shop(actor=actor, shop_id=changes["shop_id"])
        require_few(shop_id=changes["shop_id"], more=1)
        attribute.shop_id = changes["shop_id"]
    attribute.name = changes.get("name", attribute.name)
    attribute.updated_at = now
    attribute.save()
    if "values" in changes:
        set_values(attribute=attribute, wanted=changes["values"])
    require_room(shop_id=attribute.shop_id)
    return attribute


@transaction.atomic
def delete_attribute(*, actor: User, attribute_id: int) -> None:
    """Deletes the attribute in this language, with its values. Raises ApiError 404, 403."""
    _to_change(actor, attribute_id).delete()


def require_shop(*, actor: User, shop_id: int) -> Shop:
    """The shop, which the actor owns, or of which a super admin may name any. Raises ApiError 403 for another's and for
    one that is not there; to a super admin ValidationFailed."""
    shop = Shop.objects.filter(pk=shop_id).first()
    if actor.role == Role.SUPER_ADMIN:
        if shop is None:
            raise ValidationFailed({"shop_id": ["There is no shop with this id."]})
        return shop
    if shop is None or shop.owner_id != actor.pk:
        raise ApiError(403, "Only the owner of a shop changes its attributes.")
    return shop


def require_few(*, shop_id: int, more: int) -> None:
    """Raises ValidationFailed where a shop would have more attributes than everybody's lists should carry."""
    if more and Attribute.objects.filter(shop=shop_id).count() + more > MOST_OF_A_SHOP:
        raise ValidationFailed({"shop_id": [f"A shop has at most {MOST_OF_A_SHOP} attributes."]})


def _to_change(actor: User, attribute_id: int) -> Attribute:
    attribute = Attribute.objects.select_for_update().filter(pk=attribute_id).first()
    if attribute is None:
        raise ApiError(404, "There is no attribute with this id.")
    require_shop(actor=actor, shop_id=attribute.shop_id)
    return attribute
